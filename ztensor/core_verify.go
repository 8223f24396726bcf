package ztensor

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/tensorfile/tensorfile/internal/finding"
	"github.com/tensorfile/tensorfile/internal/parallel"
)

func (r *file) verify(ctx context.Context, l *finding.List) error {
	v := &verifier{r: r, ctx: ctx, found: l}
	for _, w := range r.Warnings() {
		v.found.Warn(w)
	}
	if err := r.generation.verifyFile(v); err != nil {
		return err
	}
	if err := v.tensors(); err != nil {
		return err
	}
	return r.generation.verifyForm(v)
}

type verifier struct {
	r     *file
	ctx   context.Context
	found *finding.List
	done  atomic.Int64 // stored bytes looked at

	shared map[payloadKey]*outcome // of payloads that several tensors have; read-only
	budget atomic.Int64            // bytes that may still be decoded
}

// A problem is an error, or a warning, that a worker made.
type problem struct {
	err  error
	warn bool
}

// A batch is tensors that one worker verifies.
type batch struct {
	from, to int
	found    []problem
	err      error // that ends the verification
}

// batchSize is how many stored bytes make a batch, unless one tensor has more.
const batchSize = 4 << 20

// errFull ends the verification where no more findings are reported.
var errFull = errors.New("ztensor: enough findings")

// tensors verifies all tensors on all cores. What is found is reported in file
// order, from this goroutine.
func (v *verifier) tensors() error {
	r := v.r
	if err := v.prepare(); err != nil {
		return err
	}
	total := r.generation.stored()
	line := parallel.New(v.ctx, 0, func(ctx context.Context, b *batch) error {
		w := worker{v: v, ctx: ctx}
		for i := b.from; i < b.to && w.err == nil; i++ {
			r.generation.verifyTensor(&w, r.tensors.at(i))
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		b.found, b.err = w.found, w.err
		return nil
	}, func(b *batch) error {
		for _, f := range b.found {
			if f.warn {
				v.found.Warn(f.err)
			} else {
				v.found.Error(f.err)
			}
		}
		if v.found.Options.Progress != nil {
			v.found.Options.Progress(v.done.Load(), total)
		}
		if v.found.Full() {
			return errFull
		}
		return b.err
	})
	defer line.Close()
	for from := 0; from < r.tensors.used; {
		b := &batch{from: from, to: from}
		for size := int64(0); b.to < r.tensors.used && size < batchSize; b.to++ {
			size += 1 + max(0, r.tensors.at(b.to).Size())
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

// A worker verifies tensors one after the other.
type worker struct {
	v     *verifier
	ctx   context.Context
	buf   []byte
	found []problem

	undeclared int64 // decoded bytes of the current tensor whose number the file does not give
	err        error // that ends the verification
}

func (w *worker) fail(err error) { w.found = append(w.found, problem{err: err}) }

func (w *worker) warn(err error) { w.found = append(w.found, problem{err: err, warn: true}) }
