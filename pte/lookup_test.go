package pte

import (
	"testing"
)

// TestLookUpsFindWhatIsListed compares what is looked up with what is listed.
func TestLookUpsFindWhatIsListed(t *testing.T) {
	for _, file := range programs(t) {
		r := openFile(t, file)
		p := r.Program()
		for m := range p.Methods() {
			for i, o := range m.Operators() {
				if got, ok := m.operator(i); !ok || got != o {
					t.Errorf("%s: operator %d is %v", file, i, got)
				}
			}
			for i, d := range m.Delegates() {
				got, ok := m.delegate(i)
				if !ok || got.ID != d.ID || len(got.Specs) != len(d.Specs) ||
					sha(t, got.Payload) != sha(t, d.Payload) {
					t.Errorf("%s: delegate %d is %v", file, i, got)
				}
			}
			for _, i := range []int{-1, 1 << 20} {
				_, operator := m.operator(i)
				_, delegate := m.delegate(i)
				if operator || delegate || m.Value(i).Kind() != kindNone {
					t.Errorf("%s: something has index %d", file, i)
				}
			}
		}
	}
}
