package tensorfile

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	loadPiece  = 8 << 20  // read at once from a reader, by one request
	loadGap    = 64 << 10 // between tensors that are read together: padding
	loadFlight = 8        // reads that run at the same time, whatever the number of cores
)

// LoadAll reads many tensors at once into memory of the caller: into returns, for each
// tensor, where its elements go, by [tensor.Into] or [tensor.IntoBytes]; the zero Dst
// leaves it out. into is called by the goroutine that called LoadAll, in file order.
//
// From an io.ReaderAt it reads adjacent tensors together, with eight reads of up to 8 MiB
// in flight; else it uses all cores. It stops at the first error, or when ctx ends, and
// writes nothing after it returned. It leaves out external tensors, and tensors that are
// neither dense nor quantised blocks. Limits.MaxDecodedTotal bounds the bytes that are
// decoded.
func (f *File) LoadAll(ctx context.Context, into func(t *tensor.Tensor) tensor.Dst) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := loader{f: f, ctx: ctx, jobs: make(chan loadJob),
		budget: format.NewBudget(f.limits, f.TotalSize())}
	workers := runtime.GOMAXPROCS(0)
	if f.remote() != nil {
		workers = loadFlight
	}
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for j := range l.jobs {
				if err := l.run(j); err != nil {
					cancel(err)
				}
			}
		})
	}
	for t := range f.Tensors() {
		if t.External || !t.Dense() && !hasBlocks(t) {
			continue
		}
		if dst := into(t); !dst.IsZero() {
			if err := l.add(t, dst); err != nil {
				cancel(err)
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

// hasBlocks reports whether t is of quantised blocks, which have values.
func hasBlocks(t *tensor.Tensor) bool {
	_, err := tensor.As(t, tensor.F32)
	return err == nil
}

// A target is one tensor and where it goes.
type target struct {
	t    *tensor.Tensor
	dst  tensor.Dst
	raw  []byte       // its bytes, to be converted when all are there; nil if they need not be
	left atomic.Int64 // bytes of raw that are missing
}

// data is where the elements of a tensor of one blob are.
func data(t *tensor.Tensor) *tensor.Blob {
	if t.Dense() {
		return &t.Data
	}
	return &t.Parts[0].Data
}

// filled converts the elements when the last n bytes are there.
func (g *target) filled(n int) error {
	if g.raw == nil || g.left.Add(-int64(n)) > 0 {
		return nil
	}
	t := *g.t
	t.Parts = slices.Clone(t.Parts)
	*data(&t) = tensor.BlobOf(g.raw)
	err := g.dst.Load(&t)
	g.raw = nil
	return err
}

// A loadPart is bytes of one tensor, at an offset of the file.
type loadPart struct {
	*target
	p   []byte
	off int64
}

// A loadJob is one tensor, or parts of the file that one read brings.
type loadJob struct {
	one   *target
	parts []loadPart
}

type loader struct {
	f      *File
	ctx    context.Context
	jobs   chan loadJob
	near   []loadPart // adjacent, not yet sent
	start  int64      // of near in the file
	end    int64
	budget *format.Budget
}

func (l *loader) send(j loadJob) {
	select {
	case l.jobs <- j:
	case <-l.ctx.Done():
	}
}

func (l *loader) flush() {
	if len(l.near) > 0 {
		l.send(loadJob{parts: l.near})
	}
	l.near = nil
}

// add plans the reading of one tensor.
func (l *loader) add(t *tensor.Tensor, dst tensor.Dst) error {
	if err := t.Check(); err != nil {
		return err
	}
	p, plain, err := dst.Plain(t)
	if err != nil {
		return err
	}
	g := &target{t: t, dst: dst}
	b := data(t)
	size := b.Size()
	st, ok := b.Stored()
	if err := l.budget.Add(*b); err != nil {
		return err
	}
	if l.f.remote() == nil || !ok || st.Encoding != "raw" || st.Digest != "" || st.File != "" ||
		!plain && size > loadPiece || size == 0 || !align.Within(st.Offset, size, l.f.size) {
		l.send(loadJob{one: g})
		return nil
	}
	if !plain {
		g.raw = make([]byte, size)
		g.left.Store(size)
		p = g.raw
	}
	for off := st.Offset; len(p) > 0; {
		if gap := off - l.end; gap < 0 || gap > loadGap || off-l.start >= loadPiece {
			l.flush()
		}
		if len(l.near) == 0 {
			l.start, l.end = off, off
		}
		n := min(int64(len(p)), loadPiece-(off-l.start))
		l.near = append(l.near, loadPart{g, p[:n:n], off})
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
	if j.one != nil {
		return l.one(j.one)
	}
	if l.f.closed.Load() {
		return fs.ErrClosed
	}
	first, last := j.parts[0], j.parts[len(j.parts)-1]
	all := first.p
	if len(j.parts) > 1 {
		all = make([]byte, last.off+int64(len(last.p))-first.off)
	}
	n, err := l.f.remote().ReadAt(all, first.off)
	if n < len(all) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("%s: %w", naming.Quote(first.t.Name), err)
	}
	for _, part := range j.parts {
		if len(j.parts) > 1 {
			copy(part.p, all[part.off-first.off:])
		}
		if err := part.filled(len(part.p)); err != nil {
			return err
		}
	}
	return nil
}

// one reads one tensor, plain bytes by pieces so that a cancel is seen.
func (l *loader) one(g *target) error {
	const piece = 1 << 20
	p, plain, err := g.dst.Plain(g.t)
	st, ok := g.t.Data.Stored()
	if err != nil || !plain || !ok || st.Encoding != "raw" || st.Digest != "" {
		return g.dst.Load(g.t)
	}
	for off := 0; off < len(p); off += piece {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		q := p[off:min(off+piece, len(p))]
		if n, err := g.t.Data.ReadAt(q, int64(off)); n < len(q) {
			return fmt.Errorf("%s: %w", naming.Quote(g.t.Name), err)
		}
	}
	return nil
}
