package core

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

// Extents yields where the components lie, in the order of the manifest.
func (x *Index) Extents() iter.Seq[Extent] {
	return func(yield func(Extent) bool) {
		for c := range x.Payloads.All() {
			if !yield(Extent{c.Offset, c.Length}) {
				return
			}
		}
	}
}

// OwnAttributes is the attribute map of one tensor, as CBOR.
type OwnAttributes struct {
	Tensor  int
	Encoded []byte
}

// OwnCBOR returns the attributes of the tensor of that name, encoded.
func (r *File) OwnCBOR(name string) []byte { return r.AttributesOf(r.Tensor(name)) }

// DigestOf returns the algorithm of the digest of a tensor of version 1.
func (r *File) DigestOf(name string) Digest {
	for _, c := range PayloadsOf(r.Tensor(name)) {
		if want, h, err := c.Wanted(); h != nil && err == nil {
			return want.Alg
		}
	}
	return NoDigest
}

// PayloadsOf lists the payloads of a tensor of an open file, in the order of the
// manifest.
func PayloadsOf(t *tensor.Tensor) []*Payload {
	all := make([]*Payload, 0, 1+len(t.Parts))
	if p, ok := t.Data.Source().(*Payload); ok {
		all = append(all, p)
	}
	for i := range t.Parts {
		if p, ok := t.Parts[i].Data.Source().(*Payload); ok {
			all = append(all, p)
		}
	}
	return all
}

// CutKey keeps a path with a key from the file readable.
func CutKey(key []byte) string {
	s := quote.Name(string(key))
	return s[1 : len(s)-1]
}

// Reserve allocates n tensors of one component.
func (x *Index) Reserve(n int) {
	if n > 0 {
		x.Tensors.Reserve(n)
		x.Payloads.Reserve(n)
		x.reserved = n
	}
}

// An Index is what the manifest of any generation comes down to.
type Index struct {
	Version     string
	Generator   string
	Roles       string // what it calls the parts of one; "" where there is only one
	List        string // what the manifest calls the list of tensors, for errors
	Tensors     slab[tensor.Tensor]
	Payloads    slab[Payload]
	rare        slab[Rare]
	Dims        slab[int64]
	Parts       slab[tensor.Part]
	byName      *names.Table    // nil: the names ascend
	Attributes  []byte          // a CBOR map; nil where the file has none
	OwnAttrs    []OwnAttributes // of tensors, ascending
	WarningList warnings
	warned      sync.Once // the overlaps are among them
	Jumbled     bool      // components do not ascend in the file
	reserved    int       // tensors

	ManifestAt, ManifestSize int64

	owned bool       // the manifest is in memory of its own
	kept  slab[byte] // copies of what lasts, where it is not
}

// Keep returns bytes of the manifest as a string that lasts.
func (x *Index) Keep(b []byte) string { return le.String(x.KeepBytes(b)) }

// KeepString is Keep for a string in the memory of the manifest.
func (x *Index) KeepString(s string) string {
	if x.owned || s == "" {
		return s
	}
	return le.String(append(x.alloc(len(s)), s...))
}

// KeepBytes returns bytes of the manifest in memory that lasts.
func (x *Index) KeepBytes(b []byte) []byte {
	if x.owned || len(b) == 0 {
		return b
	}
	return append(x.alloc(len(b)), b...)
}

// alloc returns memory for n bytes of what is kept.
func (x *Index) alloc(n int) []byte {
	if x.kept.chunks == nil {
		x.kept.Reserve(max(n, int(x.ManifestSize/3))) // names are a third of most manifests
	}
	return x.kept.Take(n)[:0]
}

// Shape returns a copy of dims that lasts.
func (x *Index) Shape(dims []int64) tensor.Shape {
	n := len(dims)
	if n == 0 {
		return tensor.Shape{}
	}
	if x.Dims.Used == 0 {
		x.Dims.Reserve(n * max(1, min(x.reserved, 1<<14)))
	}
	s := x.Dims.Take(n)
	copy(s, dims)
	return s
}

// Path returns the path of c in the manifest, for errors.
func (x *Index) Path(c *Payload) string { return x.Field(c.T.Name, c.Role()) }

// Field is the path of a component in the manifest's own words.
func (x *Index) Field(name, role string) string {
	if x.Roles == "" {
		return fmt.Sprintf("%s[%s]", x.List, quote.Name(name))
	}
	return fmt.Sprintf("%s[%s].%s[%s]", x.List, quote.Name(name), x.Roles, quote.Name(role))
}

// SortNames makes look-up by name possible where names do not ascend, and
// returns the index of the first tensor whose name was there before, or -1.
func (x *Index) SortNames() (dup int) {
	x.byName, dup = names.Build(x.Tensors.Used, func(i int) string { return x.Tensors.At(i).Name })
	return dup
}

// find returns the index of the first tensor of that name, or -1.
func (x *Index) find(name string) int {
	if x.byName != nil {
		return x.byName.Lookup(name)
	}
	byLength := x.Version == "2" // CBOR's order: shorter names first
	i, ok := sort.Find(x.Tensors.Used, func(i int) int {
		have := x.Tensors.At(i).Name
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

// MaxWarnings bounds the memory that a hostile file can make its warnings take.
const MaxWarnings = 1000

type warnings struct {
	list    []error
	dropped int
}

func (w *warnings) Add(off int64, field string, err error) {
	if len(w.list) < MaxWarnings {
		w.list = append(w.list, &tensor.FormatError{Format: Format, Offset: off, Field: field,
			Err: err})
		return
	}
	w.dropped++
	w.list[MaxWarnings-1] = &tensor.FormatError{Format: Format, Offset: -1,
		Err: fmt.Errorf("%d more warnings", w.dropped+1)}
}

// AttributesOf returns the attributes of one of the tensors, encoded.
func (x *Index) AttributesOf(t *tensor.Tensor) []byte {
	if len(x.OwnAttrs) == 0 {
		return nil
	}
	i := x.find(t.Name)
	for i >= 0 && i < x.Tensors.Used && x.Tensors.At(i) != t {
		i++ // a duplicate name, which 0.1 can have; or not one of the file
	}
	i, ok := slices.BinarySearchFunc(x.OwnAttrs, i, func(a OwnAttributes,
		i int) int {
		return a.Tensor - i
	})
	if !ok {
		return nil
	}
	return x.OwnAttrs[i].Encoded
}
