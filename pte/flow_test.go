package pte

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// TestFlowIsWhole follows the data of what the exporter wrote: nothing that is computed
// is lost, and nothing is read that was not computed, given or stored.
func TestFlowIsWhole(t *testing.T) {
	files, err := filepath.Glob("../testdata/pte/export-*.pte")
	if err != nil || len(files) < 30 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			for m := range openFile(t, file).Program().Methods() {
				wholeFlow(t, m)
			}
		})
	}
}

func wholeFlow(t *testing.T, m Method) {
	given := make(map[int]bool)
	for _, v := range m.Inputs() {
		given[v.Index()] = true
	}
	f := m.Flow()
	used := make(map[int]bool) // steps
	source := func(s Source, step int) {
		info, ok := m.Value(s.Value).Tensor()
		if s.Step >= step {
			t.Errorf("step %d reads what step %d writes", step, s.Step)
		}
		if s.Step >= 0 {
			used[s.Step] = true
		} else if ok && info.Role == RolePlanned && !given[s.Origin] {
			t.Errorf("step %d of %s reads value %d, %v, which nothing wrote", step, m.Name(),
				s.Value, info)
		}
		if origin, _ := m.Value(s.Origin).Tensor(); s.Origin != s.Value {
			a, _ := info.Bytes()
			b, _ := origin.Bytes()
			if a != b {
				t.Errorf("value %d of %d bytes is a view of value %d of %d", s.Value, a, s.Origin,
					b)
			}
		}
	}
	for n, s := range f.Steps {
		for _, x := range s.Reads {
			source(x, n)
		}
	}
	for _, out := range f.Outputs {
		for _, x := range out {
			source(x, len(f.Steps))
		}
	}
	for n, s := range f.Steps {
		keeps := slices.ContainsFunc(s.Writes, func(v int) bool {
			i, ok := m.Value(v).Tensor()
			return !ok || i.Role.Mutable() // numbers may be for the next turn of a loop
		})
		if len(s.Writes) > 0 && !used[n] && !keeps {
			t.Errorf("what step %d of %s, %v, writes is not used", n, m.Name(), s.Instruction)
		}
	}
}

func TestFlowFollowsElidedViews(t *testing.T) {
	for name, want := range map[string][]string{
		"lstm": {"32 of 23", "57 of 28", "40 of 37", "40 of 37", "65 of 62", "90 of 89",
			"98 of 95"},
		"views": {"25 of 21", "33 of 21"},
		"transformer": {"21 of 14", "29 of 26", "40 of 30", "47 of 31", "54 of 32", "74 of 67",
			"82 of 75", "84 of 83", "96 of 89", "104 of 97",
			"106 of 105", "120 of 113", "128 of 125", "138 of 131", "146 of 143", "149 of 147",
			"157 of 154"},
		"two-layers": nil,
	} {
		m, _ := openFile(t, "../testdata/pte/export-1.5.1-"+name+
			".pte").Program().Method("forward")
		var got []string
		for _, s := range m.Flow().Steps {
			for _, x := range s.Reads {
				if x.Value != x.Origin {
					got = append(got, fmt.Sprintf("%d of %d", x.Value, x.Origin))
				}
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: views are %q, want %q", name, got, want)
		}
	}
}

// TestFlowOfDelegatesFollowsTheirMemory has arguments whose direction only their memory
// and later use say.
func TestFlowOfDelegatesFollowsTheirMemory(t *testing.T) {
	b := NewBuilder()
	m := b.Method("forward")
	x := m.Input(tensor.F32, tensor.Shape{4}).Place(1, 0)
	y := m.Tensor(tensor.F32, tensor.Shape{4}).Place(1, 16)
	view := m.Tensor(tensor.F32, tensor.Shape{2, 2}).Place(1, 16) // of y
	again := m.Tensor(tensor.F32, tensor.Shape{4}).Place(1, 0)    // in the memory of x
	out := m.Tensor(tensor.F32, tensor.Shape{4}).Place(1, 32)
	d := m.Delegate("Mine", tensor.BlobOf([]byte("payload")))
	m.CallDelegate(d, x, y)
	m.CallDelegate(d, view, again, out)
	m.CallDelegate(d, again, out)
	m.Return(out)
	method := written(t, b)
	f := method.Flow()
	if got, want := fmt.Sprint(f.Steps[1].Reads, f.Steps[1].Writes),
		"[{2 1 0}] [3 4]"; got != want {
		t.Errorf("the second call reads and writes %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(f.Steps[2].Reads, f.Outputs), "[{3 3 1}] [[{4 4 2}]]"; got != want {
		t.Errorf("the third call reads %s, want %s", got, want)
	}
}

// TestFlowFindsNamelessState has a buffer as the exporter writes it by default: a planned
// value without name and initial data, read before the call's end writes it.
func TestFlowFindsNamelessState(t *testing.T) {
	b := NewBuilder()
	m := b.Method("forward")
	x := m.Input(tensor.F32, tensor.Shape{4}).Place(1, 0)
	state := m.Tensor(tensor.F32, tensor.Shape{4}).Place(1, 16)
	view := m.Tensor(tensor.F32, tensor.Shape{2, 2}).Place(1, 16)
	sum := m.Tensor(tensor.F32, tensor.Shape{4}).Place(1, 32)
	product := m.Tensor(tensor.F32, tensor.Shape{2, 2}).Place(1, 48)
	m.Call("aten::add.out", state, x, m.Value(1), sum, sum)
	m.Call("aten::mul.out", view, view, product, product)
	m.Call("aten::copy_", state, sum, m.Value(false), state)
	m.Return(product)
	var got []string
	for _, s := range written(t, b).Flow().Steps {
		got = append(got, fmt.Sprint(s.Reads))
	}
	want := []string{"[{1 1 -1} {0 0 -1} {5 5 -1}]", "[{2 1 -1}]",
		"[{1 1 -1} {3 3 0} {6 6 -1}]"}
	if !slices.Equal(got, want) {
		t.Errorf("the steps read %q, want %q", got, want)
	}
}

// written is the first method of a program that was written and opened again.
func written(t *testing.T, b *Builder) Method {
	t.Helper()
	return opened(t, b).Program().method(0)
}
