package pte

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// stackOf is the stack trace of an instruction, which only the accessors of flatc have.
func stackOf(i Instruction) []any {
	frames := []any{}
	var list ptefb.FrameList
	if i.index >= i.c.t.StacktraceLength() {
		return frames
	}
	i.c.t.Stacktrace(&list, i.index)
	for _, f := range fb.Each(list.ItemsLength(), list.Items) {
		frames = append(frames, row{"_": "Frame", "filename": string(f.Filename()),
			"lineno": int(f.Lineno()), "name": string(f.Name()), "context": string(f.Context())})
	}
	return frames
}

// A row is an object of JSON.
type row map[string]any

// plain turns Go values into what encoding/json makes of them.
func plain(t testing.TB, v any) any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var x any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&x); err != nil {
		t.Fatal(err)
	}
	return x
}

// sameFacts compares two programs field by field, but for where things lie.
func sameFacts(t *testing.T, a, b *Reader, but ...string) {
	t.Helper()
	x, y := plain(t, describe(t, a)).(map[string]any), plain(t, describe(t, b)).(map[string]any)
	for k := range x {
		if k == "segments" || k == "bundle" || slices.Contains(but, k) {
			continue
		}
		if !reflect.DeepEqual(x[k], y[k]) {
			t.Errorf("%s changed:\n%v\n%v", k, x[k], y[k])
		}
	}
}

// describe is what interop/pte/expect.py writes of a program.
func describe(t testing.TB, r *Reader) row {
	methods, tensors, blobs, segments, named := []any{}, []any{}, []any{}, []any{}, []any{}
	for m := range r.Program().Methods() {
		x := row{"name": m.Name(), "instructions": m.NumInstructions(),
			"memory": row{"buffers": m.Memory().Buffers}}
		for name, vs := range map[string][]Value{"inputs": m.Inputs(), "outputs": m.Outputs()} {
			rows := []any{}
			for _, v := range vs {
				rows = append(rows, valueRow(v))
			}
			x[name] = rows
		}
		ops, ds, values := []string{}, []any{}, []string{}
		for _, o := range m.Operators() {
			ops = append(ops, o.String())
		}
		for _, d := range m.Delegates() {
			specs := []any{}
			for _, s := range d.Specs {
				specs = append(specs, []string{s.Key, hex.EncodeToString(s.Value)})
			}
			ds = append(ds, row{"id": d.ID, "bytes": d.Payload.Size(), "compile_specs": specs})
		}
		for v := range m.Values() {
			values = append(values, v.Kind().String())
		}
		stacks := 0
		for i := range m.Instructions() {
			if len(stackOf(i)) > 0 {
				stacks++
			}
		}
		x["operators"], x["delegates"], x["values"], x["stack_traces"] = ops, ds, values, stacks
		methods = append(methods, x)
	}
	for e := range r.Entries() {
		x := layoutRow(e.DType, e.Shape, e.Order)
		x["name"], x["method"], x["value"] = e.Name, e.Method.Name(), e.Value
		n, _ := e.Shape.Elements()
		x["bytes"], _ = e.DType.Bytes(n)
		if e.Role.Mutable() {
			x["mutable"] = true
		}
		switch {
		case e.External:
			x["external"] = true
		case e.Buffer > 0:
			x["buffer"], x["sha256"] = e.Buffer, sha(t, e.Data)
		}
		tensors = append(tensors, x)
	}
	for name, b := range r.Blobs() {
		blobs = append(blobs, row{"name": name, "bytes": b.Size(), "sha256": sha(t, b)})
	}
	for _, s := range r.Program().Segments() {
		segments = append(segments, row{"offset": s.Offset, "size": s.Size})
	}
	for d := range r.Program().NamedData() {
		named = append(named, row{"key": d.Key, "bytes": d.Data.Size()})
	}
	all := row{"version": r.Version(), "header": r.Header().Length, "methods": methods,
		"tensors": tensors, "blobs": blobs, "segments": segments, "named_data": named}
	if b := r.Bundle(); b != nil {
		all["bundle"] = row{"version": b.Version, "offset": r.at, "size": r.end - r.at,
			"suites": suites(t, b)}
	}
	return all
}

// suites is the JSON of a bundle's test suites.
func suites(t testing.TB, b *Bundle) []any {
	all := []any{}
	for _, s := range b.Suites {
		cases := []any{}
		for _, c := range s.Cases {
			cases = append(cases,
				row{"inputs": bundled(t, c.Inputs), "outputs": bundled(t, c.Outputs)})
		}
		all = append(all, row{"method": s.Method, "cases": cases})
	}
	return all
}

// layoutRow is the JSON of a tensor's layout.
func layoutRow(d tensor.DType, s tensor.Shape, o tensor.Order) row {
	r := row{"dtype": d.String(), "shape": append([]int64{}, s...)}
	if !o.RowMajor() {
		r["order"] = o
	}
	return r
}

// valueRow is the JSON of a value.
func valueRow(v Value) row {
	r := row{}
	if i, ok := v.Tensor(); ok {
		r = layoutRow(i.DType, i.Shape, i.Order)
		r["dynamism"] = i.Dynamism.String()
	}
	r["kind"] = v.Kind().String()
	return r
}

// bundled is the JSON of values of a test case.
func bundled(t testing.TB, vs []any) []any {
	all := []any{}
	for _, v := range vs {
		switch v := v.(type) {
		case *tensor.Tensor:
			all = append(all,
				row{"kind": "Tensor", "dtype": v.DType.String(), "shape": v.Shape,
					"sha256": sha(t, v.Data)})
		case float64: // as Python writes it
			b, _ := json.Marshal(v)
			text := string(b)
			if v == math.Trunc(v) && !strings.Contains(text, "e") {
				text = fmt.Sprintf("%.1f", v)
			}
			all = append(all, row{"kind": "Double", "value": json.Number(text)})
		default:
			all = append(all,
				row{"kind": map[string]string{"int": "Int", "int64": "Int", "bool": "Bool",
					"float64": "Double"}[fmt.Sprintf("%T", v)], "value": v})
		}
	}
	return all
}
