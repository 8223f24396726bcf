package core

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
)

// An Object is what a manifest of version 2 says of a tensor.
type Object struct {
	Name  string
	Whole []byte // encoded
}

// Objects takes the manifest apart without understanding it, so that what this library
// does not know survives. It hands the tensors to use, and returns the other fields.
func (r *File) Objects(use func(name string, object []byte)) (others []cbor.Pair, err error) {
	b, err := r.Metadata(r.ManifestAt, r.ManifestSize)
	if err != nil {
		return nil, r.Placed(r.ManifestAt, "manifest", err)
	}
	c := r.cursor(b)
	for _, f := range c.Pairs() {
		if f.Name != r.List {
			others = append(others, f)
			continue
		}
		in := r.cursor(f.Value)
		for _, o := range in.Pairs() {
			use(o.Name, o.Value)
		}
	}
	return others, r.Placed(r.ManifestAt, "manifest", c.Err) // changed since it was opened
}

func (r *File) cursor(b []byte) cbor.Cursor {
	if r.Ruled {
		return cbor.NewStrict(b, r.Options.Limits)
	}
	return cbor.New(b, r.Options.Limits)
}

// EditParts returns an object with other fields in its parts.
func (r *File) EditParts(object []byte,
	edit func(role string, part []cbor.Pair) []cbor.Pair) []byte {
	c := r.cursor(object)
	fields := c.Pairs()
	for i, f := range fields {
		if f.Name != r.Roles {
			continue
		}
		in := r.cursor(f.Value)
		parts := in.Pairs()
		for k := range parts {
			p := &parts[k]
			in := r.cursor(p.Value)
			p.Value = cbor.AppendPairs(nil, edit(p.Name, in.Pairs()), r.Ruled)
		}
		fields[i].Value = cbor.AppendPairs(nil, parts, false)
	}
	return cbor.AppendPairs(nil, fields, false)
}

// Carry copies the data of the tensors of r that names has, and hands their objects to
// adopt, under their new names. field encodes the field of a part that says where it is.
// Carry returns the other fields of the manifest.
func (w *Writer) Carry(ctx context.Context, r *File, names map[string]string, alignment int64,
	field func(p *Payload, at int64) cbor.Pair,
	adopt func(name string, object []byte)) ([]cbor.Pair, error) {
	var order []Extent
	for name := range names {
		for _, p := range PayloadsOf(r.Tensor(name)) {
			if p.Shard == 0 {
				order = append(order, Extent{p.Offset, p.Length})
			}
		}
	}
	sortExtents(order)
	places := map[Extent]int64{}
	for _, e := range slices.Compact(order) {
		if err := w.Pad(alignment); err != nil {
			return nil, err
		}
		places[e] = w.Off
		if err := w.copyFrom(ctx, r, e); err != nil {
			return nil, err
		}
	}
	return r.Objects(func(name string, object []byte) {
		as, ok := names[name]
		if !ok {
			return
		}
		w.Names[as], w.Kept[as] = true, true
		t := r.Tensor(name)
		adopt(as, r.EditParts(object, func(role string, part []cbor.Pair) []cbor.Pair {
			for _, p := range PayloadsOf(t) {
				if p.Shard == 0 && p.Role() == role {
					moved := field(p, places[Extent{p.Offset, p.Length}])
					i := slices.IndexFunc(part,
						func(f cbor.Pair) bool { return f.Name == moved.Name })
					if i >= 0 { // else the file has changed since it was opened
						part[i] = moved
					}
				}
			}
			return part
		}))
	})
}

func (w *Writer) copyFrom(ctx context.Context, r *File, e Extent) error {
	from, err := r.Extent(e.Off, e.Length)
	if err == nil {
		to := format.Until(ctx, w.Sink(new(Piece), NoDigest))
		_, err = format.CopyBlob(to, tensor.NewBlob(&from), e.Length)
	}
	return w.Fail(r.Placed(e.Off, "", err))
}

// EncodeAttributes encodes a map with its names in that order. check returns each value
// as it is to be written.
func EncodeAttributes(attributes map[string]any, order func(a, b string) int,
	check func(name string, value []byte) ([]byte, error)) ([]byte, error) {
	b := cbor.AppendHead(nil, cbor.Map, uint64(len(attributes)))
	for _, name := range slices.SortedFunc(maps.Keys(attributes), order) {
		v, err := cbor.Marshal(attributes[name])
		if err == nil && !utf8.ValidString(name) {
			err = Unsupported("the name is not UTF-8")
		}
		if err == nil {
			v, err = check(name, v)
		}
		if err != nil {
			return nil, fmt.Errorf("ztensor: attribute %s: %w", naming.Quote(name), err)
		}
		b = append(cbor.AppendText(b, name), v...)
	}
	return b, nil
}
