package core

import (
	"context"
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
)

// An Edition is what a new edition of a file takes over from it: tensors whose data and
// description stay as they are stored, and fields that this library does not know.
type Edition struct {
	Others []cbor.Pair // fields of the manifest that are not tensors

	r       *File
	extents []Extent // of the data, in the order of the file
	objects map[*tensor.Tensor][]byte
	places  map[Extent]int64 // in the new file; nil before Copy
}

// NewEdition takes over those tensors of r.
func NewEdition(r *File, kept []*tensor.Tensor) (*Edition, error) {
	e := &Edition{r: r, objects: make(map[*tensor.Tensor][]byte, len(kept))}
	named := make(map[string]*tensor.Tensor, len(kept))
	for _, t := range kept {
		named[t.Name] = t
		for _, p := range PayloadsOf(t) {
			if p.Shard == 0 {
				e.extents = append(e.extents, Extent{p.Offset, p.Length})
			}
		}
	}
	sortExtents(e.extents)
	e.extents = slices.Compact(e.extents)
	var err error
	e.Others, err = r.Objects(func(name string, object []byte) {
		if t := named[name]; t != nil {
			e.objects[t] = object
		}
	})
	return e, err
}

// Copy copies the data of all tensors, the first time, each at a multiple of align.
func (e *Edition) Copy(ctx context.Context, out *Out, align int64) error {
	if e.places != nil {
		return nil
	}
	e.places = make(map[Extent]int64, len(e.extents))
	for _, x := range e.extents {
		if err := out.Pad(align); err != nil {
			return err
		}
		e.places[x] = out.Off
		from, err := e.r.Extent(x.Off, x.Length)
		if err == nil {
			_, err = format.CopyBlob(format.Until(ctx, out), tensor.NewBlob(&from), x.Length)
		}
		if err != nil {
			return e.r.Placed(x.Off, "", err)
		}
	}
	return nil
}

// Object returns what the manifest says of a tensor whose data was copied. field encodes
// the field of a part that says where it is.
func (e *Edition) Object(t *tensor.Tensor, field func(p *Payload, at int64) cbor.Pair) []byte {
	return e.r.EditParts(e.objects[t], func(role string, part []cbor.Pair) []cbor.Pair {
		for _, p := range PayloadsOf(t) {
			if p.Shard == 0 && p.Role() == role {
				moved := field(p, e.places[Extent{p.Offset, p.Length}])
				i := slices.IndexFunc(part, func(f cbor.Pair) bool { return f.Name == moved.Name })
				if i >= 0 { // else the file has changed since it was opened
					part[i] = moved
				}
			}
		}
		return part
	})
}

// Order lists what an Edit leaves by the index in r: first the tensors that are kept,
// then those that are replaced, which it also has by their new names.
func Order(r *File, e *format.Edit) (order []int, kept []*tensor.Tensor,
	replaced map[string]*tensor.Tensor, err error) {
	replaced = map[string]*tensor.Tensor{}
	var others []int
	for i, t := range r.Tensors {
		switch c, err := format.ChangeOf(e, i, t.Name); {
		case err != nil:
			return nil, nil, nil, err
		case c.Removed:
		case c.Tensor != nil:
			others = append(others, i)
			replaced[c.Name] = t
		default:
			order, kept = append(order, i), append(kept, t)
		}
	}
	return append(order, others...), kept, replaced, nil
}
