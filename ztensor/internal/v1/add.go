package v1

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

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

// addTensors adds all tensors. reused means that ts may change the memory of a tensor after
// it has yielded the next one.
func (l *Layout) addTensors(ctx context.Context, w *core.Writer, ts iter.Seq2[*tensor.Tensor, error], reused bool) error {
	if w.Level > 0 && l.frames == nil {
		var err error
		if l.frames, err = core.NewFrames(w.Level); err != nil {
			return w.Fail(err)
		}
	}
	line := parallel.New(ctx, core.InFlight, func(ctx context.Context, j *job) error { return l.prepareJob(ctx, w, j) }, func(j *job) error { return l.writeJob(ctx, w, j) })
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
			return w.Fail(failed)
		}
		return err
	}
	for t, err := range ts {
		if err == nil {
			err = ctx.Err()
		}
		var payloads []payload
		if err == nil {
			payloads, err = l.plan(ctx, w, t)
		}
		if err != nil {
			return flush(err)
		}
		for i := range payloads {
			p := &payloads[i]
			if reused {
				p.data = core.FixBlob(p.data)
			}
			size := max(p.data.Size(), 0)
			next.size += max(size, 1<<10)
			if p.prepared = l.preparable(w, p); p.prepared {
				next.cost += 2 * size
			}
		}
		if next.items = append(next.items, item{t, payloads}); next.size >= core.JobSize {
			if err := send(); err != nil {
				return w.Fail(err)
			}
		}
	}
	return flush(nil)
}

// preparable reports whether a worker is to compress or hash a component. What is in memory
// and stored as it is takes no more memory for that.
func (l *Layout) preparable(w *core.Writer, p *payload) bool {
	if w.Level == 0 {
		if _, ok := p.data.Memory(); ok {
			return w.Digest != core.NoDigest
		}
	}
	return p.data.Size() >= 0 && p.data.Size() <= core.MaxPrepared
}

// prepareJob compresses and hashes what is to be stored.
func (l *Layout) prepareJob(ctx context.Context, w *core.Writer, j *job) error {
	for i := range j.items {
		it := &j.items[i]
		for k := range it.payloads {
			p := &it.payloads[k]
			if !p.prepared {
				continue
			}
			if err := l.prepareOne(ctx, w, p); err != nil {
				p.err = err // in its turn
				return nil
			}
		}
	}
	return nil
}

func (l *Layout) prepareOne(ctx context.Context, w *core.Writer, p *payload) error {
	all, ok := p.data.Memory()
	if !ok {
		all = make([]byte, 0, p.data.Size())
	}
	gather := core.WriterFunc(func(b []byte) (int, error) {
		if !ok {
			all = append(all, b...)
		}
		return len(b), nil
	})
	buf := make([]byte, min(max(p.data.Size(), 1), 256<<10))
	f := core.Feed{Out: gather, Dtype: p.dtype}
	if err := f.From(ctx, p.data, &buf); err != nil {
		return err
	}
	p.size = f.N
	if w.Level > 0 {
		all = l.frames.EncodeAll(all, make([]byte, 0, len(all)))
	}
	p.stored = all
	s := core.Sink{W: io.Discard, Alg: w.Digest, Hash: core.NewHash(w.Digest)}
	for rest := all; len(rest) > 0; rest = rest[min(len(rest), core.PieceSize):] {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.Write(rest[:min(len(rest), core.PieceSize)])
	}
	s.Size = int64(len(all))
	p.fill(&s)
	return nil
}

// writeJob writes the components of a job.
func (l *Layout) writeJob(ctx context.Context, w *core.Writer, j *job) error {
	for i := range j.items {
		it := &j.items[i]
		for k := range it.payloads {
			p := &it.payloads[k]
			if err := l.component(ctx, w, it.t, p); err != nil {
				return err
			}
			if err := core.Unchanged(p.data); err != nil {
				return w.Broken(it.t, p.role, err)
			}
		}
		l.enter(it.t, it.payloads)
	}
	return nil
}

// start pads and begins a component of c at the place that the file has reached.
func (l *Layout) start(w *core.Writer, c *written) (*core.Sink, error) {
	if err := w.Pad(alignment); err != nil {
		return nil, err
	}
	c.offset, c.zstd = w.Off, w.Level > 0
	return &core.Sink{W: core.WriterFunc(func(p []byte) (int, error) {
		if err := w.Write(p); err != nil {
			return 0, err
		}
		return len(p), nil
	}), Alg: w.Digest, Hash: core.NewHash(w.Digest)}, nil
}

// encoding returns the encoder that components go through, nil for none.
func (l *Layout) encoding(w *core.Writer) (*core.Encoder, error) {
	if w.Level == 0 || l.encoder != nil {
		return l.encoder, nil
	}
	var err error
	l.encoder, err = core.NewEncoder(w.Level)
	return l.encoder, err
}

// component writes one component of t. Any error is final: part of it may be in
// the file already.
func (l *Layout) component(ctx context.Context, w *core.Writer, t *tensor.Tensor, p *payload) error {
	if p.prepared {
		if p.err != nil {
			return w.Broken(t, p.role, p.err)
		}
		if err := w.Pad(alignment); err != nil {
			return err
		}
		p.offset, p.zstd = w.Off, w.Level > 0
		w.WritePieces(p.stored)
		return l.whole(w, t, &p.written)
	}
	z, err := l.encoding(w)
	if err != nil {
		return w.Fail(err)
	}
	s, err := l.start(w, &p.written)
	if err != nil {
		return err
	}
	f := core.Feed{Out: s, Zstd: z, Dtype: p.dtype}
	if err := f.From(ctx, p.data, &w.Buf); err != nil {
		return w.Broken(t, p.role, err)
	}
	p.size = f.N
	p.fill(s)
	return l.whole(w, t, &p.written)
}

// whole checks that a component that was written is as long as it has to be.
func (l *Layout) whole(w *core.Writer, t *tensor.Tensor, c *written) error {
	if t.Dense() && c.role == "data" {
		n, _ := t.Shape.Elements()
		if want, _ := t.DType.Bytes(n); c.size != want {
			return w.Broken(t, c.role, fmt.Errorf("%w: %d bytes came where %v of %v takes %d", tensor.ErrMalformed, c.size, t.Shape, t.DType, want))
		}
	}
	return nil
}

// An entry is a tensor's place in the manifest that is being collected.
type entry struct {
	name            string
	from, split, to int // in Writer.manifest; split is -1 for one that is taken over as it stands
}

// A written component is what the manifest says of it.
type written struct {
	role   string
	dtype  tensor.DType
	offset int64
	length int64 // stored
	size   int64 // decoded
	zstd   bool
	digest string
}

// A payload is a component that is to be written.
type payload struct {
	written
	data tensor.Blob

	prepared bool   // by a worker of AddAll, with the following result
	stored   []byte // what is to be written
	err      error
}

// plan checks a tensor, before anything of it is written, lists its components
// in file order, and takes its name.
func (l *Layout) plan(ctx context.Context, w *core.Writer, t *tensor.Tensor) ([]payload, error) {
	if err := w.CheckTensor(t); err != nil {
		return nil, err
	}
	if t.Dense() {
		all := []payload{{written: written{role: "data", dtype: t.DType}, data: t.Data}}
		for _, p := range t.Parts {
			all = append(all, payload{written: written{role: p.Role, dtype: p.DType}, data: p.Data})
		}
		w.Names[t.Name] = true
		return all, nil
	}
	all := make([]payload, 0, len(t.Parts))
	indexed := t.Scheme == sparse.CSR || t.Scheme == sparse.COO
	if indexed {
		if err := sparse.Check(ctx, t, nil); err != nil {
			return nil, core.SparseError(t, err)
		}
	}
	for _, p := range t.Parts {
		c := payload{written: written{role: p.Role, dtype: p.DType}, data: p.Data}
		if indexed && slices.Contains(core.IndexRoles, p.Role) {
			wide := sparse.Widen(ctx, p)
			c.dtype, c.data = wide.DType, wide.Data
		}
		all = append(all, c)
	}
	if indexed { // in the order in which upstream writes them
		slices.SortStableFunc(all, func(a, b payload) int { return roleOrder(a.role) - roleOrder(b.role) })
	}
	w.Names[t.Name] = true
	return all, nil
}

func roleOrder(role string) int {
	if role == "values" {
		return -1
	}
	if i := slices.Index(core.IndexRoles, role); i >= 0 {
		return i
	}
	return len(core.IndexRoles)
}

// enter notes a tensor whose components have been written.
func (l *Layout) enter(t *tensor.Tensor, components []payload) {
	all := make([]written, len(components))
	for i := range components {
		all[i] = components[i].written
	}
	from := len(l.manifest)
	var split int
	l.manifest, split = l.appendEntry(l.manifest, t, all)
	l.entries = append(l.entries, entry{t.Name, from, split, len(l.manifest)})
}

// appendAttributes appends a map, sorted by the bytes of its keys as upstream
// does.
func appendAttributes(b []byte, attributes map[string]any) ([]byte, error) {
	mode, err := core.EncMode()
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(attributes))
	for name := range attributes {
		if !utf8.ValidString(name) {
			return nil, fmt.Errorf("ztensor: %w: attribute %s is not UTF-8", errors.ErrUnsupported, quote.Name(name))
		}
		names = append(names, name)
	}
	slices.Sort(names)
	b = cbor.AppendHead(b, cbor.Map, uint64(len(names)))
	for _, name := range names {
		v, err := mode.Marshal(attributes[name])
		if err != nil {
			return nil, fmt.Errorf("ztensor: attribute %s: %w", quote.Name(name), err)
		}
		c := cbor.Cursor{B: v, Deep: 64 - 3}
		if c.Skip(); c.Err != nil { // too deep, or text that is not UTF-8: nobody could read it
			return nil, fmt.Errorf("ztensor: attribute %s: %w", quote.Name(name), c.Err)
		}
		b = append(cbor.AppendText(b, name), v...)
	}
	return b, nil
}

// fill notes what went through the sink.
func (c *written) fill(s *core.Sink) {
	c.length = s.Size
	c.digest = core.DigestText(s.Alg, s.Hash)
}
