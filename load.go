package tensorfile

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"sync"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/limit"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	loadPiece  = 8 << 20  // read at once from a reader, by one request
	loadGap    = 64 << 10 // between tensors that are read together: padding
	loadFlight = 8        // reads that run at the same time, whatever the number of cores
)

// LoadAll reads the elements of many tensors at once into memory that the caller
// has: into returns, for each tensor, where its bytes go, little-endian and in
// storage order, as long as its Data; nil leaves the tensor out. into is called by
// the goroutine that called LoadAll, in file order.
//
// From an io.ReaderAt it reads neighbouring tensors together, up to 8 MiB at a time,
// and keeps eight such reads in flight, so that latency is paid seldom; else it uses
// all cores. It stops at the first error, or when ctx ends, and returns when nothing
// is being written any more. Tensors that are not dense or external are left out.
// What encoded tensors decode to is bounded by Limits.MaxDecodedTotal.
func (f *File) LoadAll(ctx context.Context, into func(t *tensor.Tensor) []byte) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := loader{f: f, ctx: ctx, jobs: make(chan loadJob), left: limit.DecodedTotal(f.limits, f.size)}
	workers := runtime.GOMAXPROCS(0)
	if f.far != nil {
		workers = loadFlight
	}
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for j := range l.jobs {
				if err := l.run(j); err != nil {
					cancel(fmt.Errorf("%s: %w", quote.Name(j.parts[0].t.Name), err))
				}
			}
		})
	}
	for t := range f.Tensors() {
		if t.External || !t.Dense() {
			continue
		}
		if p := into(t); p != nil {
			if err := l.add(t, p); err != nil {
				cancel(fmt.Errorf("%s: %w", quote.Name(t.Name), err))
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	l.flush()
	close(l.jobs)
	running.Wait()
	return context.Cause(ctx)
}

// A loadPart is bytes of one tensor, at an offset of the file or of the tensor.
type loadPart struct {
	t   *tensor.Tensor
	p   []byte
	off int64
}

// A loadJob is one tensor, or parts of the file that one read brings.
type loadJob struct {
	parts []loadPart
	far   bool // off is that of the file
}

type loader struct {
	f     *File
	ctx   context.Context
	jobs  chan loadJob
	near  []loadPart // neighbours, not yet sent
	start int64      // of near in the file
	end   int64
	left  int64 // bytes that may still be decoded
}

func (l *loader) send(j loadJob) {
	select {
	case l.jobs <- j:
	case <-l.ctx.Done():
	}
}

func (l *loader) flush() {
	if len(l.near) > 0 {
		l.send(loadJob{l.near, true})
	}
	l.near = nil
}

// add plans the reading of one tensor.
func (l *loader) add(t *tensor.Tensor, p []byte) error {
	if err := t.Check(); err != nil {
		return err
	}
	if size := t.Data.Size(); size >= 0 && int64(len(p)) != size {
		return fmt.Errorf("tensorfile: LoadAll requires a buffer of %d bytes, not %d: %w", size, len(p), io.ErrShortBuffer)
	}
	st, ok := t.Data.Stored()
	plain := ok && st.Encoding == "raw" && st.Digest == ""
	if ok && st.Encoding != "raw" {
		if l.left -= int64(len(p)); l.left < 0 {
			return fmt.Errorf("%w: more than MaxDecodedTotal is decoded", tensor.ErrLimit)
		}
	}
	if l.f.far == nil || !plain || st.File != "" || !align.Within(st.Offset, int64(len(p)), l.f.size) {
		l.send(loadJob{parts: []loadPart{{t: t, p: p}}})
		return nil
	}
	for off := st.Offset; len(p) > 0; {
		if gap := off - l.end; gap < 0 || gap > loadGap || off-l.start >= loadPiece {
			l.flush()
		}
		if len(l.near) == 0 {
			l.start, l.end = off, off
		}
		n := min(int64(len(p)), loadPiece-(off-l.start))
		l.near = append(l.near, loadPart{t, p[:n:n], off})
		p, off = p[n:], off+n
		l.end = off
	}
	return nil
}

// run reads what a job asks for.
func (l *loader) run(j loadJob) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	first := j.parts[0]
	if !j.far {
		return l.one(first.t, first.p)
	}
	if l.f.closed.Load() {
		return fs.ErrClosed
	}
	last := j.parts[len(j.parts)-1]
	all := first.p
	if len(j.parts) > 1 {
		all = make([]byte, last.off+int64(len(last.p))-first.off)
	}
	n, err := l.f.far.ReadAt(all, first.off)
	if n < len(all) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	if len(j.parts) > 1 {
		for _, part := range j.parts {
			copy(part.p, all[part.off-first.off:])
		}
	}
	return nil
}

// one reads one tensor, plain bytes by pieces so that a cancel is seen.
func (l *loader) one(t *tensor.Tensor, p []byte) error {
	const piece = 1 << 20
	st, ok := t.Data.Stored()
	if !ok || st.Encoding != "raw" || st.Digest != "" {
		return t.Data.ReadInto(p)
	}
	for off := 0; off < len(p); off += piece {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		q := p[off:min(off+piece, len(p))]
		if n, err := t.Data.ReadAt(q, int64(off)); n < len(q) {
			return err
		}
	}
	return nil
}
