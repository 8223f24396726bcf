package ztensor

import (
	"encoding/hex"
	"iter"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
)

// A Value is the value of an attribute: a string, or any CBOR item where the version
// allows that (attributes of tensors from 1.1 on, of files from 1.2 on). It can be given
// to a Writer again. It stays valid after Close.
type Value struct {
	encoded []byte // one well-formed item
}

// HasTag reports whether the value has CBOR tags, at any depth. Version 2 does not allow
// tags; MarshalJSON and String leave them out.
func (v Value) HasTag() bool {
	c := cbor.Cursor{B: v.encoded, DepthLeft: cbor.MaxNesting}
	if len(v.encoded) > 0 {
		c.Skip()
	}
	return c.HasTag
}

// Decode stores the value in the variable that p points to, by the rules of
// github.com/fxamacker/cbor/v2.
func (v Value) Decode(p any) error { return cbor.Unmarshal(v.encoded, p) }

// MarshalCBOR returns the bytes of the value in the file, which the caller must not
// change. The zero Value is null.
func (v Value) MarshalCBOR() ([]byte, error) {
	if len(v.encoded) == 0 {
		return []byte{cbor.Null}, nil
	}
	return v.encoded, nil
}

// MarshalJSON encodes the value as docs/json.md says: values that JSON lacks become
// {"$float": "nan"}, {"$bytes": "hex"}, {"$simple": number} or {"$map": [[key, value]]}.
// Tags are left out.
func (v Value) MarshalJSON() ([]byte, error) {
	if len(v.encoded) == 0 {
		return []byte("null"), nil
	}
	c := cbor.Cursor{B: v.encoded, DepthLeft: cbor.MaxNesting}
	b := c.AppendJSON(nil)
	if c.Err != nil {
		return nil, c.Err
	}
	return b, nil
}

// String returns the value if it is a string, else the value as JSON.
func (v Value) String() string {
	if s, ok := v.Text(); ok {
		return s
	}
	b, err := v.MarshalJSON()
	if err != nil {
		return hex.EncodeToString(v.encoded) // never for a value of a file: it is well-formed
	}
	return string(b)
}

// Attributes yields the attributes of the file in file order, as [Value.String] returns
// them.
func (r *Reader) Attributes() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for name, v := range r.AttributeValues() {
			if !yield(name, v.String()) {
				return
			}
		}
	}
}

// AttributeValues yields the attributes of the file in file order.
func (r *Reader) AttributeValues() iter.Seq2[string, Value] { return values(r.f.Attributes) }

// Text returns the value if it is a string.
func (v Value) Text() (string, bool) { return cbor.TextOf(v.encoded) }

// TensorAttributes yields the attributes of t, a tensor that r returned, in file order.
// In a 0.1 file they are the fields of its entry that this package does not know.
func (r *Reader) TensorAttributes(t *tensor.Tensor) iter.Seq2[string, Value] {
	return values(r.f.TensorAttributes[t])
}

func values(encoded []byte) iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for name, v := range cbor.Entries(encoded) {
			if !yield(name, Value{v}) {
				return
			}
		}
	}
}
