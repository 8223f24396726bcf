package v2

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/unicode/norm"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
)

// Layout writes version 2. In canonical form the order of the tensors in the
// file is that of their names, so Add only keeps them; Close, AddAll and Create
// write what has to come first. Otherwise Add writes.
type Layout struct {
	canonical bool
	level     int
	align     int64

	kept    []keptTensor // to be written
	last    string       // canonical: the name that was written last
	begun   bool         // there is one
	objects []entry
	shards  []cbor.Pair              // names and what the manifest says of them
	others  []cbor.Pair              // other fields of the manifest that is continued
	stored  map[content][]core.Piece // what can be shared
	lengths map[int64]bool           // of what can be shared
	empty   int64                    // where parts of no bytes are; 0 is not known yet
	frames  *zstd.Encoder            // of frames; nil for none
	group   []byte                   // that is to be compressed, of the part that is streamed
	used    [][]byte                 // memory for compressed frames

	profiled map[string]*tensor.Tensor // whose layout has rules for them, once added
}

// content is what two blobs have in common that may be the same.
type content struct {
	digest string
	length int64
}

// An entry is what the manifest says of an object.
type entry struct {
	name string
	body cbor.Builder
}

func NewLayout(o core.Settings) (*Layout, error) {
	l := &Layout{
		level: o.Level, align: cmp.Or(o.Alignment, CanonicalAlignment),
		profiled: map[string]*tensor.Tensor{},
		stored:   map[content][]core.Piece{}, lengths: map[int64]bool{},
	}
	if l.align < MinAlignment || l.align&(l.align-1) != 0 || l.align > 1<<30 {
		return nil, fmt.Errorf("ztensor: WriterOptions.Alignment is %d, not a power of two "+
			"from %d to 1 GiB", o.Alignment, MinAlignment)
	}
	l.canonical = o.Canonical
	if l.canonical && (o.KeepOrder || l.level > 0 || l.align != CanonicalAlignment) {
		return nil, errors.New("ztensor: WriterOptions.Canonical excludes KeepOrder, Level and " +
			"Alignment")
	}
	if l.level == 0 {
		return l, nil
	}
	var err error
	l.frames, err = core.NewEncoder(l.level, zstd.WithEncoderConcurrency(0),
		zstd.WithWindowSize(frameSize))
	return l, err
}

func (l *Layout) Magic() string { return core.Magic2 }

// layoutName returns the layout that a Scheme stands for, that of version 1 included.
func layoutName(scheme string) string {
	switch scheme {
	case "":
		return "dense"
	case sparse.CSR:
		return layouts.CSR
	case sparse.COO:
		return layouts.COO
	case nameless:
		return ""
	}
	return scheme
}

// CheckName applies the rules for names of objects (§3.5).
func (l *Layout) CheckName(name string) error { return l.checkName(name, "the name") }

// Check returns what of a tensor version 2 cannot represent.
func (l *Layout) Check(w *core.Writer, t *tensor.Tensor) error {
	switch {
	case len(t.Shape) > maxRank:
		return core.Unsupported("%d dimensions, version 2 has at most %d", len(t.Shape), maxRank)
	case t.Dense() && len(t.Parts) > 0:
		return core.Unsupported("parts in addition to the data in version 2")
	case !t.Dense() && len(t.Parts) == 0:
		return core.Unsupported("%s without parts in version 2", naming.Quote(t.Scheme))
	case !t.Dense() && t.Data.Size() != 0:
		return core.Unsupported("data in addition to the parts in version 2")
	}
	for i := range t.Parts {
		if err := l.checkName(t.Parts[i].Role, "the name of a part"); err != nil {
			return err
		}
	}
	for _, p := range l.payloads(t) {
		if p.Word == "" {
			return core.Unsupported("part %s of %v in version 2", naming.Quote(p.Role), p.DType)
		}
	}
	if t.Dense() || t.Size() < 0 {
		return nil
	}
	elements, _ := t.Shape.Elements()
	return layouts.Check(l.normalize(t), uint64(elements), w.Own[t.Name])
}

// AppendAttributes encodes a map in the one form of version 2.
func (l *Layout) AppendAttributes(attributes map[string]any, depth int) ([]byte, error) {
	return core.EncodeAttributes(attributes, byLength,
		func(name string, value []byte) ([]byte, error) {
			if err := l.checkName(name, "the name of an attribute"); err != nil {
				return nil, err
			}
			value, err := cbor.Deterministic(value)
			if err == nil {
				c := cbor.Cursor{B: value, Deep: cbor.MaxStrictDepth - depth, Strict: true}
				c.Skip() // too deep, or a simple value that version 2 does not have
				err = c.Err
			}
			if err != nil {
				return nil, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
			}
			return value, nil
		})
}

// CheckAttributes checks other attributes for a tensor that has been added.
func (l *Layout) CheckAttributes(name string, attributes []byte) error {
	t := l.profiled[name]
	if t == nil {
		return nil
	}
	elements, _ := t.Shape.Elements()
	if err := layouts.Check(t, uint64(elements), attributes); err != nil {
		return core.OfTensor(name, err)
	}
	return nil
}

func (l *Layout) checkName(name, what string) error {
	switch {
	case len(name) == 0 || len(name) > maxName || strings.IndexByte(name, 0) >= 0:
		return core.Unsupported("%s is not one of version 2, which has 1 to %d bytes without NUL",
			what, maxName)
	case l.canonical && !norm.NFC.IsNormalString(name):
		return core.Unsupported("%s %s is not in NFC, as canonical form requires", what,
			naming.Quote(name))
	}
	return nil
}

// normalize returns t in the words of version 2. The indices of version 1, which have no
// type in 1.0 and any in 1.2, are uint64 unless they are uint32.
func (l *Layout) normalize(t *tensor.Tensor) *tensor.Tensor {
	if t.Scheme != sparse.CSR && t.Scheme != sparse.COO {
		return t
	}
	as := *t
	as.Scheme = layoutName(t.Scheme)
	as.Parts = slices.Clone(t.Parts)
	wide := false // the indices are of several types, or of one that version 2 does not have
	var first tensor.DType
	for i := range as.Parts {
		p := &as.Parts[i]
		index := slices.Contains(core.IndexRoles, p.Role)
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
		if p := &as.Parts[i]; wide && slices.Contains(core.IndexRoles, p.Role) {
			*p = sparse.Widen(context.Background(), *p)
		}
	}
	return &as
}

// payloads lists the parts in the order in which they lie in the file.
func (l *Layout) payloads(t *tensor.Tensor) []core.Piece {
	one := func(role string, d tensor.DType, data tensor.Blob) core.Piece {
		p := core.Piece{Role: role, DType: d, Data: data}
		if p.Word, p.Type = typeWords(d); d == tensor.Unknown {
			b, ok := data.Source().(*core.Payload)
			if ok && b.More != nil && b.More.Word != "" { // an unknown type is kept
				p.Word, _ = typeWords(b.More.Storage)
				p.Type = b.More.Word
			}
		}
		return p
	}
	if t.Dense() {
		p := one("data", t.DType, t.Data)
		p.Odd = core.OddHalf(t)
		return []core.Piece{p}
	}
	t = l.normalize(t)
	all := make([]core.Piece, len(t.Parts))
	for i, p := range t.Parts {
		all[i] = one(p.Role, p.DType, p.Data)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Role < all[j].Role })
	return all
}

// typeWords returns the storage type of d, and its logical type if it needs one; "" where
// it has none.
func typeWords(d tensor.DType) (dtype, logical string) {
	l := core.LogicalOf(d, true)
	return core.StorageWord(l.Storage, true), l.Name
}
