package fb

import (
	"iter"

	flatbuffers "github.com/google/flatbuffers/go"
)

// All walks a vector of tables through its two generated accessors:
//
//	for i, v := range fb.All(plan.ValuesLength(), plan.Values) { … }
//
// v is the same variable in every round: copy *v to keep it.
func All[T any](n int, at func(*T, int) bool) iter.Seq2[int, *T] {
	return func(yield func(int, *T) bool) {
		v := new(T)
		for i := range n {
			if !at(v, i) || !yield(i, v) {
				return
			}
		}
	}
}

// As answers the value of a union, given its generated accessor, as the table type that the caller read off its tag:
//
//	if t, ok := fb.As[ptefb.Tensor](value.Val); ok { … }
//
// It is false when the union holds nothing. The verifier has not seen the value of a tag that the schema does not know.
func As[T any, P interface {
	*T
	Init([]byte, flatbuffers.UOffsetT)
}](value func(*flatbuffers.Table) bool) (P, bool) {
	var t flatbuffers.Table
	if !value(&t) {
		return nil, false
	}
	p := P(new(T))
	p.Init(t.Bytes, t.Pos)
	return p, true
}

// Vector answers the bytes of a vector of scalars of size bytes each, by its slot in a verified table, and whether the
// field is there. The bytes alias the buffer; their place in it is Position.
func Vector(t flatbuffers.Table, slot flatbuffers.VOffsetT, size int) ([]byte, bool) {
	o := flatbuffers.UOffsetT(t.Offset(slot))
	if o == 0 {
		return nil, false
	}
	start := int(t.Vector(o))
	end := start + t.VectorLen(o)*size
	return t.Bytes[start:end:end], true
}

// Position answers where in the buffer the field of a verified table is: for a scalar the value, for all else the offset
// that leads to it; 0 when the field is absent.
func Position(t flatbuffers.Table, slot flatbuffers.VOffsetT) int64 {
	o := t.Offset(slot)
	if o == 0 {
		return 0
	}
	return int64(t.Pos) + int64(o)
}
