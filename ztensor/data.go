package ztensor

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"runtime"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// pieceSize is how much is read, hashed and written at a time.
const pieceSize = 1 << 20

// A sink writes the stored bytes of one component and computes their digest on
// the way.
type sink struct {
	w io.Writer
	h hasher
	n int64
}

// Write hashes large pieces while they are written.
func (s *sink) Write(p []byte) (int, error) {
	if s.h.alg == NoDigest || len(p) < 128<<10 || runtime.GOMAXPROCS(0) == 1 {
		s.h.write(p)
		n, err := s.w.Write(p)
		s.n += int64(n)
		return n, err
	}
	hashed := make(chan struct{})
	go func() {
		s.h.write(p)
		close(hashed)
	}()
	n, err := s.w.Write(p)
	s.n += int64(n)
	<-hashed
	return n, err
}

// fill notes in c what went through the sink.
func (s *sink) fill(c *written) {
	c.length = s.n
	c.digest = string(s.h.appendText(nil))
}

// An encoder compresses one component after the other, each into one frame.
type encoder struct{ *zstd.Encoder }

// newFrames makes an encoder of frames in memory, for several goroutines at once.
func newFrames(level int) (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, append(encoderOptions(level), zstd.WithEncoderConcurrency(0))...)
}

// newEncoder makes an encoder that works in the goroutine of its caller, so that
// its output depends on nothing but its input. Below its "better" level the
// encoder would store blocks without repetitions as they are; weights have none,
// but bytes of uneven frequency, so its entropy coder is always asked.
func newEncoder(level int) (*encoder, error) {
	e, err := zstd.NewWriter(nil, encoderOptions(level)...)
	return &encoder{e}, err
}

// bestLevel is the first at which no time is spared.
const bestLevel = 16

// encoderOptions are those of a level. Windows and tables are most of an encoder's memory, which is
// 2, 3, 9 and 40 MiB.
func encoderOptions(level int) []zstd.EOption {
	speed, window := zstd.SpeedBestCompression, 4<<20
	switch {
	case level < 3:
		speed, window = zstd.SpeedFastest, 1<<20
	case level < 7:
		speed, window = zstd.SpeedDefault, 1<<20
	case level < bestLevel:
		speed = zstd.SpeedBetterCompression
	}
	return []zstd.EOption{
		zstd.WithEncoderLevel(speed),
		zstd.WithAllLitEntropyCompression(true),
		zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(window),
		zstd.WithLowerEncoderMem(true),
		zstd.WithZeroFrames(true),
	}
}

// A feed brings the decoded bytes of a component to where they are stored.
type feed struct {
	out   io.Writer
	zstd  *encoder // nil: as they are
	dtype tensor.DType
	n     int64 // decoded bytes so far
	odd   bool  // half of the last byte must be zero
	last  byte
}

// begin starts a component; size is that of the decoded bytes, or -1.
func (f *feed) begin(size int64) {
	if f.zstd != nil {
		f.zstd.ResetContentSize(f.out, size)
	}
}

func (f *feed) Write(p []byte) (int, error) {
	if f.dtype == tensor.Bool {
		if err := checkBools(p, f.n); err != nil {
			return 0, err
		}
	}
	f.n += int64(len(p))
	if len(p) > 0 {
		f.last = p[len(p)-1]
	}
	if f.zstd != nil {
		return f.zstd.Write(p)
	}
	return f.out.Write(p)
}

// checkBools looks for bools that are none; at is how many come before p.
func checkBools(p []byte, at int64) error {
	if i := le.NotBool(p); i >= 0 {
		return fmt.Errorf("%w: element %d is the bool 0x%02x", tensor.ErrMalformed, at+int64(i), p[i])
	}
	return nil
}

func (f *feed) end() error {
	if f.odd {
		if err := oddNibble(f.last, 1); err != nil {
			return err
		}
	}
	if f.zstd != nil {
		return f.zstd.Close()
	}
	return nil
}

// from feeds all of a blob, in pieces of *buf where it is not in memory.
func (f *feed) from(ctx context.Context, b tensor.Blob, buf *[]byte) error {
	f.begin(b.Size())
	if p, ok := b.Memory(); ok {
		for len(p) > 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := min(len(p), pieceSize)
			if _, err := f.Write(p[:n]); err != nil {
				return err
			}
			p = p[n:]
		}
		return f.end()
	}
	in, err := b.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	if *buf == nil {
		*buf = make([]byte, pieceSize)
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := source.ReadPiece(in, *buf)
		if n > 0 {
			if _, err := f.Write((*buf)[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if size := b.Size(); size >= 0 && f.n != size {
		return fmt.Errorf("%w: %d bytes came where %d were promised", tensor.ErrMalformed, f.n, size)
	}
	return f.end()
}

// start pads and begins a component of c at the place that the file has reached.
func (w *Writer) start(c *written) (*sink, error) {
	if err := w.pad(w.layout.alignment()); err != nil {
		return nil, err
	}
	c.offset, c.zstd = w.off, w.level > 0
	return &sink{w: writerFunc(func(p []byte) (int, error) {
		if err := w.write(p); err != nil {
			return 0, err
		}
		return len(p), nil
	}), h: newHasher(w.digest)}, nil
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// encoding returns the encoder that components go through, nil for none.
func (w *Writer) encoding() (*encoder, error) {
	if w.level == 0 || w.encoder != nil {
		return w.encoder, nil
	}
	var err error
	w.encoder, err = newEncoder(w.level)
	return w.encoder, err
}

// component writes one component of t. Any error is final: part of it may be in
// the file already.
func (w *Writer) component(ctx context.Context, t *tensor.Tensor, p *payload) error {
	if p.prepared {
		if p.err != nil {
			return w.broken(t, p.role, p.err)
		}
		if err := w.pad(w.layout.alignment()); err != nil {
			return err
		}
		p.offset, p.zstd = w.off, w.level > 0
		w.writePieces(p.stored)
		return w.whole(t, &p.written)
	}
	z, err := w.encoding()
	if err != nil {
		return w.fail(err)
	}
	s, err := w.start(&p.written)
	if err != nil {
		return err
	}
	f := feed{out: s, zstd: z, dtype: p.dtype}
	if err := f.from(ctx, p.data, &w.buf); err != nil {
		return w.broken(t, p.role, err)
	}
	p.size = f.n
	s.fill(&p.written)
	return w.whole(t, &p.written)
}

// whole checks that a component that was written is as long as it has to be.
func (w *Writer) whole(t *tensor.Tensor, c *written) error {
	if t.Dense() && c.role == "data" {
		n, _ := t.Shape.Elements()
		if want, _ := t.DType.Bytes(n); c.size != want {
			return w.broken(t, c.role, fmt.Errorf("%w: %d bytes came where %v of %v takes %d", tensor.ErrMalformed, c.size, t.Shape, t.DType, want))
		}
	}
	return nil
}

func (w *Writer) broken(t *tensor.Tensor, role string, err error) error {
	if w.err != nil {
		return w.err // of writing, which says enough
	}
	return w.fail(fmt.Errorf("ztensor: tensor %s, %s: %w", quote.Name(t.Name), role, err))
}

// Create begins a dense tensor whose bytes come piece by piece through the
// WriteCloser: little-endian, row-major, exactly as many as dtype and shape say,
// or Close fails. Nothing is gathered: memory does not grow with the tensor.
// Until it is closed nothing else can be added.
func (w *Writer) Create(name string, dtype tensor.DType, shape tensor.Shape) (io.WriteCloser, error) {
	n, ok := shape.Elements()
	size, fits := dtype.Bytes(n)
	if !ok || !fits {
		return nil, fmt.Errorf("ztensor: %w: tensor %s: %v of %v", tensor.ErrMalformed, quote.Name(name), shape, dtype)
	}
	if err := w.usable(); err != nil {
		return nil, err
	}
	t := &tensor.Tensor{Name: name, DType: dtype, Shape: shape, Data: tensor.BlobFunc(size, nil)}
	if err := w.check(t); err != nil {
		return nil, err
	}
	return w.layout.create(w, t, size)
}

func (l *layout1) create(w *Writer, t *tensor.Tensor, size int64) (io.WriteCloser, error) {
	w.names[t.Name] = true
	z, err := w.encoding()
	if err != nil {
		return nil, w.fail(err)
	}
	p := &part{w: w, t: t, want: size, c: payload{written: written{role: "data", dtype: t.DType}}}
	if p.sink, err = w.start(&p.c.written); err != nil {
		return nil, err
	}
	p.feed = feed{out: p.sink, zstd: z, dtype: t.DType}
	p.feed.begin(size)
	w.part = p
	return p, nil
}

// A part is a tensor that Create began.
type part struct {
	w    *Writer
	t    *tensor.Tensor
	c    payload
	sink *sink
	feed feed
	want int64
	done bool

	two    *layout2 // version 2
	frames *frameSink
}

func (p *part) Write(b []byte) (int, error) {
	switch {
	case p.done:
		return 0, fmt.Errorf("ztensor: tensor %s: %w", quote.Name(p.t.Name), fs.ErrClosed)
	case p.w.err != nil:
		return 0, p.w.err
	case int64(len(b)) > p.want-p.feed.n:
		return 0, p.w.broken(p.t, "data", fmt.Errorf("%w: more than the %d bytes of %v of %v", tensor.ErrMalformed, p.want, p.t.Shape, p.t.DType))
	}
	for n := 0; n < len(b); {
		k := min(len(b)-n, pieceSize)
		if _, err := p.feed.Write(b[n : n+k]); err != nil {
			return n, p.w.broken(p.t, "data", err)
		}
		n += k
	}
	return len(b), nil
}

func (p *part) Close() error {
	if p.done {
		return nil
	}
	p.done = true
	p.w.part = nil
	if p.w.err != nil {
		return p.w.err
	}
	if p.feed.n != p.want {
		return p.w.broken(p.t, "data", fmt.Errorf("%w: %d bytes of %d", io.ErrUnexpectedEOF, p.feed.n, p.want))
	}
	if p.two != nil {
		if err := p.two.created(p); err != nil {
			return p.w.broken(p.t, "data", err)
		}
		return nil
	}
	if err := p.feed.end(); err != nil {
		return p.w.broken(p.t, "data", err)
	}
	p.c.size = p.feed.n
	p.sink.fill(&p.c.written)
	p.w.enter(p.t, []payload{p.c})
	return nil
}
