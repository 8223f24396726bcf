package pte

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// walkAll calls everything that a Reader has, as a careless user would, and returns how
// many bytes it was shown.
func walkAll(t testing.TB, r *Reader) (shown int64) {
	text := func(s string) { shown += int64(len(s)) }
	blob := func(b tensor.Blob) {
		if b.Size() > 1<<20 {
			b, _ = b.Section(0, 1<<20)
		}
		n, err := b.WriteTo(io.Discard)
		shown += n
		if err == nil && b.Size() >= 0 && n != b.Size() {
			t.Errorf("a blob of %d bytes gives %d", b.Size(), n)
		}
	}
	text(r.Version())
	n := 0
	for e := range r.Entries() {
		n++
		text(e.Name)
		blob(e.Data)
		tensor.View[float32](e.Tensor)
		if e.Size() < 1<<20 {
			tensor.Convert[float32](e.Tensor)
		}
	}
	if n != r.Len() {
		t.Errorf("%d tensors, but Len is %d", n, r.Len())
	}
	for x := range r.Tensors() {
		if r.Tensor(x.Name) == nil {
			t.Errorf("%q is not found", x.Name)
		}
	}
	for name, b := range r.Blobs() {
		text(name)
		blob(b)
	}
	for k, v := range r.Attributes() {
		text(k + v)
	}
	p := r.Program()
	for range p.Metadata() {
	}
	for m := range p.Methods() {
		_ = fmt.Sprint(m.Inputs(), m.Outputs())
		in, out := m.Structure()
		for _, s := range []string{in, out} {
			_, _ = LeafPaths(s)
		}
		for v := range m.Values() {
			text(v.String())
			text(fmt.Sprint(v.Constant()))
			v.Items()
			if i, ok := v.Tensor(); ok {
				text(i.String() + i.Name)
				i.Bytes()
			}
		}
		for i := range m.Instructions() {
			text(i.String()[:min(len(i.String()), 1000)])
			text(fmt.Sprint(stackOf(i)))
		}
		m.Operators()
		for _, d := range m.Delegates() {
			text(d.ID)
			blob(d.Payload)
		}
		m.Memory()
		m.PlannedPeak()
		m.Raw().Name()
	}
	p.Kernels()
	for range p.NamedData() {
	}
	for _, s := range p.Segments() {
		blob(s.Data)
	}
	at := int64(0)
	for x := range r.Spans() {
		if x.Offset != at || x.Size <= 0 {
			t.Errorf("the spans have a gap or an overlap at %d: %+v", at, x)
		}
		at = x.Offset + x.Size
	}
	if at != r.in.Size() {
		t.Errorf("the spans end at %d of %d", at, r.in.Size())
	}
	if b := r.Bundle(); b != nil {
		for _, s := range b.Suites {
			for _, c := range s.Cases {
				for _, v := range append(c.Inputs, c.Outputs...) {
					if x, ok := v.(*tensor.Tensor); ok {
						blob(x.Data)
					}
				}
			}
		}
	}
	r.Warnings()
	none := func(string) *tensor.Tensor { return nil }
	for _, o := range []*tensor.VerifyOptions{nil,
		{Strict: true, External: none, Depth: tensor.VerifyCanonical}} {
		if report, err := r.Verify(context.Background(), o); err != nil {
			text(err.Error())
			for _, f := range report.Findings {
				if f.Err == nil || f.Class == "" {
					t.Errorf("an empty finding: %+v", f)
				}
			}
		}
	}
	raw := r.Raw()
	for i := range raw.ExecutionPlanLength() {
		plan := new(ptefb.ExecutionPlan)
		raw.ExecutionPlan(plan, i)
		plan.Name()
	}
	return shown
}

// writeAll writes a program in every way. The output must open, and verify if the
// original did.
func writeAll(t testing.TB, r *Reader) {
	_, damage := r.Verify(context.Background(), nil)
	again := func(what string, err error, b *strings.Builder) {
		if err != nil {
			return
		}
		got, err := OpenBytes([]byte(b.String()), nil)
		if err != nil {
			t.Errorf("%s: what we wrote does not open: %v", what, err)
			return
		}
		if damage == nil {
			if _, err := got.Verify(context.Background(), nil); err != nil {
				t.Errorf("%s: what we wrote does not verify: %v", what, err)
			}
		}
	}
	for name, change := range map[string]func(e *Edit) error{
		"unchanged": func(e *Edit) error { return nil },
		"aligned":   func(e *Edit) error { return nil },
		"rebuilt":   (*Edit).takeApart,
		"modern":    (*Edit).Modernize,
		"replaced": func(e *Edit) error {
			e.AllowShared = true
			for x := range r.Entries() {
				e.Replace(x.Name, x.Tensor)
			}
			return nil
		},
		"renamed": func(e *Edit) error {
			for x := range r.Tensors() {
				e.Rename(x.Name, "new."+x.Name)
			}
			for name := range r.Blobs() {
				e.RenameBlob(name, name+".new")
			}
			return nil
		},
		"stripped": func(e *Edit) error {
			for name := range r.Blobs() {
				e.RemoveBlob(name)
			}
			for name := range r.Attributes() {
				e.RemoveAttribute(name)
			}
			return nil
		},
		"externalize": func(e *Edit) error { _, err := e.Externalize(nil); return err },
		"internalize": func(e *Edit) error {
			_, err := e.Internalize(func(name string) *tensor.Tensor {
				for x := range r.Tensors() {
					if n := x.Shape; x.Name == name && x.External {
						k, ok := n.Elements()
						if size, ok2 := x.DType.Bytes(k); ok && ok2 && size < 1<<16 {
							y := *x
							y.External, y.Data = false, tensor.BlobOf(make([]byte, size))
							return &y
						}
					}
				}
				return nil
			})
			return err
		},
	} {
		e := NewEdit(r)
		var w strings.Builder
		err := change(e)
		if err == nil {
			opts := new(WriterOptions)
			if name == "aligned" {
				opts.SegmentAlignment = 64
			}
			if o, e := e.output(*opts); e == nil && o.size > 1<<24 {
				continue // alignments may ask for much padding
			}
			err = e.Write(context.Background(), &w, opts)
		}
		if name == "unchanged" && err != nil && !errors.Is(err, fs.ErrClosed) {
			t.Errorf("a program that opens is not written: %v", err)
		}
		again(name, err, &w)
	}
}
