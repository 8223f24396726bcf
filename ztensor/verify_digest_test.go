package ztensor

import (
	"bytes"
	"errors"
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
