package v1

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// A component is one that is to be written, or has been.
type component struct {
	role   string
	dtype  tensor.DType
	data   tensor.Blob
	offset int64
	length int64 // stored
	size   int64 // decoded
	digest string

	prepared bool   // by a worker, with the following result
	stored   []byte // what is to be written
	err      error
}

// A job is tensors that are prepared by one worker: one, or several small ones.
type job struct {
	items []item
	size  int64
	cost  int64 // of the memory that it takes
}

type item struct {
	t          *tensor.Tensor
	components []component
}

// Add writes all tensors. reused means that ts may change the memory of a tensor after
// it has yielded the next one.
func (l *Layout) Add(ctx context.Context, w *core.Writer,
	ts iter.Seq2[*tensor.Tensor, error], reused bool) error {
	if l.level > 0 && l.frames == nil {
		var err error
		if l.frames, err = core.NewFrames(l.level); err != nil {
			return w.Fail(err)
		}
	}
	line := parallel.New(ctx, core.InFlight,
		func(ctx context.Context, j *job) error { return l.prepareJob(ctx, w, j) },
		func(j *job) error { return l.writeJob(ctx, w, j) })
	defer line.Close()
	next := new(job)
	send := func() error {
		j := next
		next = new(job)
		return line.Put(j, j.cost)
	}
	for t, err := range ts {
		if err == nil {
			err = ctx.Err()
		}
		var all []component
		if err == nil {
			all, err = l.plan(ctx, w, t)
		}
		if err != nil { // what was added before it is written
			if failed := send(); failed != nil {
				return w.Fail(failed)
			}
			if failed := line.Flush(); failed != nil {
				return w.Fail(failed)
			}
			return err
		}
		for i := range all {
			c := &all[i]
			if reused {
				c.data = core.FixBlob(c.data)
			}
			size := max(c.data.Size(), 0)
			next.size += max(size, 1<<10)
			if c.prepared = l.preparable(w, c); c.prepared {
				next.cost += 2 * size
			}
		}
		if next.items = append(next.items, item{t, all}); next.size >= core.JobSize {
			if err := send(); err != nil {
				return w.Fail(err)
			}
		}
	}
	if err := send(); err != nil {
		return w.Fail(err)
	}
	if err := line.Flush(); err != nil {
		return w.Fail(err)
	}
	return nil
}

// plan checks a tensor, before anything of it is written, lists its components in file
// order, and takes its name.
func (l *Layout) plan(ctx context.Context, w *core.Writer, t *tensor.Tensor) ([]component, error) {
	if err := w.CheckTensor(t); err != nil {
		return nil, err
	}
	var all []component
	if t.Dense() {
		all = append(all, component{role: "data", dtype: t.DType, data: t.Data})
	}
	indexed := isSparse(t.Scheme)
	if indexed {
		if err := sparse.Check(ctx, t, nil); err != nil {
			return nil, core.SparseError(t, err)
		}
	}
	for _, p := range t.Parts {
		if indexed && slices.Contains(core.IndexRoles, p.Role) {
			p = sparse.Widen(ctx, p)
		}
		all = append(all, component{role: p.Role, dtype: p.DType, data: p.Data})
	}
	if indexed {
		slices.SortStableFunc(all,
			func(a, b component) int { return fileOrder(a.role) - fileOrder(b.role) })
	}
	w.Names[t.Name] = true
	return all, nil
}

// fileOrder is the order in which upstream writes the components of sparse tensors.
func fileOrder(role string) int {
	if role == "values" {
		return -1
	}
	if i := slices.Index(core.IndexRoles, role); i >= 0 {
		return i
	}
	return len(core.IndexRoles)
}

// preparable reports whether a worker is to compress or hash a component. What is in
// memory and stored as it is takes no more memory for that.
func (l *Layout) preparable(w *core.Writer, c *component) bool {
	if _, ok := c.data.Memory(); ok && l.level == 0 {
		return w.Digest != core.NoDigest
	}
	return c.data.Size() >= 0 && c.data.Size() <= core.MaxPrepared
}

func (l *Layout) prepareJob(ctx context.Context, w *core.Writer, j *job) error {
	for _, it := range j.items {
		for i := range it.components {
			c := &it.components[i]
			if !c.prepared {
				continue
			}
			if c.err = l.prepare(ctx, w, c); c.err != nil {
				return nil // it is reported in its turn
			}
		}
	}
	return nil
}

// prepare compresses and hashes a component in memory.
func (l *Layout) prepare(ctx context.Context, w *core.Writer, c *component) error {
	var read bytes.Buffer
	f := core.Feed{Out: &read, Dtype: c.dtype}
	all, inMemory := c.data.Memory()
	if inMemory {
		f.Out = io.Discard
	} else {
		read.Grow(int(c.data.Size()))
	}
	buf := make([]byte, min(max(c.data.Size(), 1), 256<<10))
	if err := f.From(ctx, c.data, &buf); err != nil {
		return err
	}
	if c.size = f.N; !inMemory {
		all = read.Bytes()
	}
	if l.level > 0 {
		all = l.frames.EncodeAll(all, make([]byte, 0, len(all)))
	}
	c.stored = all
	h := core.NewHash(w.Digest)
	if h != nil {
		h.Write(all)
	}
	c.length, c.digest = int64(len(all)), core.DigestText(w.Digest, h)
	return nil
}

func (l *Layout) writeJob(ctx context.Context, w *core.Writer, j *job) error {
	for _, it := range j.items {
		for i := range it.components {
			c := &it.components[i]
			err := l.write(ctx, w, c)
			if err == nil {
				err = core.Unchanged(c.data)
			}
			if err == nil && it.t.Dense() && c.role == "data" {
				err = checkSize(it.t, c.size)
			}
			if err != nil {
				return w.Broken(it.t, c.role, err)
			}
		}
		l.enter(it.t, it.components)
	}
	return nil
}

// checkSize reports data that is not as long as the shape requires.
func checkSize(t *tensor.Tensor, size int64) error {
	n, _ := t.Shape.Elements()
	if want, _ := t.DType.Bytes(n); size != want {
		return fmt.Errorf("%w: %d bytes came where %v of %v takes %d", tensor.ErrMalformed, size,
			t.Shape, t.DType, want)
	}
	return nil
}

// write writes one component.
func (l *Layout) write(ctx context.Context, w *core.Writer, c *component) error {
	if c.prepared {
		if c.err != nil {
			return c.err
		}
		if err := w.Pad(alignment); err != nil {
			return err
		}
		c.offset = w.Off
		w.WritePieces(c.stored)
		return w.Err
	}
	f, s, err := l.begin(w, c)
	if err != nil {
		return err
	}
	if err := f.From(ctx, c.data, &w.Buf); err != nil {
		return err
	}
	c.size = f.N
	c.length, c.digest = s.Size, core.DigestText(w.Digest, s.Hash)
	return nil
}

// begin begins a component at the place that the file has reached.
func (l *Layout) begin(w *core.Writer, c *component) (f core.Feed, s *core.Sink, err error) {
	if l.level > 0 && l.encoder == nil {
		if l.encoder, err = core.NewEncoder(l.level); err != nil {
			return f, nil, err
		}
	}
	if err := w.Pad(alignment); err != nil {
		return f, nil, err
	}
	c.offset = w.Off
	s = w.Sink(w.Digest)
	return core.Feed{Out: s, Zstd: l.encoder, Dtype: c.dtype}, s, nil
}

// Create begins a dense tensor that comes piece by piece.
func (l *Layout) Create(w *core.Writer, t *tensor.Tensor) (*core.Part, error) {
	w.Names[t.Name] = true
	c := component{role: "data", dtype: t.DType, size: t.Data.Size()}
	f, s, err := l.begin(w, &c)
	if err != nil {
		return nil, w.Fail(err)
	}
	return &core.Part{Feed: f, Finish: func() error {
		c.length, c.digest = s.Size, core.DigestText(w.Digest, s.Hash)
		l.enter(t, []component{c})
		return nil
	}}, nil
}
