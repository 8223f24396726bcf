package core

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/limit"
	"github.com/tensorfile/tensorfile/tensor"
)

// A payloadKey is all that the verification of a payload depends on.
type payloadKey struct {
	shard    int32
	offset   int64
	length   int64
	size     int64
	encoding string
	digest   string
	bools    bool         // must be 0 or 1
	odd      bool         // half of the last byte must be 0
	dtype    tensor.DType // that a codec depends on
}

func (p *Payload) Key() payloadKey {
	k := payloadKey{shard: p.Shard, offset: p.Offset, length: p.Length, size: p.DecodedSize,
		digest: p.Digest, bools: p.Dtype == tensor.Bool}
	k.odd = p.T != nil && HalfByte(p.T)
	if p.Encoded() {
		k.encoding = p.More.Encoding
	}
	if p.Codec() != nil {
		k.dtype = p.Dtype
	}
	return k
}

// An outcome is what verifying a payload found.
type outcome struct {
	once       sync.Once
	field      string
	found      []Problem
	undeclared int64
}

// Once calls verify for the first payload of a key, and repeats what that found
// for the others under their own field.
func (w *Worker) Once(k payloadKey, field func() string, verify func()) {
	o := w.V.shared[k]
	if o == nil {
		verify()
		return
	}
	first := false
	before, undeclared := len(w.Found), w.Undeclared
	o.once.Do(func() {
		first = true
		verify()
		o.field, o.found = field(), slices.Clone(w.Found[before:])
		o.undeclared = w.Undeclared - undeclared
	})
	if first {
		return
	}
	w.Undeclared += o.undeclared
	for _, f := range o.found {
		var fe *tensor.FormatError
		if errors.As(f.err, &fe) {
			if rest, ok := strings.CutPrefix(fe.Field, o.field); ok {
				moved := *fe
				moved.Field = field() + rest
				f.err = &moved
			}
		}
		w.Found = append(w.Found, f)
	}
}

// Charge counts n bytes whose decoding nothing in the file announced.
func (w *Worker) Charge(n int64) {
	if w.V.budget.Add(-n) < 0 && w.Err == nil {
		w.Err = w.V.tooMuch()
	}
}

func (v *Verifier) tooMuch() error {
	return fmt.Errorf("ztensor: %w: verifying decodes more than %d bytes (Limits.MaxDecodedTotal)",
		tensor.ErrLimit, v.limit())
}

func (v *Verifier) limit() int64 {
	size, ok := align.Add(v.R.Size(), v.R.Generation.Elsewhere())
	if !ok {
		size = math.MaxInt64
	}
	return limit.DecodedTotal(v.R.Limits, size)
}
