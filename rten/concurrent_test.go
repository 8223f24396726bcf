package rten

import (
	"reflect"
	"sync"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// TestAccessorsRunConcurrently is for the race detector.
func TestAccessorsRunConcurrently(t *testing.T) {
	called := make(map[string]bool)
	for _, name := range []string{"convert-0.22.0-control", "convert-0.22.0-operators",
		"convert-0.22.0-basic-v1"} {
		r := openBytes(t, golden(t, name))
		for m := range readtest.Accessors(t, r, "x", "W", "axis", "then_branch", "alpha",
			"equation", "mode", "perm") {
			called[m] = true
		}
	}
	for _, v := range []any{new(Reader), new(Model), new(Graph), Node{}, Constant{}, Value{},
		Operator{}, Dim{}, Enum{}, NodeKind(0), OpType(0)} {
		typ := reflect.TypeOf(v)
		for i := range typ.NumMethod() {
			m := typ.String() + "." + typ.Method(i).Name
			if typ.Method(i).Name != "Close" && !called[m] {
				t.Errorf("%s was not called", m)
			}
		}
	}
}

func TestConstantsAreSafeForConcurrentUseAfterTheirLoop(t *testing.T) {
	r := openBytes(t, manyConstants(t, 4000))
	var list []Constant
	for c := range r.Model().Constants() {
		list = append(list, c)
	}
	var got [2][]*tensor.Tensor
	var wg sync.WaitGroup
	for g := range got {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for _, c := range list {
				got[g] = append(got[g], c.Tensor())
			}
		}()
	}
	wg.Wait()
	i := 0
	for want := range r.Tensors() {
		for _, list := range got {
			if x := list[i]; x.Name != want.Name || !x.Shape.Equal(want.Shape) ||
				x.Data != want.Data && x.Data.Size() != want.Data.Size() {
				t.Fatalf("constant %d is %v, not %v", i, x, want)
			}
		}
		i++
	}
}
