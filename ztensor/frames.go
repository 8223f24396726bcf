package ztensor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/tensor"
)

// frameSize is how much a frame of zt.zstd-seekable/1 decodes to.
const frameSize = 1 << 20

// A frameWriter compresses frames on all cores, a group at a time.
type frameWriter struct {
	encoders []*zstd.Encoder
	out      [][]byte
	jobs     []*frameJob // of a frameLine that has ended, to be used again
}

func newFrameWriter(level int) (*frameWriter, error) {
	f := new(frameWriter)
	for range runtime.GOMAXPROCS(0) {
		e, err := newFrameEncoder(level)
		if err != nil {
			return nil, err
		}
		f.encoders = append(f.encoders, e)
	}
	f.out = make([][]byte, 4*len(f.encoders))
	return f, nil
}

// encode compresses each piece of in into a frame. The frames are good until the
// next call.
func (f *frameWriter) encode(in [][]byte) [][]byte {
	var group sync.WaitGroup
	for i, e := range f.encoders {
		group.Add(1)
		go func() {
			defer group.Done()
			for k := i; k < len(in); k += len(f.encoders) {
				f.out[k] = e.EncodeAll(in[k], f.out[k][:0])
			}
		}()
	}
	group.Wait()
	return f.out[:len(in)]
}

// A frameSink writes one part that comes piece by piece as frames, and the table
// of them.
type frameSink struct {
	l     *layout2
	w     *Writer
	start int64
	table []byte
	hash  *xxh3.Hasher
	size  int64
	group []byte // not compressed yet
}

func newFrameSink(l *layout2, w *Writer) *frameSink {
	return &frameSink{l: l, w: w, start: -1, hash: xxh3.New()}
}

// encoders makes those of the layout, the first time.
func (l *layout2) encoders() error {
	if l.frames != nil {
		return nil
	}
	f, err := newFrameWriter(l.level)
	l.frames = f
	return err
}

// appendSeekTable appends the frame that ends a blob: its entries between a head
// and their number.
func appendSeekTable(b, entries []byte) []byte {
	b = binary.LittleEndian.AppendUint32(append(b, seekHeader...), uint32(len(entries)+seekFooter))
	b = append(b, entries...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(entries)/8))
	return append(append(b, 0), seekMagic...)
}

func (s *frameSink) begin() error {
	if s.start >= 0 {
		return nil
	}
	if err := s.l.encoders(); err != nil {
		return err
	}
	err := s.w.pad(s.l.align)
	s.start = s.w.off
	return err
}

// Write gathers a group of frames, unless p has whole groups.
func (s *frameSink) Write(p []byte) (int, error) {
	if err := s.begin(); err != nil {
		return 0, err
	}
	n, most := len(p), frameSize*len(s.l.frames.out)
	for len(p) > 0 {
		if len(s.group) == 0 && len(p) >= most {
			if err := s.put(p[:most]); err != nil {
				return 0, err
			}
			p = p[most:]
			continue
		}
		if s.group == nil {
			s.group = make([]byte, 0, most)
		}
		k := min(most-len(s.group), len(p))
		s.group = append(s.group, p[:k]...)
		if p = p[k:]; len(s.group) == most {
			if err := s.put(s.group); err != nil {
				return 0, err
			}
			s.group = s.group[:0]
		}
	}
	return n, nil
}

// put compresses and writes a group, hashing it meanwhile.
func (s *frameSink) put(p []byte) error {
	hashed := make(chan struct{})
	go func() {
		s.hash.Write(p)
		close(hashed)
	}()
	defer func() { <-hashed }()
	s.size += int64(len(p))
	var in [][]byte
	for rest := p; len(rest) > 0; rest = rest[min(len(rest), frameSize):] {
		in = append(in, rest[:min(len(rest), frameSize)])
	}
	for i, out := range s.l.frames.encode(in) {
		if uint64(len(s.table)/8) == math.MaxUint32 {
			return fmt.Errorf("%w: more than 2^32 frames", tensor.ErrLimit)
		}
		s.table = binary.LittleEndian.AppendUint32(s.table, uint32(len(out)))
		s.table = binary.LittleEndian.AppendUint32(s.table, uint32(len(in[i])))
		if err := s.w.write(out); err != nil {
			return err
		}
	}
	return nil
}

// finish writes the rest and the table, and notes in p what was written.
func (s *frameSink) finish(p *payload2) error {
	if err := s.begin(); err != nil {
		return err
	}
	if len(s.group) > 0 {
		if err := s.put(s.group); err != nil {
			return err
		}
	}
	if err := s.w.write(appendSeekTable(nil, s.table)); err != nil {
		return err
	}
	p.hash, p.size, p.offset, p.length = s.hash.Sum64(), s.size, s.start, s.w.off-s.start
	return nil
}

// A frameLine compresses parts on all cores and writes them in order, while the
// caller reads ahead. It ends before the call that it serves.
type frameLine struct {
	w     *Writer
	todo  chan *frameJob // for the encoders
	order chan *frameJob // for the goroutine that writes
	stop  chan struct{}  // closed when writing has failed
	all   sync.WaitGroup

	mu   sync.Mutex
	free []*frameJob // to be used again
}

// A frameJob is a frame, or what is to be done when the frames before it have
// been written.
type frameJob struct {
	in, out []byte
	own     []byte // room for in where it has to be copied
	done    chan struct{}
	then    func() error
}

func newFrameLine(w *Writer, f *frameWriter) *frameLine {
	ahead := len(f.encoders)
	l := &frameLine{w: w, free: f.jobs, todo: make(chan *frameJob, ahead), order: make(chan *frameJob, ahead), stop: make(chan struct{})}
	for _, e := range f.encoders {
		l.all.Add(1)
		go func() {
			defer l.all.Done()
			for j := range l.todo {
				j.out = e.EncodeAll(j.in, j.out[:0])
				j.done <- struct{}{}
			}
		}()
	}
	l.all.Add(1)
	go func() {
		defer l.all.Done()
		l.write()
	}()
	return l
}

// write does what is in line. After an error it only waits for the encoders.
func (l *frameLine) write() {
	var failed error
	for j := range l.order {
		if j.in != nil {
			<-j.done
		}
		if failed == nil {
			if failed = j.then(); failed != nil {
				l.w.fail(failed)
				close(l.stop)
			}
		}
		l.mu.Lock()
		l.free = append(l.free, j)
		l.mu.Unlock()
	}
}

// job is one that nobody uses.
func (l *frameLine) job() *frameJob {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.free); n > 0 {
		j := l.free[n-1]
		l.free = l.free[:n-1]
		j.in, j.then = nil, nil
		return j
	}
	return &frameJob{done: make(chan struct{}, 1)}
}

// send puts a job into the line: its frame, if it has one, is compressed, then
// what it says is done in its turn.
func (l *frameLine) send(j *frameJob) error {
	select {
	case l.order <- j: // before todo: what an encoder has is always waited for
	case <-l.stop:
		return errStopped
	}
	if j.in != nil {
		l.todo <- j
	}
	return nil
}

// errStopped stands for the error that the Writer has.
var errStopped = errors.New("ztensor: writing has failed")

// close waits for all that is in line.
func (l *frameLine) close() {
	close(l.todo)
	close(l.order)
	l.all.Wait()
}

// A framePart is a part on its way through the line.
type framePart struct {
	line   *frameLine
	stable bool // what is written stays as it is until the line has ended
	next   *frameJob
	hash   *xxh3.Hasher
	table  []byte
	start  int64
}

// Write sends frames; what is stable is not copied, but for the last of it.
func (p *framePart) Write(b []byte) (int, error) {
	if !p.stable {
		p.hash.Write(b)
	}
	if p.stable && p.next == nil && len(b) == frameSize {
		j := p.line.job()
		j.in = b
		return len(b), p.frame(j)
	}
	for rest := b; len(rest) > 0; {
		if p.next == nil {
			p.next = p.line.job()
			p.next.own = p.next.own[:0]
		}
		n := min(len(rest), frameSize-len(p.next.own))
		p.next.own = append(p.next.own, rest[:n]...)
		if rest = rest[n:]; len(p.next.own) == frameSize {
			if err := p.flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(b), nil
}

func (p *framePart) flush() error {
	j := p.next
	if j == nil {
		return nil
	}
	p.next, j.in = nil, j.own
	return p.frame(j)
}

func (p *framePart) frame(j *frameJob) error {
	j.then = func() error {
		if uint64(len(p.table)/8) == math.MaxUint32 {
			return fmt.Errorf("%w: more than 2^32 frames", tensor.ErrLimit)
		}
		p.table = binary.LittleEndian.AppendUint32(p.table, uint32(len(j.out)))
		p.table = binary.LittleEndian.AppendUint32(p.table, uint32(len(j.in)))
		return p.line.w.write(j.out)
	}
	return p.line.send(j)
}

// then puts something into the line that is no frame.
func (l *frameLine) then(do func() error) error {
	j := l.job()
	j.then = do
	return l.send(j)
}

// part puts one part into the line.
func (l *frameLine) part(ctx context.Context, layout *layout2, p *payload2) error {
	s := &framePart{line: l, hash: xxh3.New()}
	var all []byte
	all, s.stable = p.data.Memory()
	if err := l.then(func() error {
		err := l.w.pad(layout.align)
		s.start = l.w.off
		return err
	}); err != nil {
		return err
	}
	f := feed{out: s, dtype: p.check, odd: p.odd}
	if err := f.from(ctx, p.data, &layout.feedBuf); err != nil {
		return err
	}
	if err := s.flush(); err != nil {
		return err
	}
	hash := s.hash.Sum64()
	if s.stable {
		var err error
		if hash, err = hashOf(ctx, all); err != nil {
			return err
		}
		if f, ok := p.data.Source().(*fixed); ok {
			if err := f.check(hash); err != nil {
				return err
			}
		}
	}
	return l.then(func() error {
		if err := l.w.write(appendSeekTable(nil, s.table)); err != nil {
			return err
		}
		p.hash, p.size, p.offset, p.length = hash, f.n, s.start, l.w.off-s.start
		return nil
	})
}

// writeFrames writes tensors compressed.
func (l *layout2) writeFrames(ctx context.Context, w *Writer, ts []*tensor.Tensor) error {
	if len(ts) == 0 {
		return nil
	}
	if err := l.encoders(); err != nil {
		return w.fail(err)
	}
	line := newFrameLine(w, l.frames)
	at, role, err := line.tensors(ctx, l, ts)
	line.close()
	l.frames.jobs = line.free
	switch {
	case w.err != nil:
		return w.err
	case err != nil && ctx.Err() != nil:
		return w.fail(err)
	case err != nil:
		return w.broken(at, role, err)
	}
	return nil
}

// tensors puts tensors into the line, and returns what failed.
func (l *frameLine) tensors(ctx context.Context, layout *layout2, ts []*tensor.Tensor) (*tensor.Tensor, string, error) {
	for _, t := range ts {
		parts := layout.payloads(t)
		for i := range parts {
			if err := l.part(ctx, layout, &parts[i]); err != nil {
				return t, parts[i].role, err
			}
		}
		if err := l.then(func() error {
			layout.enter(t, parts)
			return nil
		}); err != nil {
			return t, "", err
		}
	}
	return nil, "", nil
}
