package fb

import "testing"

func TestObject(t *testing.T) {
	s := &Schema{Tables: []Table{
		{Name: "Root", Fields: []Field{
			{Name: "n", Slot: 4, Kind: Scalar, Type: Uint32, Size: 4},
			{Name: "name", Slot: 6, Kind: String},
			{Name: "many", Slot: 8, Kind: Tables, Index: 1},
			{Name: "absent", Slot: 10, Kind: Child, Index: 1},
		}},
		{Name: "Leaf", Fields: []Field{{Name: "x", Slot: 4, Kind: Scalar, Type: Uint64, Size: 8}}},
	}}
	var b Builder
	leaf := func(x uint64) Offset {
		b.Begin()
		b.Scalar(4, 8, x, 0)
		return b.End()
	}
	many := b.Offsets([]Offset{leaf(7), leaf(0)})
	name := b.String("abc")
	b.Begin()
	b.Scalar(4, 4, 5, 0)
	b.Ref(6, name)
	b.Ref(8, many)
	buf, err := b.Finish(b.End(), "TEST")
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify(buf, s, 0, Limits{}); err != nil {
		t.Fatal(err)
	}
	r := Root(buf)
	if got := r.Uint32(4, 0); got != 5 {
		t.Errorf("n is %d", got)
	}
	if got, ok := r.Bytes(6, 1); !ok || string(got) != "abc" || string(buf[r.DataAt(6):][:3]) != "abc" {
		t.Errorf("name is %q at %d", got, r.DataAt(6))
	}
	v := r.Objects(8)
	if v.Len() != 2 || v.At(0).Uint64(4, 9) != 7 || v.At(1).Uint64(4, 9) != 9 || v.At(1).Has(4) {
		t.Errorf("many is wrong: %d", v.Len())
	}
	if r.Child(10).Present() || r.Objects(10).Present() || r.Has(10) || r.At(10) != r.Pos() {
		t.Error("an absent field is there")
	}
	if _, ok := r.Bytes(12, 1); ok {
		t.Error("a field beyond the vtable is there")
	}
	var none Object
	if none.Present() || none.Has(4) || none.Uint32(4, 3) != 3 || none.Child(4).Present() {
		t.Error("an absent table has fields")
	}
}
