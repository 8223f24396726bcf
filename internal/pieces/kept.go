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
	seed   maphash.Seed
	memory []kept
}

type kept struct {
	name string
	p    []byte
	hash uint64
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
	k.memory = append(k.memory, kept{name, p, maphash.Bytes(k.seed, p)})
}

// Check hashes all memory again. Where it has changed since Add, that is
// tensor.ErrChecksum.
func (k *Kept) Check() error {
	for _, m := range k.memory {
		if maphash.Bytes(k.seed, m.p) != m.hash {
			return fmt.Errorf("%s: %w: its memory has changed since it was added",
				quote.Name(m.name), tensor.ErrChecksum)
		}
	}
	return nil
}
