package ztensor

import (
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/names"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

// overlaps looks for components that share some of their bytes, but not all.
func (x *index) overlaps(report func(a, b *component) bool) {
	if !x.jumbled || disjoint(x.components.used, x.extents()) {
		return
	}
	overlaps(slices.Collect(x.extents()), func(i, j int) bool { return report(x.components.at(i), x.components.at(j)) })
}

// extents yields where the components lie, in the order of the manifest.
func (x *index) extents() iter.Seq[extent] {
	return func(yield func(extent) bool) {
		for c := range x.components.all() {
			if !yield(extent{c.offset, c.length}) {
				return
			}
		}
	}
}

// ownAttributes is the attribute map of one tensor, as CBOR.
type ownAttributes struct {
	tensor  int
	encoded []byte
}

func partField(object, part string) string {
	return "objects[" + quote.Name(object) + "].parts[" + quote.Name(part) + "]"
}

// ownCBOR returns the attributes of the tensor of that name, encoded.
func (r *index) ownCBOR(name string) []byte {
	i := r.find(name)
	for _, own := range r.ownAttrs {
		if own.tensor == i {
			return own.encoded
		}
	}
	return nil
}

// digestOf returns the algorithm of the digest of a tensor of version 1.
func (r *file) digestOf(name string) Digest {
	t := r.Tensor(name)
	blobs := []tensor.Blob{t.Data}
	for i := range t.Parts {
		blobs = append(blobs, t.Parts[i].Data)
	}
	for _, b := range blobs {
		if c, ok := b.Source().(*component); ok {
			if want, ok, err := c.wanted(); ok && err == nil {
				return want.alg
			}
		}
	}
	return NoDigest
}

// cutKey keeps a path with a key from the file readable.
func cutKey(key []byte) string {
	s := quote.Name(string(key))
	return s[1 : len(s)-1]
}

// reserve makes room for n tensors of one component.
func (x *index) reserve(n int) {
	if n > 0 {
		x.tensors.reserve(n)
		x.components.reserve(n)
	}
}

// An index is what the manifest of any generation comes down to.
type index struct {
	version    string
	generator  string
	list       string // what the manifest calls the list of tensors, for errors
	tensors    slab[tensor.Tensor]
	components slab[component]
	unusual    slab[unusual]
	blobs      slab[blob]
	dims       slab[int64]
	parts      slab[tensor.Part]
	byName     *names.Table    // nil: the names ascend
	attributes []byte          // a CBOR map; nil where the file has none
	ownAttrs   []ownAttributes // of tensors, ascending
	warnings   warnings
	warned     sync.Once // the overlaps are among them
	jumbled    bool      // components do not ascend in the file

	manifestAt, manifestSize int64

	owned bool       // the manifest is memory of ours, which lasts as long as anything points into it
	kept  slab[byte] // copies of what lasts, where it is not
}

// keep returns bytes of the manifest as a string that lasts.
func (x *index) keep(b []byte) string { return le.String(x.keepBytes(b)) }

func (x *index) keepString(s string) string {
	if x.owned || len(s) == 0 {
		return s
	}
	return le.String(append(x.room(len(s))[:0], s...))
}

func (x *index) keepBytes(b []byte) []byte {
	if x.owned || len(b) == 0 {
		return b
	}
	return append(x.room(len(b))[:0], b...)
}

// room takes n bytes for what is kept.
func (x *index) room(n int) []byte {
	if cap(x.kept.last) == 0 {
		x.kept.reserve(max(n, int(x.manifestSize/3))) // names are a third of most manifests
	}
	return x.kept.take(n)
}

// shape returns a copy of dims that lasts: a part of first, if that has room.
func (x *index) shape(first *component, dims []int64) tensor.Shape {
	var s tensor.Shape
	switch n := len(dims); {
	case n == 0:
		return tensor.Shape{}
	case first != nil && n <= len(first.dims):
		s = first.dims[:n:n]
	default:
		if x.dims.used == 0 {
			x.dims.reserve(n * min(cap(x.tensors.last), 1<<14))
		}
		s = x.dims.take(n)
	}
	copy(s, dims)
	return s
}

// path returns the path of c in the manifest, for errors.
func (x *index) path(c *component) string { return x.field(c.t.Name, roleOf(c.t, c)) }

// roleOf returns the role in which a tensor has a payload.
func roleOf(t *tensor.Tensor, payload tensor.Source) string {
	for i := range t.Parts {
		if t.Parts[i].Data.Source() == payload {
			return t.Parts[i].Role
		}
	}
	return "data"
}

// field is the path of a component in the manifest's own words.
func (x *index) field(name, role string) string {
	if x.version == "0.1" {
		return fmt.Sprintf("%s[%s]", x.list, quote.Name(name))
	}
	return fmt.Sprintf("%s[%s].components[%s]", x.list, quote.Name(name), quote.Name(role))
}

// sortNames makes look-up by name possible where names do not ascend, and
// returns the index of the first tensor whose name was there before, or -1.
func (x *index) sortNames() (dup int) {
	x.byName, dup = names.Build(x.tensors.used, func(i int) string { return x.tensors.at(i).Name })
	return dup
}

// find returns the index of the first tensor of that name, or -1.
func (x *index) find(name string) int {
	if x.byName != nil {
		return x.byName.Lookup(name)
	}
	byLength := x.version == "2" // CBOR's order: shorter names first
	i, ok := sort.Find(x.tensors.used, func(i int) int {
		have := x.tensors.at(i).Name
		if byLength && len(name) != len(have) {
			return len(name) - len(have)
		}
		return strings.Compare(name, have)
	})
	if !ok {
		return -1
	}
	return i
}

// maxWarnings bounds the memory that a hostile file can make its warnings take.
const maxWarnings = 1000

type warnings struct {
	list []error
	more int
}

func (w *warnings) add(off int64, field string, err error) {
	if len(w.list) < maxWarnings {
		w.list = append(w.list, &tensor.FormatError{Format: format, Offset: off, Field: field, Err: err})
		return
	}
	w.more++
	w.list[maxWarnings-1] = &tensor.FormatError{Format: format, Offset: -1, Err: fmt.Errorf("%d more warnings", w.more+1)}
}

// attributesOf returns the attributes of one of the tensors, encoded.
func (x *index) attributesOf(t *tensor.Tensor) []byte {
	if len(x.ownAttrs) == 0 {
		return nil
	}
	i := x.find(t.Name)
	for i >= 0 && i < x.tensors.used && x.tensors.at(i) != t {
		i++ // a duplicate name, which 0.1 can have; or not one of the file
	}
	i, ok := slices.BinarySearchFunc(x.ownAttrs, i, func(a ownAttributes, i int) int { return a.tensor - i })
	if !ok {
		return nil
	}
	return x.ownAttrs[i].encoded
}
