package core

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	// InFlight bounds the memory of what is prepared and not written yet.
	InFlight = 32 << 20
	// jobSize is how many bytes of small tensors make a job.
	jobSize = 256 << 10
)

// A Piece is a part of a tensor that is to be written, or has been.
type Piece struct {
	Role       string
	DType      tensor.DType
	Word, Type string // of version 2: the storage type, and the logical one if it needs it
	Odd        bool   // see Check
	Data       tensor.Blob
	Early      bool  // Prepare is called for it, by a worker
	Cost       int64 // the memory that this takes
	Streamed   bool  // its data comes piece by piece, and cannot be read again

	Stored []byte // made by Prepare
	Digest string
	Before int64 // the end of the file before the padding of the piece
	Offset int64
	Length int64 // stored
	Size   int64 // decoded
	err    error // of Prepare
}

// Plan decides whether a piece is prepared: what is in memory as it is stored, and what
// has at most limit bytes.
func (p *Piece) Plan(compress bool, limit int64) {
	size := p.Data.Size()
	if _, ok := p.Data.Memory(); ok && !compress {
		p.Early = true
	} else if size >= 0 && size <= limit {
		p.Early, p.Cost = true, 2*size
	}
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
	kept   format.Checksums
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
		var it item
		if err = cmp.Or(err, ctx.Err()); err == nil {
			it.t, it.pieces, err = w.Layout.Plan(ctx, w, t)
		}
		if err != nil {
			return cmp.Or(send(), w.Fail(line.Flush()), err)
		}
		if reused {
			it.kept.AddTensor(t)
		}
		for _, p := range it.pieces {
			next.size += max(p.Data.Size(), 1<<10)
			next.cost += p.Cost
		}
		if next.items = append(next.items, it); next.size >= jobSize {
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
	for k := range j.items {
		it := &j.items[k]
		for i := range it.pieces {
			p := &it.pieces[i]
			err := cmp.Or(ctx.Err(), p.err)
			if err == nil {
				err = w.storePiece(ctx, p)
			}
			if err == nil && i == len(it.pieces)-1 {
				err = it.complete()
			}
			if err != nil {
				return w.Broken(it.t, p.Role, err)
			}
		}
		if err := w.Unchanged(&it.kept); err != nil {
			return err
		}
		if err := w.Layout.Enter(it.t, it.pieces); err != nil {
			return w.Fail(err)
		}
	}
	return nil
}

// storePiece writes a piece, unless its bytes are there already.
func (w *Writer) storePiece(ctx context.Context, p *Piece) error {
	there, err := w.Layout.Place(ctx, w, p)
	if err != nil || there {
		return err
	}
	start := w.Off
	if p.Early {
		err = w.Write(p.Stored)
	} else if out, e := w.Layout.Sink(ctx, w, p); e != nil {
		err = e
	} else if err = p.Feed(ctx, out); err == nil {
		err = out.Close()
	}
	if err != nil {
		return err
	}
	p.Length = w.Off - start
	return w.Layout.Written(ctx, w, p)
}

// Unchanged fails where memory is not what it was when it was added.
func (w *Writer) Unchanged(k *format.Checksums) error {
	if err := k.Check(); err != nil {
		return w.Fail(fmt.Errorf("ztensor: %w", err))
	}
	return nil
}

// complete reports data that is not as long as the shape requires.
func (it *item) complete() error {
	n, _ := it.t.Shape.Elements()
	want, _ := it.t.DType.Bytes(n)
	if have := it.pieces[0].Size; it.t.Dense() && it.t.DType != tensor.Unknown && have != want {
		return Malformed("%d bytes came where %v of %v takes %d", have, it.t.Shape, it.t.DType,
			want)
	}
	return nil
}
