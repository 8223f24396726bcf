package v2

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// frameSize is how much a frame of zt.zstd-seekable/1 decodes to.
const frameSize = 1 << 20

// A compressor makes frames on all cores.
type compressor struct {
	z    *zstd.Encoder
	free []*frameJob // to be used again
}

// A frameJob is one frame of a part, or its end.
type frameJob struct {
	part    *framePart
	in, out []byte
	own     []byte // memory for in where it has to be copied
	end     func() error
}

// newCompressor makes a compressor of independent frames of at most frameSize, which depend
// on nothing but their content and the level.
func newCompressor(level int) (*compressor, error) {
	z, err := zstd.NewWriter(nil, append(core.EncoderOptions(level), zstd.WithEncoderConcurrency(0), zstd.WithWindowSize(frameSize))...)
	return &compressor{z: z}, err
}

// line begins a line of frames that are written in order.
func (c *compressor) line(ctx context.Context) *parallel.Line[*frameJob] {
	return parallel.New(ctx, core.InFlight, func(_ context.Context, j *frameJob) error {
		if j.in != nil {
			j.out = c.z.EncodeAll(j.in, j.out[:0])
		}
		return nil
	}, func(j *frameJob) error {
		err := j.write()
		j.part, j.in, j.end = nil, nil, nil
		c.free = append(c.free, j)
		return err
	})
}

func (c *compressor) job(p *framePart) *frameJob {
	j := new(frameJob)
	if n := len(c.free); n > 0 {
		j, c.free = c.free[n-1], c.free[:n-1]
	}
	j.part = p
	return j
}

// write writes the frame, and before the first one the padding of its part.
func (j *frameJob) write() error {
	p := j.part
	if p.start < 0 {
		if err := p.w.Pad(p.align); err != nil {
			return err
		}
		p.start = p.w.Off
	}
	if j.end != nil {
		return j.end()
	}
	if uint64(len(p.table)/8) == math.MaxUint32 {
		return fmt.Errorf("%w: more than 2^32 frames", tensor.ErrLimit)
	}
	p.table = binary.LittleEndian.AppendUint32(p.table, uint32(len(j.out)))
	p.table = binary.LittleEndian.AppendUint32(p.table, uint32(len(j.in)))
	return p.w.Write(j.out)
}

// A framePart splits one part into frames, which it sends with put.
type framePart struct {
	c      *compressor
	w      *core.Writer
	align  int64
	put    func(*frameJob) error
	stable bool // what is written stays as it is, and comes in pieces of frameSize

	next  *frameJob
	hash  *xxh3.Hasher
	size  int64
	table []byte
	start int64 // in the file; -1 before the first frame was written
}

// framePart begins a part.
func (l *Layout) framePart(w *core.Writer) (*framePart, error) {
	if l.frames == nil {
		c, err := newCompressor(l.level)
		if err != nil {
			return nil, err
		}
		l.frames = c
	}
	return &framePart{c: l.frames, w: w, align: l.align, hash: xxh3.New(), start: -1}, nil
}

func (p *framePart) Write(b []byte) (int, error) {
	p.hash.Write(b)
	p.size += int64(len(b))
	if p.stable {
		j := p.c.job(p)
		j.in = b
		return len(b), p.put(j)
	}
	for rest := b; len(rest) > 0; {
		if p.next == nil {
			p.next = p.c.job(p)
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

// flush sends a frame that has been begun.
func (p *framePart) flush() error {
	j := p.next
	if j == nil {
		return nil
	}
	p.next, j.in = nil, j.own
	return p.put(j)
}

// end sends the end of the part: the table is written, x completed, and entered.
func (p *framePart) end(x *outPart, enter func()) error {
	if err := p.flush(); err != nil {
		return err
	}
	x.hash, x.size = p.hash.Sum64(), p.size
	j := p.c.job(p)
	j.end = func() error {
		if err := p.w.Write(appendSeekTable(nil, p.table)); err != nil {
			return err
		}
		x.offset, x.length = p.start, p.w.Off-p.start
		if enter != nil {
			enter()
		}
		return nil
	}
	return p.put(j)
}

// appendSeekTable appends the frame that ends a blob: its entries between a head
// and their number.
func appendSeekTable(b, entries []byte) []byte {
	b = binary.LittleEndian.AppendUint32(append(b, SeekHeader...), uint32(len(entries)+SeekFooter))
	b = append(b, entries...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(entries)/8))
	return append(append(b, 0), SeekMagic...)
}

// A frameSink is a part that comes piece by piece, over several calls: frames are gathered,
// and compressed a group at a time.
type frameSink struct {
	*framePart
	group []*frameJob
}

func (l *Layout) frameSink(w *core.Writer) (*frameSink, error) {
	p, err := l.framePart(w)
	if err != nil {
		return nil, err
	}
	s := &frameSink{framePart: p}
	p.put = func(j *frameJob) error {
		if s.group = append(s.group, j); len(s.group) < core.InFlight/(2*frameSize) && j.end == nil {
			return nil
		}
		line := p.c.line(context.Background())
		defer line.Close()
		for _, j := range s.group {
			if err := line.Put(j, 2*frameSize); err != nil {
				return err
			}
		}
		s.group = s.group[:0]
		return line.Flush()
	}
	return s, nil
}

// writeFrames writes tensors compressed.
func (l *Layout) writeFrames(ctx context.Context, w *core.Writer, ts []*tensor.Tensor) error {
	if len(ts) == 0 {
		return nil
	}
	p, err := l.framePart(w)
	if err != nil {
		return w.Fail(err)
	}
	line := p.c.line(ctx)
	defer line.Close()
	for _, t := range ts {
		parts := l.payloads(t)
		for i := range parts {
			enter := func() { l.enter(t, parts) }
			if i < len(parts)-1 {
				enter = nil
			}
			if err := l.compress(ctx, w, line, &parts[i], enter); err != nil {
				if ctx.Err() != nil {
					return w.Fail(err)
				}
				return w.Broken(t, parts[i].role, err)
			}
		}
	}
	return w.Fail(line.Flush())
}

// compress sends one part through the line.
func (l *Layout) compress(ctx context.Context, w *core.Writer, line *parallel.Line[*frameJob], x *outPart, enter func()) error {
	p, err := l.framePart(w)
	if err != nil {
		return err
	}
	_, p.stable = x.data.Memory()
	p.put = func(j *frameJob) error { return line.Put(j, int64(len(j.in)+len(j.own))) }
	f := core.Feed{Out: p, Dtype: x.check, Odd: x.odd}
	if err := f.From(ctx, x.data, &l.feedBuf); err != nil {
		return err
	}
	if f, ok := x.data.Source().(*core.Fixed); ok {
		if err := f.Check(p.hash.Sum64()); err != nil {
			return err
		}
	}
	return p.end(x, enter)
}
