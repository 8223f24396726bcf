package ztensor

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// Damage that stops the decoder is also a digest that is wrong: both are found.
func TestDamagedFramesAreAlsoWrongDigests(t *testing.T) {
	for _, d := range []Digest{CRC32C, SHA256} {
		var out bytes.Buffer
		w := NewWriter(&out, &WriterOptions{Version: "1.0", Digest: d, Level: 3})
		if err := w.Add(tensor.New("w", tensor.Shape{5000}, make([]float32, 5000))); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		b := out.Bytes()
		b[64] ^= 1 // the magic number of the frame
		r, err := OpenBytes(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		if report, err := r.Verify(t.Context(), nil); !errors.Is(err, tensor.ErrChecksum) ||
			!errors.Is(err, tensor.ErrMalformed) {
			t.Errorf("%v: %v", d, report.Findings)
		}
	}
}

// Tensors that share damaged frames are each told of both, under their own names.
func TestSharedDamageIsBothErrorsForEach(t *testing.T) {
	b := sharing(t, "1.2", 3, 5000, "sha256:"+strings.Repeat("0", 64))
	b[64] ^= 1
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	report, err := r.Verify(t.Context(), nil)
	if err == nil || len(report.Findings) != 3 {
		t.Fatalf("%v: %v", err, report.Findings)
	}
	for i, f := range report.Findings {
		var fe *tensor.FormatError
		if !errors.Is(f.Err, tensor.ErrChecksum) || !errors.Is(f.Err, tensor.ErrMalformed) ||
			!errors.As(f.Err, &fe) || !strings.Contains(fe.Field, fmt.Sprintf("t%06d", i)) {
			t.Errorf("tensor %d: %v", i, f.Err)
		}
	}
}
