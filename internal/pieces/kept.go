package pieces

import (
	"fmt"
	"hash/maphash"

	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

// Kept is the memory of callers that a writer reads after the calls that gave it: a
// change in between would store other values than were added.
type Kept struct {
	// Sampled hashes 64 KiB at most of the memory of a blob: it finds a buffer that a
	// sequence fills again for its next tensor, and costs next to nothing.
	Sampled bool
	seed    maphash.Seed
	memory  []kept
}

type kept struct {
	name string
	p    []byte
	hash uint64
}

// Keep returns the memory of t, which an edit stores under that name.
func Keep(name string, t *tensor.Tensor) (k Kept) {
	named := *t
	named.Name = name
	k.AddTensor(&named)
	return k
}

// AddTensor adds what t has in memory.
func (k *Kept) AddTensor(t *tensor.Tensor) {
	k.Add(t.Name, t.Data)
	for i := range t.Parts {
		k.Add(t.Name, t.Parts[i].Data)
	}
}

// Add hashes the bytes of b where they are in memory; those of files are not read.
func (k *Kept) Add(name string, b tensor.Blob) {
	if _, stored := b.Stored(); stored {
		return
	}
	p, ok := b.Memory()
	if !ok || len(p) == 0 {
		return
	}
	if k.memory == nil {
		k.seed = maphash.MakeSeed()
	}
	k.memory = append(k.memory, kept{name, p, k.hash(p)})
}

func (k *Kept) hash(p []byte) uint64 {
	const samples, size = 16, 4096
	if !k.Sampled || len(p) <= samples*size {
		return maphash.Bytes(k.seed, p)
	}
	var h maphash.Hash
	h.SetSeed(k.seed)
	for i := range samples {
		from := (len(p) - size) / (samples - 1) * i
		h.Write(p[from : from+size])
	}
	return h.Sum64()
}

// Check hashes all memory again. Where it has changed since Add, that is
// tensor.ErrChecksum.
func (k *Kept) Check() error {
	for _, m := range k.memory {
		if k.hash(m.p) != m.hash {
			return fmt.Errorf("%s: %w: its memory has changed since it was added",
				quote.Name(m.name), tensor.ErrChecksum)
		}
	}
	return nil
}
