package rten

import (
	"bytes"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
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
		_, strict := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true})
		if _, err := r.Verify(t.Context(), nil); err != nil && strict == nil {
			t.Errorf("lax verification finds more than strict: %v", err)
		}
	})
}

// FuzzRewrite changes versions and layouts of what opens and requires the same
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
		for _, opts := range []*WriterOptions{nil, {Version: "1"},
			{Version: "2", Alignment: 256}, {Version: "2", InlineElements: -1}} {
			var b bytes.Buffer
			p := NewEdit(r)
			if err := p.Write(t.Context(), &b, opts); err != nil {
				continue // too deep for constants inline, newer content, …
			}
			got, err := OpenBytes(b.Bytes(), nil)
			if err != nil {
				t.Fatalf("%+v: %v", opts, err)
			}
			if want, have := content(r), content(got); want != have {
				t.Fatalf("%+v: %s", opts, firstDifference(have, want))
			}
		}
	})
}
