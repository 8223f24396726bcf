package ztensor

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"

	"github.com/tensorfile/tensorfile/tensor"
)

// AddAll adds all tensors that ts yields, as [Writer.Add] would one after the
// other, with the same bytes. What is compressed or hashed is so on all cores.
// On top of what one tensor at a time takes it holds up to 4 MiB, and an encoder
// a core, of 2 MiB at levels 1 and 2, 3 below 7, 9 below 16, and 40 from there on. ts runs in the goroutine of the caller. After an error that is not
// final, such as a tensor that the version cannot hold, those before it are in
// the file and more can be added.
func (w *Writer) AddAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error {
	if err := w.usable(); err != nil {
		return err
	}
	if l, ok := w.layout.(*layout2); ok {
		return l.addAll(ctx, w, ts)
	}
	workers := runtime.GOMAXPROCS(0)
	if workers == 1 || w.level == 0 && w.digest == NoDigest {
		for t, err := range ts {
			if err = cmp.Or(err, ctx.Err()); err != nil {
				return err
			}
			if err := w.add(ctx, t); err != nil {
				return err
			}
		}
		return nil
	}
	return newPipeline(ctx, w, workers).run(ts)
}

// A pipeline adds tensors with several goroutines: the caller's checks them, the
// workers prepare the bytes to be stored, and one writes these in order.
type pipeline struct {
	w       *Writer
	parent  context.Context
	ctx     context.Context // ends with the first error
	cancel  context.CancelFunc
	workers int
	spools  spools
	caught  caught
}

// caught holds the first panic of goroutines that run foreign code, a source of
// data or an io.ReaderAt, so that it can go on in the goroutine of the caller,
// who may know what to do with it. Otherwise it would end the process.
type caught struct {
	once  sync.Once
	value any
}

// during calls f and turns a panic of it into an error.
func (c *caught) during(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.once.Do(func() { c.value = p })
			err = fmt.Errorf("ztensor: a panic: %v", p)
		}
	}()
	return f()
}

// rethrow lets a panic go on. The goroutines have ended.
func (c *caught) rethrow() {
	if c.value != nil {
		panic(c.value)
	}
}

// A job is tensors that one worker prepares: one, or several small ones.
type job struct {
	items []item
	size  int64
}

type item struct {
	t        *tensor.Tensor
	payloads []payload
	spools   []*spool // of each payload
}

// jobSize is how many bytes of small tensors make a job.
const jobSize = 256 << 10

func newPipeline(ctx context.Context, w *Writer, workers int) *pipeline {
	p := &pipeline{w: w, parent: ctx, workers: workers}
	p.ctx, p.cancel = context.WithCancel(ctx)
	p.spools.room = 4 << 20
	p.spools.changed = sync.NewCond(&p.spools.mu)
	return p
}

func (p *pipeline) run(ts iter.Seq2[*tensor.Tensor, error]) (err error) {
	todo, order := make(chan *job, p.workers), make(chan *job, 4*p.workers)
	var workers sync.WaitGroup
	for range p.workers {
		workers.Add(1)
		go func() {
			defer workers.Done()
			p.prepare(todo)
		}()
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		for j := range order {
			p.write(j)
		}
	}()
	defer func() { // also when ts panics
		close(todo)
		close(order)
		<-written
		workers.Wait()
		p.cancel()
		p.caught.rethrow()
		if p.w.err != nil {
			err = p.w.err
		}
	}()
	next := new(job)
	send := func() {
		if len(next.items) > 0 {
			order <- next // before todo: what a worker has is always waited for
			todo <- next
			next = new(job)
		}
	}
	for t, err := range ts {
		if err != nil {
			send()
			return err
		}
		if p.ctx.Err() != nil {
			break // of the writer, or the caller's
		}
		payloads, err := p.w.plan(p.ctx, t)
		if err != nil {
			send()
			return err
		}
		it := item{t: t, payloads: payloads}
		for i := range payloads {
			payloads[i].data = fixBlob(payloads[i].data) // ts goes on before it is read
			it.spools = append(it.spools, &spool{all: &p.spools})
			next.size += max(payloads[i].data.Size(), 1<<10)
		}
		next.items = append(next.items, it)
		if next.size >= jobSize {
			send()
		}
	}
	send()
	return p.parent.Err()
}

// prepare compresses and hashes what is to be stored.
func (p *pipeline) prepare(todo <-chan *job) {
	var z *encoder
	var buf []byte
	for j := range todo {
		for i := range j.items {
			it := &j.items[i]
			for k := range it.payloads {
				var err error
				if p.w.level > 0 && z == nil {
					z, err = newEncoder(p.w.level)
				}
				if err == nil {
					err = p.caught.during(func() error { return it.spools[k].fill(p.ctx, &it.payloads[k], p.w.digest, z, &buf) })
				}
				it.spools[k].finish(err)
			}
		}
	}
}

// write writes the components of a job. After an error it only waits for them.
func (p *pipeline) write(j *job) {
	w := p.w
	for i := range j.items {
		it := &j.items[i]
		for k, s := range it.spools {
			c := &it.payloads[k].written
			if w.err == nil {
				if err := w.pad(w.layout.alignment()); err == nil {
					c.offset, c.zstd = w.off, w.level > 0
				}
			}
			err := s.drain(w)
			if err == nil {
				err = unchanged(it.payloads[k].data)
			}
			if err != nil && w.err == nil {
				w.broken(it.t, c.role, err)
			}
			if w.err == nil {
				w.whole(it.t, c)
			}
			if w.err != nil {
				p.cancel()
			}
		}
		if w.err == nil {
			w.enter(it.t, it.payloads)
		}
	}
}

// spools is the memory that prepared bytes may take, together.
type spools struct {
	mu      sync.Mutex
	changed *sync.Cond
	room    int64
	free    [][]byte
	unused  int64 // what free has
}

// take finds an empty piece with room for n bytes. Blocks of zstd differ in their lengths by little: a multiple of 64 KiB does for most.
func (a *spools) take(n int) []byte {
	for i := len(a.free) - 1; i >= 0; i-- {
		if b := a.free[i]; cap(b) >= n {
			a.free = slices.Delete(a.free, i, i+1)
			a.unused -= int64(cap(b))
			return b[:0]
		}
	}
	return make([]byte, 0, (n+1<<16-1)&^(1<<16-1))
}

// A spool hands the stored bytes of one component from a worker to the writer.
type spool struct {
	all    *spools
	plain  []byte   // as they are, where nothing but the digest is to be made
	pieces [][]byte // else
	head   bool     // the writer waits for it: when it has nothing left it may pass the limit
	ended  bool
	err    error
}

// fill prepares one component.
func (s *spool) fill(ctx context.Context, p *payload, digest Digest, z *encoder, buf *[]byte) error {
	out := sink{w: s, h: newHasher(digest)}
	if all, ok := p.data.Memory(); ok && z == nil {
		s.all.mu.Lock()
		s.plain = all
		s.all.changed.Broadcast() // the writer need not wait for the digest
		s.all.mu.Unlock()
		for b := all; len(b) > 0; {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := min(len(b), pieceSize)
			out.h.write(b[:n])
			out.n += int64(n)
			b = b[n:]
		}
		if p.dtype == tensor.Bool {
			if err := checkBools(all, 0); err != nil {
				return err
			}
		}
		p.size = out.n
		out.fill(&p.written)
		return nil
	}
	f := feed{out: plainWriter{&out}, zstd: z, dtype: p.dtype}
	if err := f.from(ctx, p.data, buf); err != nil {
		return err
	}
	p.size = f.n
	out.fill(&p.written)
	return nil
}

// A plainWriter keeps a sink from starting a goroutine of its own.
type plainWriter struct{ s *sink }

func (p plainWriter) Write(b []byte) (int, error) {
	p.s.h.write(b)
	n, err := p.s.w.Write(b)
	p.s.n += int64(n)
	return n, err
}

// Write takes a copy of p, once there is room for it.
func (s *spool) Write(p []byte) (int, error) {
	a := s.all
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(s.pieces); n > 0 && cap(s.pieces[n-1])-len(s.pieces[n-1]) >= len(p) { // it is small
		s.pieces[n-1] = append(s.pieces[n-1], p...)
		return len(p), nil
	}
	for a.room < int64(len(p)) && !(s.head && len(s.pieces) == 0) {
		a.changed.Wait()
	}
	b := a.take(len(p))
	a.room -= int64(cap(b))
	a.mu.Unlock()
	b = append(b, p...)
	a.mu.Lock()
	s.pieces = append(s.pieces, b)
	a.changed.Broadcast()
	return len(p), nil
}

func (s *spool) finish(err error) {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	s.ended, s.err = true, err
	s.all.changed.Broadcast()
}

// drain writes what the worker prepares until it has finished.
func (s *spool) drain(w *Writer) error {
	a := s.all
	a.mu.Lock()
	defer a.mu.Unlock()
	s.head = true
	a.changed.Broadcast()
	for {
		switch {
		case len(s.plain) > 0:
			b := s.plain
			a.mu.Unlock()
			w.writePieces(b)
			a.mu.Lock()
			s.plain = nil
		case len(s.pieces) > 0:
			b := s.pieces[0]
			s.pieces = s.pieces[1:]
			a.mu.Unlock()
			w.write(b)
			a.mu.Lock()
			a.room += int64(cap(b))
			if a.unused+int64(cap(b)) <= a.room { // with what is in use no more than the limit
				a.free = append(a.free, b)
				a.unused += int64(cap(b))
			}
			a.changed.Broadcast()
		case s.ended:
			return s.err
		default:
			a.changed.Wait()
		}
	}
}
