package format

import (
	"fmt"
	"hash/maphash"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// Checksums detect whether memory that a caller passed to Add or Replace has changed by
// the time it is written. At most 64 KiB of each blob are hashed, in 16 samples: enough
// to find a buffer that a caller fills again for its next tensor. The zero value is
// empty.
type Checksums struct {
	seed   maphash.Seed
	memory []checksum
}

type checksum struct {
	name string
	p    []byte
	hash uint64
}

// ChecksumsOf returns the checksums of t, which is stored under that name.
func ChecksumsOf(name string, t *tensor.Tensor) (c Checksums) {
	named := *t
	named.Name = name
	c.AddTensor(&named)
	return c
}

// AddTensor adds the memory of a tensor and of its parts.
func (c *Checksums) AddTensor(t *tensor.Tensor) {
	c.Add(t.Name, t.Data)
	for i := range t.Parts {
		c.Add(t.Name, t.Parts[i].Data)
	}
}

// Add hashes the bytes of b if they are memory of the caller. It reads no file.
func (c *Checksums) Add(name string, b tensor.Blob) {
	if _, stored := b.Stored(); stored {
		return
	}
	p, ok := b.Memory()
	if !ok || len(p) == 0 {
		return
	}
	if c.memory == nil {
		c.seed = maphash.MakeSeed()
	}
	c.memory = append(c.memory, checksum{name, p, c.hash(p)})
}

func (c *Checksums) hash(p []byte) uint64 {
	const samples, size = 16, 4096
	if len(p) <= samples*size {
		return maphash.Bytes(c.seed, p)
	}
	var h maphash.Hash
	h.SetSeed(c.seed)
	for i := range samples {
		from := (len(p) - size) / (samples - 1) * i
		h.Write(p[from : from+size])
	}
	return h.Sum64()
}

// Check hashes all memory again. It fails with tensor.ErrChecksum if a hash differs.
func (c *Checksums) Check() error {
	for _, m := range c.memory {
		if c.hash(m.p) != m.hash {
			return fmt.Errorf("%s: %w: its memory has changed since it was added",
				naming.Quote(m.name), tensor.ErrChecksum)
		}
	}
	return nil
}
