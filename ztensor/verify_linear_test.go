package ztensor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// wrongDigests is a file of n tensors whose digests are all wrong. In version 2 they
// share their bytes.
func wrongDigests(t *testing.T, version string, n int) []byte {
	t.Helper()
	o := &WriterOptions{Version: version, Digest: CRC32C}
	if version == "2" {
		o.Digest, o.Canonical = XXH3, true
	}
	b := write(t, o, func(w *Writer) {
		for i := range n {
			v := uint32(i)
			if version == "2" {
				v = 1
			}
			if err := w.Add(tensor.New(fmt.Sprintf("tensor %06d", i), tensor.Shape{1},
				[]uint32{v})); err != nil {
				t.Fatal(err)
			}
		}
	})
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(b)
	for x := range r.Tensors() {
		st, _ := x.Data.Stored()
		damaged[st.Offset] = b[st.Offset] ^ 0x80
	}
	return damaged
}

// Reads and allocations for tensors with wrong digests grow with their number, whether
// they are verified or read one after the other, and each error names its tensor.
func TestWrongDigestsCostIsLinear(t *testing.T) {
	for _, version := range []string{"1.0", "2"} {
		count := func(n int) (verified, read, reads int64) {
			data := wrongDigests(t, version, n)
			c := readtest.NewCounter(data)
			r, err := NewReader(c, int64(len(data)), nil)
			if err != nil {
				t.Fatal(err)
			}
			verified = readtest.Allocations(func() {
				report, err := r.Verify(t.Context(), nil)
				if !errors.Is(err, tensor.ErrChecksum) {
					t.Fatal(err)
				}
				for _, f := range report.Findings {
					if i := strings.Index(f.Field, "[\"tensor "); i < 0 && f.Field != "" {
						t.Errorf("finding without its tensor: %v", f.Err)
					}
				}
			})
			read = readtest.Allocations(func() {
				for x := range r.Tensors() {
					in, err := x.Data.Open()
					if err != nil {
						t.Fatal(err)
					}
					_, err = io.Copy(io.Discard, in)
					var at *tensor.FormatError
					if !errors.Is(err, tensor.ErrChecksum) || !errors.As(err, &at) ||
						!strings.Contains(at.Field, x.Name) {
						t.Fatalf("%s: %v", x.Name, err)
					}
				}
			})
			return verified, read, int64(c.Calls())
		}
		v1, r1, n1 := count(readtest.Entries(4_000))
		v10, r10, n10 := count(readtest.Entries(40_000))
		if v10 > 20*v1+10_000 || r10 > 20*r1 || n10 > 20*n1 {
			t.Errorf("version %s: %d, %d allocations, %d reads; %d, %d, %d for ten times as many",
				version, v1, r1, n1, v10, r10, n10)
		}
	}
}
