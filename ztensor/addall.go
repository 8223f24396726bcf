package ztensor

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"

	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	// inFlight bounds the memory of what is prepared and not written yet.
	inFlight = 32 << 20
	// maxPrepared is the size of the largest component that is prepared in memory before it
	// is written; others are streamed.
	maxPrepared = 8 << 20
	// jobSize is how many bytes of small tensors make a job.
	jobSize = 256 << 10
)

// AddAll adds all tensors that ts yields, as [Writer.Add] would one after the
// other, with the same bytes. What is compressed or hashed is so on all cores.
// In addition to what one tensor at a time takes it holds up to 32 MiB, and an
// encoder for each core, of 2 MiB at levels 1 and 2, 3 below 7, 9 below 16, and 40
// from there on. ts runs in the goroutine of the caller. Memory that it has yielded
// must not change until AddAll returns; a change that is noticed is an error. After
// an error that is not final, such as a tensor that the version cannot hold, those
// before it are in the file and more can be added.
func (w *Writer) AddAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error {
	return w.adding(func() error {
		return w.layout.addAll(ctx, w, ts)
	})
}

// adding calls f, which adds tensors. A panic of theirs is final for w.
func (w *Writer) adding(f func() error) error {
	if err := w.usable(); err != nil {
		return err
	}
	completed := false
	defer func() {
		if !completed {
			w.fail(errors.New("ztensor: a panic ended writing"))
		}
	}()
	err := f()
	completed = true
	return err
}

// A job is tensors that are prepared by one worker: one, or several small ones.
type job struct {
	items []item
	size  int64
	cost  int64 // of the memory that it takes
}

type item struct {
	t        *tensor.Tensor
	payloads []payload
}

// addAll is AddAll for version 1. reused means that ts may change the memory of a tensor after
// it has yielded the next one.
func (w *Writer) addAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error], reused bool) error {
	if w.level > 0 && w.frames == nil {
		var err error
		if w.frames, err = newFrames(w.level); err != nil {
			return w.fail(err)
		}
	}
	line := parallel.New(ctx, inFlight, w.prepareJob, func(j *job) error { return w.writeJob(ctx, j) })
	defer line.Close()
	next := new(job)
	send := func() error {
		if len(next.items) == 0 {
			return nil
		}
		j := next
		next = new(job)
		return line.Put(j, j.cost)
	}
	// flush ends with the error of what was added, which is final, or else with err.
	flush := func(err error) error {
		if failed := cmp.Or(send(), line.Flush()); failed != nil {
			return w.fail(failed)
		}
		return err
	}
	for t, err := range ts {
		if err == nil {
			err = ctx.Err()
		}
		var payloads []payload
		if err == nil {
			payloads, err = w.plan(ctx, t)
		}
		if err != nil {
			return flush(err)
		}
		for i := range payloads {
			p := &payloads[i]
			if reused {
				p.data = fixBlob(p.data)
			}
			size := max(p.data.Size(), 0)
			next.size += max(size, 1<<10)
			if p.prepared = w.preparable(p); p.prepared {
				next.cost += 2 * size
			}
		}
		if next.items = append(next.items, item{t, payloads}); next.size >= jobSize {
			if err := send(); err != nil {
				return w.fail(err)
			}
		}
	}
	return flush(nil)
}

// preparable reports whether a worker is to compress or hash a component. What is in memory
// and stored as it is takes no more memory for that.
func (w *Writer) preparable(p *payload) bool {
	if w.level == 0 {
		if _, ok := p.data.Memory(); ok {
			return w.digest != NoDigest
		}
	}
	return p.data.Size() >= 0 && p.data.Size() <= maxPrepared
}

// prepareJob compresses and hashes what is to be stored.
func (w *Writer) prepareJob(ctx context.Context, j *job) error {
	for i := range j.items {
		it := &j.items[i]
		for k := range it.payloads {
			p := &it.payloads[k]
			if !p.prepared {
				continue
			}
			if err := w.prepareOne(ctx, p); err != nil {
				p.err = err // in its turn
				return nil
			}
		}
	}
	return nil
}

func (w *Writer) prepareOne(ctx context.Context, p *payload) error {
	all, ok := p.data.Memory()
	if !ok {
		all = make([]byte, 0, p.data.Size())
	}
	gather := writerFunc(func(b []byte) (int, error) {
		if !ok {
			all = append(all, b...)
		}
		return len(b), nil
	})
	buf := make([]byte, min(max(p.data.Size(), 1), 256<<10))
	f := feed{out: gather, dtype: p.dtype}
	if err := f.from(ctx, p.data, &buf); err != nil {
		return err
	}
	p.size = f.n
	if w.level > 0 {
		all = w.frames.EncodeAll(all, make([]byte, 0, len(all)))
	}
	p.stored = all
	s := sink{w: io.Discard, h: newHasher(w.digest)}
	for rest := all; len(rest) > 0; rest = rest[min(len(rest), pieceSize):] {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.h.write(rest[:min(len(rest), pieceSize)])
	}
	s.n = int64(len(all))
	s.fill(&p.written)
	return nil
}

// writeJob writes the components of a job.
func (w *Writer) writeJob(ctx context.Context, j *job) error {
	for i := range j.items {
		it := &j.items[i]
		for k := range it.payloads {
			p := &it.payloads[k]
			if err := w.component(ctx, it.t, p); err != nil {
				return err
			}
			if err := unchanged(p.data); err != nil {
				return w.broken(it.t, p.role, err)
			}
		}
		w.enter(it.t, it.payloads)
	}
	return nil
}
