package pte

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// publicValues returns every value of public types that a Reader gives out, kept beyond
// the loops that produced them.
func publicValues(r *Reader) (all []any) {
	p := r.Program()
	all = append(all, r, p, r.Header())
	for m := range p.Methods() {
		all = append(all, m, m.Memory())
		for v := range m.Values() {
			all = append(all, v)
			if i, ok := v.Tensor(); ok {
				all = append(all, i)
			}
		}
		for i := range m.Instructions() {
			all = append(all, i)
		}
		for _, d := range m.Delegates() {
			all = append(all, d)
		}
	}
	for d := range p.NamedData() {
		all = append(all, d, d.Data)
	}
	for _, s := range p.Segments() {
		all = append(all, s, s.Data)
	}
	for e := range r.Entries() {
		all = append(all, e, e.Tensor)
	}
	return all
}

// callAll calls every exported method of x that takes no argument, and iterates what it
// returns.
func callAll(x any) (text string) {
	v := reflect.ValueOf(x)
	for i := range v.NumMethod() {
		name, m := v.Type().Method(i).Name, v.Method(i)
		if m.Type().NumIn() != 0 || name == "Close" {
			continue
		}
		for _, out := range m.Call(nil) {
			switch {
			case out.Type().CanSeq():
				n := 0
				for range out.Seq() {
					n++
				}
				text += fmt.Sprint(name, n, "\n")
			case out.Type().CanSeq2():
				n := 0
				for range out.Seq2() {
					n++
				}
				text += fmt.Sprint(name, n, "\n")
			case out.Kind() <= reflect.Float64 || out.Kind() == reflect.String:
				text += fmt.Sprint(name, out, "\n")
			}
		}
	}
	return text
}

// TestAccessorsAreSafeForConcurrentUse is for the race detector.
func TestAccessorsAreSafeForConcurrentUse(t *testing.T) {
	for _, name := range []string{"export-1.5.1-cond.pte", "export-1.5.1-methods.pte",
		"export-1.5.1-bundled.bpte",
		"export-1.5.1-xnnpack-conv.pte", "export-1.5.1-stack-traces.pte",
		"generation-0.7.0-mutable-state.pte"} {
		t.Run(name, func(t *testing.T) {
			r := openFile(t, "../testdata/pte/"+name)
			values := publicValues(r)
			var wg sync.WaitGroup
			var answers [4][]string
			for g := range answers {
				wg.Add(1)
				go func() {
					defer wg.Done()
					for _, x := range values {
						answers[g] = append(answers[g], callAll(x))
					}
					for x := range r.Tensors() {
						if r.Tensor(x.Name) == nil || entryOf(r, x.Name) == nil {
							t.Errorf("%s is not found", x.Name)
						}
					}
					for _, x := range values {
						if e, ok := x.(*Entry); ok {
							e.Data.WriteTo(io.Discard)
							tensor.View[float32](e.Tensor)
						}
					}
					r.Verify(context.Background(),
						&tensor.VerifyOptions{Depth: tensor.VerifyCanonical})
				}()
			}
			wg.Wait()
			for g := range answers {
				if !slices.Equal(answers[g], answers[0]) {
					t.Errorf("goroutine %d was told something else", g)
				}
			}
		})
	}
}
