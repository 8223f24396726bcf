package core

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/tensor"
)

// A fixed blob is memory of the caller that is read after the call that was given it. A
// change in between is an error: any change where whole, else one that shows in samples.
type fixed struct {
	tensor.Source
	whole bool
	hash  uint64
}

// Memory returns the bytes, which are the caller's.
func (f *fixed) Memory() ([]byte, bool) { return f.Bytes() }

var ErrChanged = errors.New("the bytes have changed since the tensor was added")

// Fix returns t with its memory hashed, all of it if whole. What is in a file is not.
func Fix(t *tensor.Tensor, whole bool) *tensor.Tensor {
	as := *t
	as.Data = fix(t.Data, whole)
	as.Parts = slices.Clone(t.Parts)
	for i := range as.Parts {
		as.Parts[i].Data = fix(as.Parts[i].Data, whole)
	}
	return &as
}

func fix(b tensor.Blob, whole bool) tensor.Blob {
	if _, stored := b.Stored(); stored {
		return b
	}
	p, ok := b.Memory()
	if !ok || len(p) == 0 {
		return b
	}
	return tensor.NewBlob(&fixed{b.Source(), whole, fingerprint(p, whole)})
}

func fingerprint(p []byte, whole bool) uint64 {
	const samples, size = 16, 4096
	if whole || len(p) <= samples*size {
		return xxh3.Hash(p)
	}
	h := xxh3.New()
	for i := range samples {
		from := (len(p) - size) / (samples - 1) * i
		h.Write(p[from : from+size])
	}
	return h.Sum64()
}

// XXH3Of returns the digest of p, the bytes of b.
func XXH3Of(b tensor.Blob, p []byte) string {
	f, ok := b.Source().(*fixed)
	if !ok || !f.whole {
		return DigestOf(XXH3, p)
	}
	return fmt.Sprintf("xxh3:%016x", f.hash)
}

// unchanged compares the fixed blobs of a tensor with what they were.
func unchanged(t *tensor.Tensor) error {
	err := Unchanged(t.Data)
	for i := range t.Parts {
		err = cmp.Or(err, Unchanged(t.Parts[i].Data))
	}
	return err
}

// Unchanged compares the bytes of a fixed blob with what they were.
func Unchanged(b tensor.Blob) error {
	f, ok := b.Source().(*fixed)
	if !ok {
		return nil
	}
	if p, _ := f.Bytes(); fingerprint(p, f.whole) != f.hash {
		return fmt.Errorf("%w: %w", tensor.ErrChecksum, ErrChanged)
	}
	return nil
}
