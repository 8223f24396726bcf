package core

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	// inFlight bounds the memory of what is prepared and not written yet.
	InFlight = 32 << 20
	// jobSize is how many bytes of small tensors make a job.
	jobSize = 256 << 10
)

// A Piece is a part of a tensor that is to be written, or has been.
type Piece struct {
	Role       string
	DType      tensor.DType
	Word, Type string // of version 2: the storage type, and the logical one if it needs it
	Odd        bool   // half of the last byte must be zero
	Data       tensor.Blob
	Early      bool  // Prepare is called for it, by a worker
	Cost       int64 // the memory that this takes

	Stored []byte // made by Prepare
	Hash   uint64 // XXH3, if Hashed
	Hashed bool
	Digest string // of version 1
	Offset int64
	Length int64 // stored
	Size   int64 // decoded
	err    error // of Prepare
}

// A job is tensors whose pieces are prepared by one worker: one, or several small ones.
type job struct {
	items []item
	size  int64
	cost  int64
}

type item struct {
	t      *tensor.Tensor
	pieces []Piece
}

// Pipe writes tensors in order, whose pieces are prepared on all cores. reused means
// that ts may change the memory of a tensor after it has yielded the next one. After an
// error of ts or Plan, what came before is written.
func (w *Writer) Pipe(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error],
	reused bool) error {
	line := parallel.New(ctx, InFlight, w.prepare, func(j *job) error { return w.store(ctx, j) })
	defer line.Close()
	next := new(job)
	send := func() error {
		j := next
		next = new(job)
		return w.Fail(line.Put(j, j.cost))
	}
	for t, err := range ts {
		var pieces []Piece
		if err = cmp.Or(err, ctx.Err()); err == nil {
			if reused && t != nil {
				t = Fix(t, false)
			}
			t, pieces, err = w.Layout.Plan(ctx, w, t)
		}
		if err != nil {
			return cmp.Or(send(), w.Fail(line.Flush()), err)
		}
		for _, p := range pieces {
			next.size += max(p.Data.Size(), 1<<10)
			next.cost += p.Cost
		}
		if next.items = append(next.items, item{t, pieces}); next.size >= jobSize {
			if err := send(); err != nil {
				return err
			}
		}
	}
	return cmp.Or(send(), w.Fail(line.Flush()))
}

func (w *Writer) prepare(ctx context.Context, j *job) error {
	for _, it := range j.items {
		for i := range it.pieces {
			p := &it.pieces[i]
			if p.err = ctx.Err(); p.err == nil && p.Early {
				p.err = w.Layout.Prepare(ctx, w, p)
			}
			if p.err != nil {
				return nil // it is reported in its turn
			}
		}
	}
	return nil
}

func (w *Writer) store(ctx context.Context, j *job) error {
	for _, it := range j.items {
		left := len(it.pieces)
		for i := range it.pieces {
			p := &it.pieces[i]
			err := cmp.Or(ctx.Err(), p.err)
			if err == nil {
				err = w.Layout.Store(ctx, w, p, func() error {
					if left--; left > 0 {
						return nil
					}
					return w.enter(it)
				})
			}
			if err != nil {
				return w.Broken(it.t, p.Role, err)
			}
		}
		if len(it.pieces) == 0 {
			w.Layout.Enter(it.t, nil)
		}
	}
	return nil
}

// enter completes a tensor, if its data is as long as the shape requires and has not
// changed.
func (w *Writer) enter(it item) error {
	n, _ := it.t.Shape.Elements()
	want, _ := it.t.DType.Bytes(n)
	if have := it.pieces[0].Size; it.t.Dense() && it.t.DType != tensor.Unknown && have != want {
		return fmt.Errorf("%w: %d bytes came where %v of %v takes %d", tensor.ErrMalformed, have,
			it.t.Shape, it.t.DType, want)
	}
	w.Layout.Enter(it.t, it.pieces)
	return unchanged(it.t)
}
