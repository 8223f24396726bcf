package pieces

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"io"

	"github.com/tensorfile/tensorfile/tensor"
)

// A fixed blob is memory of the caller that is read after the call that was given it.
// Where a change in between shows in the hash, nothing of it can be read.
type fixed struct {
	tensor.Source
	seed maphash.Seed
	hash uint64
}

// Fix returns b with its memory hashed: all of it up to 64 KiB, and samples of more. What
// is in a file is returned as it is.
func Fix(b tensor.Blob) tensor.Blob {
	if _, stored := b.Stored(); stored {
		return b
	}
	p, ok := b.Memory()
	if !ok || len(p) == 0 {
		return b
	}
	seed := maphash.MakeSeed()
	return tensor.NewBlob(&fixed{b.Source(), seed, fingerprint(seed, p)})
}

// FixTensor returns a dense tensor with its memory hashed.
func FixTensor(t *tensor.Tensor) *tensor.Tensor {
	out := *t
	out.Data = Fix(t.Data)
	return &out
}

func fingerprint(seed maphash.Seed, p []byte) uint64 {
	const samples, size = 16, 4096
	if len(p) <= samples*size {
		return maphash.Bytes(seed, p)
	}
	var h maphash.Hash
	h.SetSeed(seed)
	for i := range samples {
		from := (len(p) - size) / (samples - 1) * i
		h.Write(p[from : from+size])
	}
	return h.Sum64()
}

// Bytes returns false where the bytes have changed.
func (f *fixed) Bytes() ([]byte, bool) {
	p, ok := f.Source.Bytes()
	if !ok || fingerprint(f.seed, p) != f.hash {
		return nil, false
	}
	return p, true
}

// Memory returns the bytes, which are the caller's.
func (f *fixed) Memory() ([]byte, bool) { return f.Bytes() }

// Open returns all bytes.
func (f *fixed) Open() (io.ReadCloser, error) {
	p, ok := f.Bytes()
	if !ok {
		return nil, fmt.Errorf("%w: the bytes have changed since the tensor was added",
			tensor.ErrChecksum)
	}
	return io.NopCloser(bytes.NewReader(p)), nil
}

// ReadAt implements io.ReaderAt.
func (f *fixed) ReadAt(p []byte, off int64) (int, error) {
	if r, err := f.Open(); err != nil {
		return 0, err
	} else {
		r.Close()
	}
	return f.Source.ReadAt(p, off)
}
