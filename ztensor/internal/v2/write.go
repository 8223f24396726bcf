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
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
)

// Add writes tensors; in canonical form it keeps them, and writes all that are kept only
// if these are all of a call of AddAll.
func (l *Layout) Add(ctx context.Context, w *core.Writer, ts iter.Seq2[*tensor.Tensor, error],
	all bool) error {
	if !l.canonical {
		return l.pipe(ctx, w, ts, all)
	}
	for t, err := range ts {
		if err = cmp.Or(err, ctx.Err()); err == nil {
			t, err = l.take(ctx, w, t)
		}
		if err != nil {
			return err
		}
		l.kept = append(l.kept, core.Fix(t, !all))
	}
	if !all {
		return nil
	}
	return l.flush(ctx, w, "")
}

// pipe writes tensors, and all frames of them.
func (l *Layout) pipe(ctx context.Context, w *core.Writer, ts iter.Seq2[*tensor.Tensor, error],
	reused bool) error {
	err := w.Pipe(ctx, ts, reused)
	if l.frames != nil && w.Err == nil {
		err = cmp.Or(w.Fail(l.frames.flush(ctx)), err)
	}
	return err
}

// take checks a tensor and takes its name.
func (l *Layout) take(ctx context.Context, w *core.Writer,
	t *tensor.Tensor) (*tensor.Tensor, error) {
	t, err := core.Measured(ctx, t)
	if err == nil {
		err = w.CheckTensor(t)
	}
	if err != nil {
		return nil, err
	}
	if as := l.normalize(t); as.Scheme == layouts.CSR || as.Scheme == layouts.COO {
		if err := layouts.CheckData(ctx, as); err != nil {
			return nil, core.SparseError(t, err)
		}
	}
	if err := l.inOrder(t); err != nil {
		return nil, err
	}
	if layouts.HasAttributes(t.Scheme) {
		l.profiled[t.Name] = t
	}
	w.Names[t.Name] = true
	return t, nil
}

// Plan lists the pieces of a tensor, which canonical form has checked when it kept it.
func (l *Layout) Plan(ctx context.Context, w *core.Writer,
	t *tensor.Tensor) (*tensor.Tensor, []core.Piece, error) {
	if !l.canonical {
		var err error
		if t, err = l.take(ctx, w, t); err != nil {
			return nil, nil, err
		}
	}
	all := l.payloads(t)
	for i := range all {
		_, inMemory := all[i].Data.Memory()
		all[i].Early = inMemory && l.level == 0
	}
	return t, all, nil
}

// Prepare hashes what is in memory.
func (l *Layout) Prepare(ctx context.Context, w *core.Writer, p *core.Piece) error {
	b, _ := p.Data.Memory()
	p.Hash, p.Hashed = core.HashOf(p.Data, b), true
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
	slices.SortFunc(now, func(a, b *tensor.Tensor) int { return strings.Compare(a.Name, b.Name) })
	if f, ok := w.File.(*atomicfile.File); ok && len(now) > 1 {
		f.Reserve(l.end(w.Off, now))
	}
	return l.pipe(ctx, w, tensor.Of(now...), false)
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

// Store shares what is there already, or writes it.
func (l *Layout) Store(ctx context.Context, w *core.Writer, p *core.Piece,
	written func() error) error {
	f := core.Feed{Dtype: p.DType, Odd: p.Odd}
	shared, err := l.shared(ctx, p, &w.Buf)
	if err != nil {
		return err
	}
	if shared {
		f.Out = io.Discard
		if p.DType == tensor.Bool || p.Odd {
			err = f.From(ctx, p.Data, &w.Buf)
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
	if err := f.From(ctx, p.Data, &w.Buf); err != nil {
		return err
	}
	return s.end(p, func() error {
		if l.canonical && p.Size > 0 { // else the data may be gone when it is to be compared
			l.keep(p, p.Data)
		}
		return written()
	})
}

// A sink stores the bytes of a part.
type sink interface {
	io.Writer
	// end completes p, and calls written when all of it is in the file.
	end(p *core.Piece, written func() error) error
}

func (l *Layout) sink(ctx context.Context, w *core.Writer, p *core.Piece) (sink, error) {
	if l.level > 0 {
		return l.framePart(ctx, w)
	}
	if p.Data.Size() != 0 {
		if err := w.Pad(l.align); err != nil {
			return nil, err
		}
	}
	s := &rawSink{w.Sink(core.XXH3), l, w, w.Off}
	if p.Hashed {
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

func (s *rawSink) end(p *core.Piece, written func() error) error {
	if s.Hash != nil {
		p.Hash = binary.BigEndian.Uint64(s.Hash.Sum(nil))
	}
	p.Offset, p.Length, p.Size = s.offset, s.Size, s.Size
	if p.Size == 0 {
		at, ok := align.Up(s.w.Off, s.l.align)
		if !ok {
			return fmt.Errorf("%w: a file beyond 2^63 bytes", tensor.ErrLimit)
		}
		s.l.empty = cmp.Or(s.l.empty, at) // all of them are at the same place
		p.Offset = s.l.empty
	}
	return written()
}

// keep remembers a blob that later ones may share.
func (l *Layout) keep(p *core.Piece, data tensor.Blob) {
	key := content{p.Hash, p.Size}
	l.stored[key] = append(l.stored[key], storedBlob{data, p.Offset})
	l.lengths[p.Size] = true
}

// shared looks for the same bytes among what has been written. A hash alone is
// no proof: they are compared.
func (l *Layout) shared(ctx context.Context, p *core.Piece, buf *[]byte) (bool, error) {
	size := p.Data.Size()
	if size <= 0 || !l.lengths[size] || l.level > 0 {
		return false, nil
	}
	if !p.Hashed {
		if b, ok := p.Data.Source().(*core.Payload); ok {
			sum, ok := b.XXH3()
			if _, there := l.stored[content{sum, size}]; ok && !there {
				return false, nil // its file says what its hash is
			}
		}
		h := xxh3.New()
		if err := (&core.Feed{Out: h}).From(ctx, p.Data, buf); err != nil {
			return false, err
		}
		p.Hash, p.Hashed = h.Sum64(), true
	}
	for _, other := range l.stored[content{p.Hash, size}] {
		if other.data.Size() != size { // what was streamed is not there to be compared
			return false, fmt.Errorf("%w: its bytes seem to be those of a tensor that was "+
				"written piece by piece, and cannot be compared", errors.ErrUnsupported)
		}
		same, err := sameBytes(ctx, other.data, p.Data)
		if err == nil && !same {
			err = core.Unchanged(other.data)
		}
		if err != nil {
			return false, err
		}
		if same {
			p.Offset, p.Length, p.Size = other.offset, size, size
			return true, nil
		}
	}
	return false, nil
}
