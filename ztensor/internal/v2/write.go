package v2

import (
	"cmp"
	"context"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/pieces"
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
		return w.Pipe(ctx, ts, all)
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
			return nil, core.OfTensor(t.Name, err)
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
		all[i].Plan(l.level > 0, maxPrepared)
	}
	return t, all, nil
}

// Create writes the kept tensors that canonical form has before this one.
func (l *Layout) Create(ctx context.Context, w *core.Writer, t *tensor.Tensor) ([]core.Piece,
	error) {
	t, err := l.take(ctx, w, t)
	if err == nil && l.canonical {
		err = l.flush(ctx, w, t.Name)
	}
	if err != nil {
		return nil, err
	}
	return l.payloads(t), nil
}

// Prepare hashes and compresses a part in memory.
func (l *Layout) Prepare(ctx context.Context, w *core.Writer, p *core.Piece) error {
	all, err := p.Load(ctx)
	if err != nil {
		return err
	}
	p.Stored, p.Digest = all, core.XXH3Of(p.Data, all)
	if l.level > 0 {
		p.Stored = encodeFrames(l.frames, all)
	}
	return nil
}

// inOrder refuses a tensor that canonical form has before one that has been written.
func (l *Layout) inOrder(t *tensor.Tensor) error {
	if l.canonical && l.begun && t.Name <= l.last {
		return core.OfTensor(t.Name, core.Unsupported("in canonical form it belongs before %s, "+
			"which has been written (WriterOptions.KeepOrder)", quote.Name(l.last)))
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
	return w.Pipe(ctx, tensor.Of(now...), false)
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

// Place shares what is there already, or begins a part where one may.
func (l *Layout) Place(ctx context.Context, w *core.Writer, p *core.Piece) (bool, error) {
	if shared, err := l.shared(ctx, p); shared || err != nil {
		return shared, err
	}
	if p.Data.Size() == 0 && l.level == 0 { // all of them are at the same place
		at, ok := align.Up(w.Off, l.align)
		if !ok {
			return false, core.Limited("a file beyond 2^63 bytes")
		}
		l.empty = cmp.Or(l.empty, at)
		p.Offset = l.empty
		return false, nil
	}
	err := w.Pad(l.align)
	p.Offset = w.Off
	return false, err
}

func (l *Layout) Sink(ctx context.Context, w *core.Writer, p *core.Piece) (io.WriteCloser,
	error) {
	if l.level > 0 {
		return &framer{ctx: ctx, l: l, w: w, p: p, hash: xxh3.New()}, nil
	}
	return w.Sink(p, core.XXH3), nil
}

// Written remembers the bytes of a part, which later ones may share. Without canonical
// form the data may be gone when it is to be compared.
func (l *Layout) Written(p *core.Piece) error {
	switch {
	case !l.canonical || p.Size == 0:
		return nil
	case p.Streamed && len(l.stored[content{p.Digest, p.Size}]) > 0:
		return core.Unsupported(
			"its bytes seem to be those of another tensor, which in canonical form it " +
				"would have to share: add it in one piece")
	}
	l.keep(p)
	return nil
}

// keep remembers a part that later ones may share.
func (l *Layout) keep(p *core.Piece) {
	key := content{p.Digest, p.Size}
	l.stored[key] = append(l.stored[key], *p)
	l.lengths[p.Size] = true
}

// shared looks for the same bytes among what has been written. A hash alone is
// no proof: they are compared.
func (l *Layout) shared(ctx context.Context, p *core.Piece) (bool, error) {
	size := p.Data.Size()
	if size <= 0 || !l.lengths[size] || l.level > 0 || p.Streamed {
		return false, nil
	}
	if p.Digest == "" {
		if b, ok := p.Data.Source().(*core.Payload); ok && b.HasXXH3() &&
			len(l.stored[content{b.Digest, size}]) == 0 {
			return false, nil // its file says what its hash is
		}
		h := xxh3.New()
		if err := p.Feed(ctx, h); err != nil {
			return false, err
		}
		p.Digest = core.DigestText(core.XXH3, h)
	}
	for _, other := range l.stored[content{p.Digest, size}] {
		if other.Streamed {
			return false, core.Unsupported(
				"its bytes seem to be those of a tensor " +
					"that was written piece by piece, and cannot be compared")
		}
		same, err := pieces.Same(ctx, other.Data, p.Data)
		if err == nil && !same {
			err = core.Unchanged(other.Data)
		}
		if err != nil {
			return false, err
		}
		if same {
			p.Offset, p.Length, p.Size = other.Offset, size, size
			return true, nil
		}
	}
	return false, nil
}
