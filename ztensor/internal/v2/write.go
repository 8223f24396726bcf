package v2

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
)

// batchSize is about how many bytes of tensors are written at once.
const batchSize = 32 << 20

// Add takes tensors and writes them, a batch at a time; in canonical form all that are
// kept, and only if these are all of a call of AddAll.
func (l *Layout) Add(ctx context.Context, w *core.Writer, ts iter.Seq2[*tensor.Tensor, error],
	all bool) error {
	size := int64(0)
	for t, err := range ts {
		if err = cmp.Or(err, ctx.Err()); err == nil {
			err = l.take(ctx, w, t, all)
		}
		if err != nil {
			if !l.canonical && w.Err == nil {
				l.flush(ctx, w, "") // what was added before it
			}
			return err
		}
		if size += max(0, t.Size()); !l.canonical && size >= batchSize {
			if err := l.flush(ctx, w, ""); err != nil {
				return err
			}
			size = 0
		}
	}
	if l.canonical && !all {
		return nil
	}
	return l.flush(ctx, w, "")
}

// take checks a tensor and keeps it. If it is one of many, or written only by Close, its
// memory must not change until then.
func (l *Layout) take(ctx context.Context, w *core.Writer, t *tensor.Tensor, many bool) error {
	t, err := core.Measured(ctx, t)
	if err == nil {
		err = w.CheckTensor(t)
	}
	if err != nil {
		return err
	}
	if as := l.normalize(t); as.Scheme == layouts.CSR || as.Scheme == layouts.COO {
		if err := layouts.CheckData(ctx, as); err != nil {
			return core.SparseError(t, err)
		}
	}
	if err := l.inOrder(t); err != nil {
		return err
	}
	if layouts.HasAttributes(t.Scheme) {
		l.profiled[t.Name] = t
	}
	w.Names[t.Name] = true
	if l.canonical || many {
		t = core.Fix(t, !many)
	}
	l.kept = append(l.kept, t)
	return nil
}

// inOrder refuses a tensor that canonical form has before one that has been written.
func (l *Layout) inOrder(t *tensor.Tensor) error {
	if l.canonical && l.begun && t.Name <= l.last {
		return fmt.Errorf("ztensor: tensor %s: %w: in canonical form it belongs before %s, "+
			"which has been written (WriterOptions.KeepOrder)",
			quote.Name(t.Name), errors.ErrUnsupported, quote.Name(l.last))
	}
	return nil
}

// flush writes the kept tensors, those whose names come before that one if it is not
// empty.
func (l *Layout) flush(ctx context.Context, w *core.Writer, before string) error {
	now := slices.Clone(l.kept)
	if before != "" {
		now = slices.DeleteFunc(now, func(t *tensor.Tensor) bool { return t.Name >= before })
		l.kept = slices.DeleteFunc(l.kept, func(t *tensor.Tensor) bool { return t.Name < before })
	} else {
		l.kept = nil
	}
	return l.write(ctx, w, now)
}

// A job is tensors whose parts are hashed, where they are in memory, before they are
// written.
type job struct {
	ts    []*tensor.Tensor
	parts [][]outPart
}

// write writes tensors, in canonical form in the order of their names.
func (l *Layout) write(ctx context.Context, w *core.Writer, ts []*tensor.Tensor) error {
	if l.canonical {
		slices.SortFunc(ts, func(a, b *tensor.Tensor) int {
			return strings.Compare(a.Name,
				b.Name)
		})
	}
	if f, ok := w.File.(*atomicfile.File); ok && len(ts) > 1 && l.level == 0 {
		f.Reserve(l.end(w.Off, ts))
	}
	line := parallel.New(ctx, 0, l.prepareJob, func(j *job) error { return l.writeJob(ctx, w, j) })
	defer line.Close()
	for len(ts) > 0 {
		n := 0
		for size := int64(0); n < len(ts) && size < core.JobSize; n++ {
			size += max(ts[n].Size(), 1<<10)
		}
		j := &job{ts: ts[:n], parts: make([][]outPart, n)}
		for i, t := range j.ts {
			j.parts[i] = l.payloads(t)
		}
		if err := line.Put(j, 0); err != nil {
			return w.Fail(err)
		}
		ts = ts[n:]
	}
	err := line.Flush()
	if err == nil && l.frames != nil {
		err = l.frames.flush(ctx)
	}
	return w.Fail(err)
}

func (l *Layout) prepareJob(ctx context.Context, j *job) error {
	for i := range j.parts {
		for k := range j.parts[i] {
			if err := ctx.Err(); err != nil || l.level > 0 {
				return err
			}
			p := &j.parts[i][k]
			if b, ok := p.data.Memory(); ok {
				p.hash, p.hashed = core.HashOf(p.data, b), true
			}
		}
	}
	return nil
}

func (l *Layout) writeJob(ctx context.Context, w *core.Writer, j *job) error {
	for i, t := range j.ts {
		parts := j.parts[i]
		left := len(parts)
		written := func() error {
			if left--; left > 0 {
				return nil
			}
			l.enter(t, parts)
			return core.TensorUnchanged(t)
		}
		for k := range parts {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := l.part(ctx, w, &parts[k], written); err != nil {
				return w.Broken(t, parts[k].role, err)
			}
		}
	}
	return nil
}

// end returns about where the file will end when these tensors have been written.
func (l *Layout) end(off int64, ts []*tensor.Tensor) int64 {
	for _, t := range ts {
		var ok bool
		if off, ok = align.Add(off+align.Padding(off, l.align), max(0, t.Size())); !ok {
			return 0
		}
	}
	return off
}

// part stores one part: shares what is there already, or writes it. Then it calls
// written.
func (l *Layout) part(ctx context.Context, w *core.Writer, p *outPart,
	written func() error) error {
	f := core.Feed{Dtype: p.check, Odd: p.odd}
	shared, err := l.shared(ctx, p, &w.Buf)
	if err != nil {
		return err
	}
	if shared {
		f.Out = io.Discard
		if p.check == tensor.Bool || p.odd {
			err = f.From(ctx, p.data, &w.Buf)
		}
		if err != nil {
			return err
		}
		return written()
	}
	s, err := l.sink(ctx, w, p)
	if err != nil {
		return err
	}
	f.Out = s
	if err := f.From(ctx, p.data, &w.Buf); err != nil {
		return err
	}
	return s.end(p, func() error {
		if l.canonical && p.size > 0 { // else the data may be gone when it is to be compared
			l.keep(p, p.data)
		}
		return written()
	})
}

// A sink stores the bytes of a part.
type sink interface {
	io.Writer
	// end completes p, and calls written when all of it is in the file.
	end(p *outPart, written func() error) error
}

func (l *Layout) sink(ctx context.Context, w *core.Writer, p *outPart) (sink, error) {
	if l.level > 0 {
		return l.framePart(ctx, w)
	}
	if p.data.Size() != 0 {
		if err := w.Pad(l.align); err != nil {
			return nil, err
		}
	}
	s := &rawSink{w.Sink(core.XXH3), l, w, w.Off}
	if p.hashed {
		s.Hash = nil
	}
	return s, nil
}

// A rawSink stores the bytes as they are.
type rawSink struct {
	*core.Sink
	l      *Layout
	w      *core.Writer
	offset int64
}

func (s *rawSink) end(p *outPart, written func() error) error {
	if s.Hash != nil {
		p.hash = binary.BigEndian.Uint64(s.Hash.Sum(nil))
	}
	p.offset, p.length, p.size = s.offset, s.Size, s.Size
	if p.size == 0 {
		at, ok := align.Up(s.w.Off, s.l.align)
		if !ok {
			return fmt.Errorf("%w: a file beyond 2^63 bytes", tensor.ErrLimit)
		}
		s.l.empty = cmp.Or(s.l.empty, at) // all of them are at the same place
		p.offset = s.l.empty
	}
	return written()
}

// keep remembers a blob that later ones may share.
func (l *Layout) keep(p *outPart, data tensor.Blob) {
	key := content{p.hash, p.size}
	l.stored[key] = append(l.stored[key], storedBlob{data, p.offset})
	l.lengths[p.size] = true
}

// shared looks for the same bytes among what has been written. A hash alone is
// no proof: they are compared.
func (l *Layout) shared(ctx context.Context, p *outPart, buf *[]byte) (bool, error) {
	size := p.data.Size()
	if size <= 0 || !l.lengths[size] || l.level > 0 {
		return false, nil
	}
	if !p.hashed {
		if b, ok := p.data.Source().(*core.Payload); ok {
			sum, ok := b.XXH3()
			if _, there := l.stored[content{sum, size}]; ok && !there {
				return false, nil // its file says what its hash is
			}
		}
		h := xxh3.New()
		if err := (&core.Feed{Out: h}).From(ctx, p.data, buf); err != nil {
			return false, err
		}
		p.hash, p.hashed = h.Sum64(), true
	}
	for _, other := range l.stored[content{p.hash, size}] {
		if other.data.Size() != size { // what was streamed is not there to be compared
			return false, fmt.Errorf("%w: its bytes seem to be those of a tensor that was "+
				"written piece by piece, and cannot be compared", errors.ErrUnsupported)
		}
		same, err := sameBytes(ctx, other.data, p.data)
		if err == nil && !same {
			err = core.Unchanged(other.data)
		}
		if err != nil {
			return false, err
		}
		if same {
			p.offset, p.length, p.size = other.offset, size, size
			return true, nil
		}
	}
	return false, nil
}
