package ptd_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/schema/ptdfb"
)

func seeds(f *testing.F) {
	for _, b := range goldens(f) {
		if len(b) < 8<<10 {
			f.Add(b)
		}
	}
	for _, h := range hostiles() {
		if b := with(h.change); len(b) < 8<<10 {
			f.Add(b)
		}
	}
}

// FuzzOpen opens and walks everything, and holds the verdict of the one pass against
// the verifier's.
func FuzzOpen(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ptd.OpenBytes(b, nil)
		if err != nil {
			return
		}
		walk(t, r)
		offset := binary.LittleEndian.Uint64(b[16:])
		buf := b[offset : offset+binary.LittleEndian.Uint64(b[24:])]
		root := ptdfb.TableFlatTensor
		if r.Schema() == "0.6" {
			root = ptdfb.TableLegacyFlatTensor
		}
		pos := binary.LittleEndian.Uint32(b)
		if err := fb.VerifySpliced(buf, pos-uint32(offset), &ptdfb.Schema, root, fb.Limits{UTF8: true}); err != nil {
			t.Errorf("opened what the verifier refuses: %v", err)
		}
	})
}

// FuzzRoundTrip writes what it can read, and reads it again.
func FuzzRoundTrip(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ptd.OpenBytes(b, nil)
		if err != nil {
			return
		}
		var out bytes.Buffer
		w := ptd.NewWriter(&out, nil)
		for e := range r.Entries() {
			if e.Layout != nil && e.Layout.ScalarType.DType() == 0 {
				return
			}
			if err := w.AddEntry(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := ptd.OpenBytes(out.Bytes(), &ptd.ReaderOptions{Strict: true})
		if err != nil {
			if len(r.Warnings()) > 0 {
				return
			}
			t.Fatal(err)
		}
		compareEntries(t, slices.Collect(again.Entries()), slices.Collect(r.Entries()))
	})
}
