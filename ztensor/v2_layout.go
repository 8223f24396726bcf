package ztensor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
)

// layout2 writes version 2. In canonical form the order of the tensors in the
// file is that of their names, so Add only keeps them; Close, AddAll and Create
// write what has to come first. Otherwise Add writes.
type layout2 struct {
	canonical bool
	level     int
	align     int64

	kept     []*tensor.Tensor // canonical, or batching: to be written
	batching bool             // addAll is at work, and compresses
	last     string           // canonical: the name that was written last
	begun    bool             // there is one
	objects  []entry2
	shards   []cbor.Pair                // names and what the manifest says of them
	others   []cbor.Pair                // other fields of the manifest that is continued
	stored   map[content2][]tensor.Blob // what can be shared, by hash and length
	lengths  map[int64]bool             // of what can be shared
	places   map[content2][]int64       // where those of stored lie
	empty    int64                      // where parts of no bytes lie; 0 is not known yet
	frames   *compressor                // nil before it is needed
	feedBuf  []byte

	profiled map[string]*tensor.Tensor // whose layout has rules for them, once added
}

// content2 is what two blobs have in common that may be the same.
type content2 struct {
	hash   uint64
	length int64
}

// An entry2 is an entry of the manifest.
type entry2 struct {
	object        // whole is nil where the following have it
	parts  []byte // the map of parts
	rest   []byte // shape and layout
}

// A payload2 is a part that is to be written.
type payload2 struct {
	role   string
	dtype  string
	typ    string // the logical type; "" for none
	check  tensor.DType
	odd    bool // half of the last byte must be zero
	data   tensor.Blob
	err    error // of preparing it
	hash   uint64
	hashed bool
	offset int64
	length int64
	size   int64
}

func newLayout2(o settings) (*layout2, error) {
	l := &layout2{
		level: o.Level, align: cmp.Or(o.Alignment, canonical2),
		profiled: map[string]*tensor.Tensor{}, stored: map[content2][]tensor.Blob{}, places: map[content2][]int64{}, lengths: map[int64]bool{},
	}
	switch {
	case o.Digest != NoDigest && o.Digest != XXH3:
		return nil, fmt.Errorf("ztensor: %w: WriterOptions.Digest %v is for versions 1.0 to 1.2; version 2 has xxh3", errors.ErrUnsupported, o.Digest)
	case l.align < floor2 || l.align&(l.align-1) != 0 || l.align > 1<<30:
		return nil, fmt.Errorf("ztensor: WriterOptions.Alignment is %d, not a power of two from %d to 1 GiB", o.Alignment, floor2)
	}
	if l.canonical = o.Canonical; l.canonical && (o.KeepOrder || l.level > 0 || l.align != canonical2) {
		return nil, errors.New("ztensor: WriterOptions.Canonical excludes KeepOrder, Level and Alignment")
	}
	return l, nil
}

func (l *layout2) magic() string { return magic2 }

// scheme2 is the layout that a Scheme stands for, that of version 1 included.
func scheme2(scheme string) string {
	switch scheme {
	case "":
		return "dense"
	case sparse.CSR:
		return layoutCSR
	case sparse.COO:
		return layoutCOO
	case nameless:
		return ""
	}
	return scheme
}

// check says what of a tensor version 2 cannot hold.
func (l *layout2) check(w *writer, t *tensor.Tensor) error {
	if err := l.checkName(t.Name, "the name"); err != nil {
		return err
	}
	switch {
	case len(t.Shape) > maxRank2:
		return fmt.Errorf("%w: %d dimensions, version 2 has at most %d", errors.ErrUnsupported, len(t.Shape), maxRank2)
	case t.Dense() && len(t.Parts) > 0:
		return fmt.Errorf("%w: parts beside the data in version 2", errors.ErrUnsupported)
	case !t.Dense() && len(t.Parts) == 0:
		return fmt.Errorf("%w: %s without parts in version 2", errors.ErrUnsupported, quote.Name(t.Scheme))
	case !t.Dense() && t.Data.Size() != 0:
		return fmt.Errorf("%w: data beside the parts in version 2", errors.ErrUnsupported)
	}
	elements := uint64(1)
	for _, d := range t.Shape {
		var ok bool
		if elements, ok = mul(elements, uint64(d)); !ok {
			return fmt.Errorf("%w: the product of %v from the left overflows", errors.ErrUnsupported, t.Shape)
		}
	}
	for i := range t.Parts {
		if err := l.checkName(t.Parts[i].Role, "the name of a part"); err != nil {
			return err
		}
	}
	for _, p := range l.payloads(t) {
		if p.dtype == "" {
			return fmt.Errorf("%w: part %s of %v in version 2", errors.ErrUnsupported, quote.Name(p.role), p.check)
		}
	}
	if t.Dense() || t.Size() < 0 {
		return nil
	}
	return checkLayout(l.as2(t), elements, w.own[t.Name])
}

// checkAttributes holds a tensor that has been added against other attributes.
func (l *layout2) checkAttributes(name string, attributes []byte) error {
	t := l.profiled[name]
	if t == nil {
		return nil
	}
	elements, _ := t.Shape.Elements()
	if err := checkLayout(t, uint64(elements), attributes); err != nil {
		return fmt.Errorf("ztensor: tensor %s: %w", quote.Name(name), err)
	}
	return nil
}

func (l *layout2) checkName(name, what string) error {
	switch {
	case len(name) == 0 || len(name) > maxName2 || strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("%w: %s is not one of version 2, which has 1 to %d bytes without NUL", errors.ErrUnsupported, what, maxName2)
	case l.canonical && !norm.NFC.IsNormalString(name):
		return fmt.Errorf("%w: %s %s is not in NFC, as canonical form wants it", errors.ErrUnsupported, what, quote.Name(name))
	}
	return nil
}

// as2 is t in the words of version 2. The indices of version 1, which 1.0 gives
// no type and 1.2 any, are uint64 unless they are uint32.
func (l *layout2) as2(t *tensor.Tensor) *tensor.Tensor {
	if t.Scheme != sparse.CSR && t.Scheme != sparse.COO {
		return t
	}
	as := *t
	as.Scheme = scheme2(t.Scheme)
	as.Parts = slices.Clone(t.Parts)
	wide := false // one of the indices is of a type that version 2 does not have for them, or of another than the rest
	var first tensor.DType
	for i := range as.Parts {
		p := &as.Parts[i]
		index := slices.Contains(indexRoles, p.Role)
		if p.DType == tensor.Unknown && index {
			p.DType = tensor.U64
		} else if p.DType == tensor.Unknown && p.Role == "values" {
			p.DType = t.DType
		}
		if index {
			first = cmp.Or(first, p.DType)
			wide = wide || p.DType != first || p.DType != tensor.U32 && p.DType != tensor.U64
		}
	}
	for i := range as.Parts {
		if p := &as.Parts[i]; wide && slices.Contains(indexRoles, p.Role) {
			*p = sparse.Widen(context.Background(), *p)
		}
	}
	return &as
}

// payloads lists the parts in the order in which they lie in the file.
func (l *layout2) payloads(t *tensor.Tensor) []payload2 {
	one := func(role string, d tensor.DType, data tensor.Blob) payload2 {
		p := payload2{role: role, check: d, data: data}
		if p.dtype, p.typ = typeWords2(d); d == tensor.Unknown {
			if b, ok := data.Source().(*blob); ok && b.more != nil && b.more.logical != "" { // nobody's, and not ours to drop
				p.dtype, _ = typeWords2(b.more.storage)
				p.typ = b.more.logical
			}
		}
		return p
	}
	if t.Dense() {
		p := one("data", t.DType, t.Data)
		p.odd = halfByte(t)
		return []payload2{p}
	}
	t = l.as2(t)
	all := make([]payload2, len(t.Parts))
	for i, p := range t.Parts {
		all[i] = one(p.Role, p.DType, p.Data)
	}
	slices.SortFunc(all, func(a, b payload2) int { return strings.Compare(a.role, b.role) })
	return all
}
