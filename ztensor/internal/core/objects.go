package core

import (
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
