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

const (
	// frameSize is how much a frame of zt.zstd-seekable/1 decodes to.
	frameSize = 1 << 20
	// groupBytes and groupJobs bound what is compressed before it is written.
	groupBytes = 16 << 20
	groupJobs  = 1 << 12
)

// A compressor gathers frames of the parts that are written, and compresses a group of
// them at a time on all cores.
type compressor struct {
	w     *core.Writer
	align int64
	z     *zstd.Encoder
	group []*frameJob
	size  int // of the group
}

// A frameJob is one frame of a part, or its end.
type frameJob struct {
	part    *framePart
	in, out []byte
	end     func() error
}

// put adds a job to the group.
func (c *compressor) put(ctx context.Context, j *frameJob) error {
	c.group = append(c.group, j)
	if c.size += len(j.in); c.size < groupBytes && len(c.group) < groupJobs {
		return nil
	}
	return c.flush(ctx)
}

// flush compresses the group and writes it in order.
func (c *compressor) flush(ctx context.Context) error {
	line := parallel.New(ctx, core.InFlight, func(_ context.Context, j *frameJob) error {
		if j.end == nil {
			j.out = c.z.EncodeAll(j.in, nil)
		}
		return nil
	}, (*frameJob).write)
	defer line.Close()
	group := c.group
	c.group, c.size = nil, 0
	for _, j := range group {
		if err := line.Put(j, int64(2*len(j.in))); err != nil {
			return err
		}
	}
	return line.Flush()
}

// write writes the frame, and before the first one the padding of its part.
func (j *frameJob) write() error {
	p := j.part
	if p.start < 0 {
		if err := p.c.w.Pad(p.c.align); err != nil {
			return err
		}
		p.start = p.c.w.Off
	}
	if j.end != nil {
		return j.end()
	}
	if uint64(len(p.table)/8) == math.MaxUint32 {
		return fmt.Errorf("%w: more than 2^32 frames", tensor.ErrLimit)
	}
	p.table = binary.LittleEndian.AppendUint32(p.table, uint32(len(j.out)))
	p.table = binary.LittleEndian.AppendUint32(p.table, uint32(len(j.in)))
	return p.c.w.Write(j.out)
}

// A framePart is a sink that splits one part into frames.
type framePart struct {
	c     *compressor
	ctx   context.Context // of the call that adds the tensor
	next  *frameJob
	hash  *xxh3.Hasher
	size  int64
	table []byte
	start int64 // in the file; -1 before the first frame was written
}

// framePart begins a part. Frames depend on nothing but their content and the level.
func (l *Layout) framePart(ctx context.Context, w *core.Writer) (sink, error) {
	if l.frames == nil {
		z, err := zstd.NewWriter(nil, append(core.EncoderOptions(l.level),
			zstd.WithEncoderConcurrency(0), zstd.WithWindowSize(frameSize))...)
		if err != nil {
			return nil, err
		}
		l.frames = &compressor{w: w, align: l.align, z: z}
	}
	return &framePart{c: l.frames, ctx: ctx, hash: xxh3.New(), start: -1}, nil
}

func (p *framePart) Write(b []byte) (int, error) {
	p.hash.Write(b)
	p.size += int64(len(b))
	for rest := b; len(rest) > 0; {
		if p.next == nil {
			p.next = &frameJob{part: p}
		}
		n := min(len(rest), frameSize-len(p.next.in))
		p.next.in = append(p.next.in, rest[:n]...)
		if rest = rest[n:]; len(p.next.in) == frameSize {
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
	p.next = nil
	return p.c.put(p.ctx, j)
}

// end writes the seek table (§8), a frame that decoders skip.
func (p *framePart) end(x *core.Piece, written func() error) error {
	if err := p.flush(); err != nil {
		return err
	}
	x.Hash, x.Size = p.hash.Sum64(), p.size
	return p.c.put(p.ctx, &frameJob{part: p, end: func() error {
		b := binary.LittleEndian.AppendUint32([]byte(seekHeader), uint32(len(p.table)+seekFooter))
		b = binary.LittleEndian.AppendUint32(append(b, p.table...), uint32(len(p.table)/8))
		if err := p.c.w.Write(append(append(b, 0), seekMagic...)); err != nil {
			return err
		}
		x.Offset, x.Length = p.start, p.c.w.Off-p.start
		return written()
	}})
}
