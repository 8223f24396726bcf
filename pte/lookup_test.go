package pte

import (
	"bytes"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// TestLookUps compares what is looked up with what is listed.
func TestLookUps(t *testing.T) {
	for _, file := range programs(t) {
		r := openFile(t, file)
		p := r.Program()
		for m := range p.Methods() {
			for i, o := range m.Operators() {
				if got, ok := m.Operator(i); !ok || got != o {
					t.Errorf("%s: operator %d is %v", file, i, got)
				}
			}
			for i, d := range m.Delegates() {
				got, ok := m.Delegate(i)
				if !ok || got.ID != d.ID || len(got.Specs) != len(d.Specs) ||
					sha(t, got.Payload) != sha(t, d.Payload) {
					t.Errorf("%s: delegate %d is %v", file, i, got)
				}
			}
			for _, i := range []int{-1, 1 << 20} {
				_, operator := m.Operator(i)
				_, delegate := m.Delegate(i)
				if operator || delegate || m.Value(i).Kind() != KindNone {
					t.Errorf("%s: something has index %d", file, i)
				}
			}
		}
		for d := range p.NamedData() {
			if got, ok := p.Named(d.Key); !ok || got.Segment != d.Segment ||
				sha(t, got.Data) != sha(t, d.Data) {
				t.Errorf("%s: named %s is %v", file, d.Key, got)
			}
		}
		if _, ok := p.Named("no such key"); ok {
			t.Errorf("%s has a key that it has not", file)
		}
		for e := range r.Entries() {
			v := e.Method.Value(e.Value)
			b, ok := v.Blob()
			if ok != (e.Buffer > 0) || ok && sha(t, b) != sha(t, e.Data) {
				t.Errorf("%s: the bytes of %s: %v", file, e.Name, ok)
			}
		}
	}
}

func TestValueBlobOfOthers(t *testing.T) {
	b := NewBuilder()
	m := b.Method("forward")
	x := m.Input(tensor.F32, tensor.Shape{2})
	m.External("w", tensor.F32, tensor.Shape{2})
	m.NamedState("s", tensor.F32, tensor.Shape{2})
	m.Int(5)
	m.Constant(tensor.New("c", tensor.Shape{2}, []byte{7, 8}))
	m.Return(x)
	method := written(t, b)
	for i := range 4 {
		if _, ok := method.Value(i).Blob(); ok {
			t.Errorf("value %d, %v, has bytes", i, method.Value(i))
		}
	}
	data, ok := method.Value(4).Blob()
	if got, err := data.ReadAll(); !ok || err != nil || !bytes.Equal(got, []byte{7, 8}) {
		t.Errorf("%v, %v, %v", got, ok, err)
	}
	if _, ok := (Value{}).Blob(); ok {
		t.Error("no value has bytes")
	}
}
