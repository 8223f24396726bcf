package core

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/finding"
	"github.com/tensorfile/tensorfile/internal/limit"
	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/tensor"
)

func (r *File) Verify(ctx context.Context, l *finding.List) error {
	size, ok := align.Add(r.Size(), r.Elsewhere())
	if !ok {
		size = math.MaxInt64
	}
	v := &Verifier{R: r, Ctx: ctx, Found: l, limit: limit.DecodedTotal(r.Limits, size),
		outcomes: map[payloadKey]*outcome{}}
	v.budget.Store(v.limit)
	for _, w := range r.Warnings.All() {
		v.Found.Warn(w)
	}
	if err := r.Generation.VerifyFile(v); err != nil {
		return err
	}
	err := v.tensors()
	if err != nil || !r.Ruled || l.Options.Depth < tensor.VerifyCanonical {
		return err
	}
	found, err := r.Generation.CanonicalViolations(ctx)
	for _, f := range found {
		l.Error(f)
	}
	return err
}

type Verifier struct {
	R     *File
	Ctx   context.Context
	Found *finding.List
	Done  atomic.Int64 // stored bytes looked at

	mu       sync.Mutex
	outcomes map[payloadKey]*outcome
	limit    int64
	budget   atomic.Int64 // bytes that may still be decoded
}

// A batch is tensors that one worker verifies.
type batch struct {
	from, to int
	found    []Problem
	err      error // that ends the verification
}

// batchSize is how many stored bytes make a batch, unless one tensor has more.
const batchSize = 4 << 20

// errFull ends the verification where no more findings are reported.
var errFull = errors.New("ztensor: enough findings")

// tensors verifies all tensors on all cores. What is found is reported in file
// order, from this goroutine.
func (v *Verifier) tensors() error {
	r := v.R
	total := int64(0)
	for _, p := range r.Payloads {
		total += p.Length
	}
	line := parallel.New(v.Ctx, 0, func(ctx context.Context, b *batch) error {
		w := Worker{V: v, Ctx: ctx}
		for i := b.from; i < b.to && w.Err == nil; i++ {
			r.Generation.VerifyTensor(&w, r.Tensors[i])
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		b.found, b.err = w.Found, w.Err
		return nil
	}, func(b *batch) error {
		for _, f := range b.found {
			if f.Warn {
				v.Found.Warn(f.err)
			} else {
				v.Found.Error(f.err)
			}
		}
		if v.Found.Options.Progress != nil {
			v.Found.Options.Progress(v.Done.Load(), total)
		}
		if v.Found.Full() {
			return errFull
		}
		return b.err
	})
	defer line.Close()
	for from := 0; from < len(r.Tensors); {
		b := &batch{from: from, to: from}
		for size := int64(0); b.to < len(r.Tensors) && size < batchSize; b.to++ {
			size += 1 + max(0, r.Tensors[b.to].Size())
		}
		from = b.to
		if line.Put(b, 0) != nil {
			break
		}
	}
	if err := line.Flush(); err != errFull {
		return err
	}
	return nil
}
