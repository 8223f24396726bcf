package rten

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

func seeds(f *testing.F) {
	for name, data := range goldens(f) {
		if len(data) < 8<<10 && name != "" {
			f.Add(data)
		}
	}
	f.Add(nest(12))
	f.Add(loops(15))
	f.Add(made(64, func(b *raw) []fb.Offset {
		return []fb.Offset{b.outside("a", 0, 8), b.outside("b", 28, 4), b.inline("c", 2, 2)}
	}))
}

// FuzzOpen opens and walks everything.
func FuzzOpen(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := OpenBytes(data, nil)
		if err != nil {
			return
		}
		if err := fb.Verify(data[r.model.base:][:len(r.model.buf)], &rtenfb.Schema, rtenfb.TableModel, fb.Limits{UTF8: true, Unions: true}); err != nil {
			t.Fatalf("opened what does not verify: %v", err)
		}
		_ = describe(r)
		r.Model().Requires()
		strict := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true})
		if err := r.Verify(t.Context(), nil); err != nil && strict == nil {
			t.Errorf("lax verification finds more than strict: %v", err)
		}
	})
}

// FuzzCompact opens version 1 whole and without its weights, and wants to hear the same.
func FuzzCompact(f *testing.F) {
	f.Add(largeV1(f))
	var b raw
	f.Add(b.model(b.graph([]fb.Offset{b.inline("a", 700, 700), b.value("v"), b.inline("b", 900, 900)}, []uint32{1}, []uint32{0, 2}, nil), 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		whole, err1 := OpenBytes(data, nil)
		r, err2 := newReader(source.OfBytes(data), nil, false, 0)
		if fmt.Sprint(err1) != fmt.Sprint(err2) {
			t.Fatalf("whole: %v\ncompact: %v", err1, err2)
		}
		if err1 != nil {
			return
		}
		if a, b := describe(whole), describe(r); a != b {
			t.Fatal(firstDifference(b, a))
		}
		var b bytes.Buffer
		if err := NewPatch(r).Write(&b, nil); err != nil || !bytes.Equal(b.Bytes(), data) {
			t.Fatalf("a copy has other bytes: %v", err)
		}
	})
}

// FuzzRewrite changes versions and layouts of what opens and wants the same
// content.
func FuzzRewrite(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 64<<10 {
			return
		}
		r, err := OpenBytes(data, nil)
		if err != nil {
			return
		}
		for _, opts := range []*WriterOptions{nil, {Version: 1}, {Version: 2, Align: 256}, {Version: 2, InlineElements: -1}} {
			var b bytes.Buffer
			p := NewPatch(r)
			if err := p.Write(&b, opts); err != nil {
				continue // too deep for constants inline, newer content, …
			}
			got, err := OpenBytes(b.Bytes(), nil)
			if err != nil {
				t.Fatalf("%+v: %v", opts, err)
			}
			if want, have := content(r), content(got); want != have {
				t.Fatalf("%+v: %s", opts, firstDifference(have, want))
			}
			if opts == nil && !bytes.Equal(b.Bytes(), data) {
				t.Fatal("a copy has other bytes")
			}
		}
	})
}
