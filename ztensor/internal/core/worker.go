package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// A Worker verifies tensors one after the other.
type Worker struct {
	V     *Verifier
	Ctx   context.Context
	Found []Problem
	Err   error // that ends the verification
}

// A Problem is an error, or a warning, that a worker made.
type Problem struct {
	err  error
	Warn bool
}

func (w *Worker) Fail(err error) { w.Found = append(w.Found, Problem{err: err}) }

func (w *Worker) Warn(err error) { w.Found = append(w.Found, Problem{err: err, Warn: true}) }

// An outcome is what verifying a payload found.
type outcome struct {
	once    sync.Once
	path    string
	found   []Problem
	decoded int64
}

// A payloadKey is all that the verification of a payload depends on.
type payloadKey struct {
	offset, length, size int64
	shard                int32
	odd                  bool // half of the last byte must be 0
	dtype                tensor.DType
	encoding, digest     string
}

// outcome returns that of p, which is the same for all payloads that are alike.
func (v *Verifier) outcome(p *Payload) *outcome {
	if !v.R.Jumbled {
		return new(outcome) // no two payloads have a byte in common
	}
	k := payloadKey{shard: p.Shard, offset: p.Offset, length: p.Length, size: p.DecodedSize,
		digest: p.Digest, odd: OddHalf(p.T)}
	if p.Encoded() {
		k.encoding = p.More.Encoding
	}
	if p.Codec() != nil || p.Dtype == tensor.Bool {
		k.dtype = p.Dtype
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	o := v.outcomes[k]
	if o == nil {
		o = new(outcome)
		v.outcomes[k] = o
	}
	return o
}

// Payload verifies a payload with check, which is like [Payload.Check]: once for all
// tensors that have it, each of which gets what that found. It returns how many bytes
// were decoded.
func (w *Worker) Payload(p *Payload,
	check func(step func(n int64) error, look func(b []byte) error) error) int64 {
	o := w.V.outcome(p)
	first := false
	o.once.Do(func() {
		first = true
		before := len(w.Found)
		o.decoded = w.check(p, check)
		o.found, o.path = slices.Clone(w.Found[before:]), p.R.Path(p)
	})
	for i := 0; i < len(o.found) && !first; i++ {
		f := o.found[i]
		var fe *tensor.FormatError
		if errors.As(f.err, &fe) {
			if rest, ok := strings.CutPrefix(fe.Field, o.path); ok {
				moved := *fe
				moved.Field = p.R.Path(p) + rest
				f.err = &moved
			}
		}
		w.Found = append(w.Found, f)
	}
	return o.decoded
}

func (w *Worker) check(p *Payload,
	check func(step func(n int64) error, look func(b []byte) error) error) (decoded int64) {
	if p.Encoded() {
		decoded = max(0, p.DecodedSize)
	}
	if w.Charge(decoded); w.Err != nil {
		return decoded
	}
	values := Check{DType: p.Dtype, Odd: OddHalf(p.T)}
	err := check(func(n int64) error {
		w.V.Done.Add(n)
		return cmp.Or(w.Ctx.Err(), w.Err)
	}, func(b []byte) error {
		if p.DecodedSize < 0 {
			decoded += int64(len(b))
			w.Charge(int64(len(b)))
		}
		err := values.Next(b)
		if err != nil && p.R.Ruled {
			err = rule.New(rule.LayoutData, err)
		}
		return cmp.Or(w.Err, err)
	})
	if err == nil {
		err = p.Failed(values.End())
	}
	if err != nil && w.Ctx.Err() == nil && w.Err == nil {
		w.Fail(err)
	}
	return decoded
}

// Charge counts n bytes that are decoded.
func (w *Worker) Charge(n int64) {
	if w.V.budget.Add(-n) < 0 && w.Err == nil {
		w.Err = fmt.Errorf("ztensor: %w: verifying decodes more than %d bytes "+
			"(Limits.MaxDecodedTotal)", tensor.ErrLimit, w.V.limit)
	}
}

// Again charges for the indices of a sparse tensor, which are decoded a second time.
func (w *Worker) Again(p *Payload, decoded int64) {
	if p.DecodedSize < 0 || slices.Contains(IndexRoles, p.Role()) {
		w.Charge(decoded)
	}
}
