package ztensor

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/limit"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

// A payloadKey is all that the verification of a payload depends on.
type payloadKey struct {
	shard     int32
	offset    int64
	length    int64
	size      int64
	encoding  string
	digest    string
	bools     bool // must be 0 or 1
	odd       bool // half of the last byte must be 0
	swapWidth int  // of big-endian elements
}

func (c *component) key() payloadKey {
	k := payloadKey{offset: c.offset, length: c.length, size: c.size, digest: c.digest(), bools: c.dtype == tensor.Bool}
	if c.encoding != encodingRaw {
		k.encoding = c.Stored().Encoding
	}
	if c.big {
		k.swapWidth = c.dtype.Align()
	}
	return k
}

func (b *blob) key() payloadKey {
	k := payloadKey{shard: b.shard, offset: b.offset, length: b.length, size: b.size, digest: b.digest(), bools: b.dtype == tensor.Bool}
	k.odd = b.t != nil && halfByte(b.t)
	if b.encoded {
		k.encoding = b.more.encoding
	}
	return k
}

// An outcome is what verifying a payload found.
type outcome struct {
	once       sync.Once
	field      string
	found      []problem
	undeclared int64
}

// once calls verify for the first payload of a key, and repeats what that found
// for the others under their own field.
func (w *worker) once(k payloadKey, field func() string, verify func()) {
	o := w.v.shared[k]
	if o == nil {
		verify()
		return
	}
	first := false
	before, undeclared := len(w.found), w.undeclared
	o.once.Do(func() {
		first = true
		verify()
		o.field, o.found, o.undeclared = field(), slices.Clone(w.found[before:]), w.undeclared-undeclared
	})
	if first {
		return
	}
	w.undeclared += o.undeclared
	for _, f := range o.found {
		var fe *tensor.FormatError
		if errors.As(f.err, &fe) {
			if rest, ok := strings.CutPrefix(fe.Field, o.field); ok {
				moved := *fe
				moved.Field = field() + rest
				f.err = &moved
			}
		}
		w.found = append(w.found, f)
	}
}

// charge counts n bytes whose decoding nothing in the file announced.
func (w *worker) charge(n int64) {
	if w.v.budget.Add(-n) < 0 && w.err == nil {
		w.err = w.v.tooMuch()
	}
}

func (v *verifier) tooMuch() error {
	return fmt.Errorf("ztensor: %w: verifying decodes more than %d bytes (Limits.MaxDecodedTotal)", tensor.ErrLimit, v.limit())
}

func (v *verifier) limit() int64 {
	size, ok := align.Add(v.r.Size(), v.r.generation.elsewhere())
	if !ok {
		size = math.MaxInt64
	}
	return limit.DecodedTotal(v.r.limits, size)
}

// prepare finds the payloads that several tensors share, and compares what will
// be decoded with the limit.
func (v *verifier) prepare() error {
	v.budget.Store(v.limit())
	if v.found.Options.Depth <= tensor.VerifyStructure {
		return nil
	}
	r := v.r
	seen := map[payloadKey]*outcome{}
	sum := int64(0)
	count := func(b tensor.Blob, again bool) {
		var k payloadKey
		switch p := b.Source().(type) {
		case *component:
			if !r.jumbled && p.encoding == encodingRaw {
				return
			}
			k = p.key()
		case *blob:
			if !r.jumbled && !p.encoded {
				return
			}
			k = p.key()
		default:
			return
		}
		o, known := seen[k]
		if known && o == nil {
			seen[k] = new(outcome)
		} else if !known {
			seen[k] = nil
		}
		if k.encoding == "" || k.size < 0 {
			return
		}
		for _, counts := range [2]bool{!known, again} {
			var ok bool
			if counts {
				if sum, ok = align.Add(sum, k.size); !ok {
					sum = math.MaxInt64
				}
			}
		}
	}
	for t := range r.tensors.all() {
		count(t.Data, false)
		indexed := sparse.Known(t.Scheme)
		for i := range t.Parts {
			count(t.Parts[i].Data, indexed && slices.Contains(indexRoles, t.Parts[i].Role))
		}
	}
	if v.budget.Add(-sum) < 0 {
		return v.tooMuch()
	}
	for k, o := range seen {
		if o == nil {
			delete(seen, k)
		}
	}
	v.shared = seen
	return nil
}
