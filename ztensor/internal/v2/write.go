package v2

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
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

// Add takes a tensor that has been checked: keeps it, or writes it.
func (l *Layout) Add(ctx context.Context, w *core.Writer, t *tensor.Tensor) error {
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
	if layouts.HasAttributes(t.Scheme) {
		l.profiled[t.Name] = t
	}
	if l.canonical {
		if l.begun && t.Name <= l.last {
			return fmt.Errorf("ztensor: tensor %s: %w: in canonical form it belongs before %s, which has been written (WriterOptions.KeepOrder)",
				quote.Name(t.Name), errors.ErrUnsupported, quote.Name(l.last))
		}
		w.Names[t.Name] = true
		l.kept = append(l.kept, core.Fix(t))
		return nil
	}
	w.Names[t.Name] = true
	if l.batching {
		l.kept = append(l.kept, core.Fix(t))
		return nil
	}
	return l.write(ctx, w, []*tensor.Tensor{t})
}

// lineSize is about how many bytes of tensors go through one line of encoders, which would stand still in part between one and the next.
const lineSize = 64 << 20

// AddAll adds tensors and writes all that are kept.
func (l *Layout) AddAll(ctx context.Context, w *core.Writer, ts iter.Seq2[*tensor.Tensor, error]) error {
	flush := func() error {
		batch := l.kept
		l.kept = nil
		return l.write(ctx, w, batch)
	}
	l.batching = !l.canonical && l.level > 0
	defer func() { l.batching = false }()
	size := int64(0)
	for t, err := range ts {
		if err = cmp.Or(err, ctx.Err()); err == nil {
			err = l.Add(ctx, w, t)
		}
		if err != nil {
			if l.batching && w.Err == nil {
				flush() // what was added before it
			}
			return err
		}
		if size += max(0, t.Size()); l.batching && size >= lineSize {
			if err := flush(); err != nil {
				return err
			}
			size = 0
		}
	}
	return flush()
}

// flushBefore writes the kept tensors whose names come before that one, "" for
// all.
func (l *Layout) flushBefore(ctx context.Context, w *core.Writer, name string) error {
	var now, later []*tensor.Tensor
	for _, t := range l.kept {
		if name == "" || t.Name < name {
			now = append(now, t)
		} else {
			later = append(later, t)
		}
	}
	l.kept = later
	return l.write(ctx, w, now)
}

// write writes tensors, in canonical form in the order of their names. What is
// in memory is hashed on another core, a few parts ahead.
func (l *Layout) write(ctx context.Context, w *core.Writer, ts []*tensor.Tensor) error {
	if l.canonical {
		slices.SortFunc(ts, func(a, b *tensor.Tensor) int { return strings.Compare(a.Name, b.Name) })
	}
	if l.level > 0 {
		return l.writeFrames(ctx, w, ts)
	}
	if f, ok := w.File.(*atomicfile.File); ok && len(ts) > 1 {
		f.Reserve(l.end(w.Off, ts))
	}
	line := parallel.New(ctx, 0, prepareJob, func(j *job) error { return l.writeJob(ctx, w, j) })
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
	return w.Fail(line.Flush())
}

// A job is tensors whose parts are hashed, where they are in memory, before they are written.
type job struct {
	ts    []*tensor.Tensor
	parts [][]outPart
}

func prepareJob(ctx context.Context, j *job) error {
	for i := range j.parts {
		for k := range j.parts[i] {
			p := &j.parts[i][k]
			if p.err = p.prepare(ctx); p.err != nil {
				return nil // in its turn
			}
		}
	}
	return nil
}

func (l *Layout) writeJob(ctx context.Context, w *core.Writer, j *job) error {
	for i, t := range j.ts {
		for k := range j.parts[i] {
			p := &j.parts[i][k]
			if err := ctx.Err(); err != nil {
				return err
			}
			if p.err == nil {
				p.err = l.part(ctx, w, t, p)
			}
			if p.err != nil {
				return w.Broken(t, p.role, p.err)
			}
		}
		l.enter(t, j.parts[i])
	}
	return nil
}

// end is where the file will be when these tensors have been written, as far as
// their sizes tell.
func (l *Layout) end(off int64, ts []*tensor.Tensor) int64 {
	for _, t := range ts {
		up, ok := align.Up(off, l.align)
		size := max(0, t.Size())
		if !ok || size > math.MaxInt64-up {
			return 0
		}
		off = up + size
	}
	return off
}

// hashOf is the XXH3 of b. What comes in pieces the Hasher copies, but for the first: they are large, but not so large that ctx would wait.
func hashOf(ctx context.Context, b []byte) (uint64, error) {
	const piece = 512 << 20
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(b) <= piece {
		return xxh3.Hash(b), nil
	}
	h := xxh3.New()
	for ; len(b) > 0; b = b[min(piece, len(b)):] {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		h.Write(b[:min(piece, len(b))])
	}
	return h.Sum64(), nil
}

// prepare hashes what is in memory.
func (p *outPart) prepare(ctx context.Context) error {
	b, ok := p.data.Memory()
	if !ok {
		return nil
	}
	hash, err := hashOf(ctx, b)
	if err != nil {
		return err
	}
	if f, ok := p.data.Source().(*core.Fixed); ok {
		if err := f.Check(hash); err != nil {
			return err
		}
	}
	p.hash, p.hashed, p.size = hash, true, int64(len(b))
	if p.odd && len(b) > 0 {
		return core.OddNibble(b[len(b)-1], 1)
	}
	if p.check == tensor.Bool {
		return core.IsBools(b)
	}
	return nil
}

// part stores one part: shares what is there already, or writes it.
func (l *Layout) part(ctx context.Context, w *core.Writer, t *tensor.Tensor, p *outPart) error {
	shared, err := l.shared(ctx, p, &w.Buf)
	if err != nil || shared {
		return err
	}
	size := p.data.Size()
	if size == 0 {
		return l.nothing(w, p)
	}
	if err := w.Pad(l.align); err != nil {
		return err
	}
	p.offset = w.Off
	if b, ok := p.data.Memory(); ok {
		if !p.hashed {
			if err := p.prepare(ctx); err != nil {
				return err
			}
		}
		for rest := b; len(rest) > 0; {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := min(len(rest), core.PieceSize)
			if err := w.Write(rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
		}
	} else {
		s := l.sink(w)
		f := core.Feed{Out: s, Dtype: p.check, Odd: p.odd}
		if err := f.From(ctx, p.data, &w.Buf); err != nil {
			return err
		}
		p.hash, p.hashed, p.size = binary.BigEndian.Uint64(s.Hash.Sum(nil)), true, s.Size
	}
	p.length = p.size
	if p.size == 0 {
		return l.nothing(w, p)
	}
	if l.canonical { // else the data may be gone when it is to be compared
		l.keep(p, p.data)
	}
	return nil
}

func (l *Layout) sink(w *core.Writer) *core.Sink {
	return &core.Sink{W: core.WriterFunc(func(p []byte) (int, error) {
		if err := w.Write(p); err != nil {
			return 0, err
		}
		return len(p), nil
	}), Alg: core.XXH3, Hash: core.NewHash(core.XXH3)}
}

// nothing places a part of no bytes: where the next blob will begin, and all of
// them at the same place.
func (l *Layout) nothing(w *core.Writer, p *outPart) error {
	if l.empty == 0 {
		at, ok := align.Up(w.Off, l.align)
		if !ok {
			return fmt.Errorf("%w: a file beyond 2^63 bytes", tensor.ErrLimit)
		}
		l.empty = at
	}
	p.offset, p.length, p.size, p.hash = l.empty, 0, 0, xxh3.Hash(nil)
	return nil
}

// keep remembers a blob that later ones may share.
func (l *Layout) keep(p *outPart, data tensor.Blob) {
	key := content{p.hash, p.size}
	l.stored[key] = append(l.stored[key], data)
	l.places[key] = append(l.places[key], p.offset)
	l.lengths[p.size] = true
}

// shared looks for the same bytes among what has been written. A hash alone is
// no proof: they are compared.
func (l *Layout) shared(ctx context.Context, p *outPart, buf *[]byte) (bool, error) {
	size := p.data.Size()
	if size <= 0 || !l.lengths[size] {
		return false, nil
	}
	if !p.hashed {
		if b, ok := p.data.Source().(*core.Payload); ok && b.Alg == core.XXH3 {
			if _, there := l.stored[content{b.Sum, size}]; !there {
				return false, nil // its file says what its hash is
			}
		}
		h := xxh3.New()
		if err := (&core.Feed{Out: h}).From(ctx, p.data, buf); err != nil {
			return false, err
		}
		p.hash, p.hashed, p.size = h.Sum64(), true, size
	}
	key := content{p.hash, size}
	for i, other := range l.stored[key] {
		if other.Size() != size { // what was streamed is not there to be compared
			return false, fmt.Errorf("%w: its bytes seem to be those of a tensor that was written piece by piece, and cannot be compared", errors.ErrUnsupported)
		}
		same, err := sameBytes(ctx, other, p.data)
		if err == nil && !same {
			err = core.Unchanged(other)
		}
		if err != nil {
			return false, err
		}
		if same {
			p.offset, p.length, p.size = l.places[key][i], size, size
			return true, nil
		}
	}
	return false, nil
}
