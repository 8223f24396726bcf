package ptd_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
)

// TestBytesAreTheSameAsExecuTorchWrites holds our bytes against the hashes of files
// that ExecuTorch's serializer in Python made.
func TestBytesAreTheSameAsExecuTorchWrites(t *testing.T) {
	one := []ptd.Entry{{Name: "w", Layout: float(2), Data: floats(1, 2)}}
	pair := []ptd.Entry{
		{Name: "a", Layout: float(2, 2), Data: floats(3, 3, 3, 3)},
		{Name: "b", Layout: float(2, 2), Data: floats(2, 2, 2, 2)},
	}
	for _, c := range []struct {
		name    string
		entries []ptd.Entry
		opts    ptd.WriterOptions
		size    int
		sum     string
	}{
		{"one tensor aligned to 16", one,
			ptd.WriterOptions{SegmentAlignment: 16}, 200,
			"daedbe87a226c1d6d6005a4f7ac6d7747fd4c21f5f38d0525f6b6e9aba9ae6cc"},
		{"one tensor", one, ptd.WriterOptions{}, 264,
			"d56706c06e4b9c0f2a8c6690a663b4d17677ac06b615bbf3162d51a5090dd5a5"},
		{"no entries", nil, ptd.WriterOptions{}, 128,
			"e0a6e9475686e2ea242aa68b0bcd5019dcebf84450b100c98608f09743b33f6c"},
		{"two tensors", pair, ptd.WriterOptions{}, 528,
			"1c8cd9c902efbf2c9b8f26170e80f391ad8ce72e5e208f16b7333aff66a26ea7"},
		{"two tensors aligned to 16", pair,
			ptd.WriterOptions{SegmentAlignment: 16}, 336,
			"98b15d9c08ab61c432e983a0fc418893feef7e3082002968875d0f15a46c6c11"},
		{"a scalar", []ptd.Entry{{Name: "s", Layout: &ptd.Layout{},
			Data: tensor.BlobOf([]byte{7})}}, ptd.WriterOptions{}, 257,
			"3804ecc691f09256bc9764596b77f91740b053fa4cabaf77b0c4d7d15ed41f6d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			w := ptd.NewWriter(&out, &c.opts)
			for _, e := range c.entries {
				if err := w.AddEntry(e); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if out.Len() != c.size {
				t.Errorf("%d bytes, want %d", out.Len(), c.size)
			}
			if sum := sha256.Sum256(out.Bytes()); c.sum != "" &&
				hex.EncodeToString(sum[:]) != c.sum {
				t.Errorf("other bytes than the reference:\n%s",
					hex.Dump(out.Bytes()[:min(out.Len(), 400)]))
			}
		})
	}
}
