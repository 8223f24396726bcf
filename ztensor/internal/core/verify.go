package core

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/finding"
	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

func (r *File) Verify(ctx context.Context, l *finding.List) error {
	v := &Verifier{R: r, Ctx: ctx, Found: l}
	for _, w := range r.Warnings.List {
		v.Found.Warn(w)
	}
	if err := r.Generation.VerifyFile(v); err != nil {
		return err
	}
	if err := v.tensors(); err != nil {
		return err
	}
	return r.Generation.VerifyForm(v)
}

type Verifier struct {
	R     *File
	Ctx   context.Context
	Found *finding.List
	Done  atomic.Int64 // stored bytes looked at

	shared map[payloadKey]*outcome // of payloads that several tensors have; read-only
	budget atomic.Int64            // bytes that may still be decoded
}

// A Problem is an error, or a warning, that a worker made.
type Problem struct {
	err  error
	Warn bool
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
	if err := v.prepare(); err != nil {
		return err
	}
	total := r.Generation.Stored()
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

// A Worker verifies tensors one after the other.
type Worker struct {
	V     *Verifier
	Ctx   context.Context
	Found []Problem

	Undeclared int64 // decoded bytes of the current tensor whose number the file does not give
	Err        error // that ends the verification
}

func (w *Worker) Fail(err error) { w.Found = append(w.Found, Problem{err: err}) }

func (w *Worker) Warn(err error) { w.Found = append(w.Found, Problem{err: err, Warn: true}) }

// prepare finds the payloads that several tensors share, and compares what will
// be decoded with the limit.
func (v *Verifier) prepare() error {
	v.budget.Store(v.limit())
	if v.Found.Options.Depth <= tensor.VerifyStructure {
		return nil
	}
	shared := map[payloadKey]bool{}
	sum := int64(0)
	add := func(n int64) {
		var ok bool
		if sum, ok = align.Add(sum, n); !ok {
			sum = math.MaxInt64
		}
	}
	for _, t := range v.R.Tensors {
		for _, p := range PayloadsOf(t) {
			if !v.R.Jumbled && !p.Encoded() {
				continue
			}
			k := p.Key()
			_, known := shared[k]
			shared[k] = known
			if k.encoding == "" || k.size < 0 {
				continue
			}
			if !known {
				add(k.size)
			}
			if sparse.Known(t.Scheme) && slices.Contains(IndexRoles, p.Role()) {
				add(k.size) // indices are decoded again
			}
		}
	}
	v.shared = map[payloadKey]*outcome{}
	for k, several := range shared {
		if several {
			v.shared[k] = new(outcome)
		}
	}
	if v.budget.Add(-sum) < 0 {
		return v.tooMuch()
	}
	return nil
}
