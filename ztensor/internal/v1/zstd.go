package v1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"weak"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

const (
	// freeWindow is a window that a stream may claim whatever its length; a
	// larger one has to be made plausible by the bytes that are stored.
	freeWindow = 8 << 20
	// freeDecoded is what a payload may decode to whatever its stored length,
	// where nothing in the file says how long it is.
	freeDecoded = 16 << 20
	// maxRatio bounds such payloads beyond freeDecoded.
	maxRatio = 1000
)

// decodeInto decodes a zstd component into p in one step where the stored bytes
// are in memory or no burden there, else as a stream.
func (k *codec) decodeInto(c *core.Payload, p []byte) error {
	d, err := c.R.Decoder()
	if err != nil {
		return c.Failed(err)
	}
	inMemory, err := c.R.Src.Scan(func(all []byte) error {
		return core.DecodeAll(d, p, all[c.Offset:c.Offset+c.Length])
	})
	if inMemory {
		return c.Failed(err)
	}
	if c.Length <= int64(len(p))+1<<20 {
		stored, err := c.R.Src.Metadata(c.Offset, c.Length)
		if err == nil {
			err = core.DecodeAll(d, p, stored)
		}
		return c.Failed(err)
	}
	r, err := k.openZstd(c, false)
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.ReadFull(r, p); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = fmt.Errorf("%w: decodes to fewer than %d bytes", tensor.ErrMalformed, len(p))
		}
		return c.Failed(err)
	}
	var one [1]byte
	if n, err := r.Read(one[:]); n > 0 || err != io.EOF {
		if err == nil || err == io.EOF {
			err = fmt.Errorf("%w: decodes to more than %d bytes", tensor.ErrMalformed, len(p))
		}
		return c.Failed(err)
	}
	return nil
}

// openZstd streams the decoded bytes, checking the digest of the stored ones if
// asked to. What is small, or wants a window beyond what its stored bytes make
// plausible, is decoded into memory that grows with it.
func (k *codec) openZstd(c *core.Payload, check bool) (io.ReadCloser, error) {
	limit := c.DecodedSize
	if limit < 0 {
		limit = max(freeDecoded, maxRatio*min(c.Length, 1<<50/maxRatio))
	}
	limit = min(limit, c.R.Limits.MaxDecoded)
	if c.DecodedSize > limit {
		return nil, c.Failed(fmt.Errorf("%w: decodes to %d bytes", tensor.ErrLimit, c.DecodedSize))
	}
	var start [zstd.HeaderMaxSize]byte
	head := start[:min(c.Length, int64(len(start)))]
	if _, err := c.R.Src.ReadAt(head, c.Offset); err != nil {
		return nil, c.Failed(err)
	}
	if len(head) == 0 { // no frame at all decodes to nothing
		return &decoded{k: k, c: c, in: c.OpenStored(check), want: c.DecodedSize, limit: limit, ended: true}, nil
	}
	window, err := zstdWindow(head)
	if err != nil {
		return nil, c.Failed(err)
	}
	in := c.OpenStored(check)
	if window <= plausibleWindow(c.Length) {
		z, err := k.c.zstdStream(bufio.NewReaderSize(in, int(min(max(c.Length, 16), 256<<10))))
		if err != nil {
			return nil, c.Failed(core.ZstdError(err))
		}
		return &decoded{k: k, c: c, in: in, z: z, want: c.DecodedSize, limit: limit}, nil
	}
	if window > core.MaxWindow {
		return nil, c.Failed(fmt.Errorf("%w: a zstd window of more than %d bytes", tensor.ErrLimit, core.MaxWindow))
	}
	// The window is large and little is stored: take all of that into memory.
	stored, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	d, err := c.R.Decoder()
	if err != nil {
		return nil, c.Failed(err)
	}
	p, err := decodeGrowing(d, stored, limit)
	if err != nil {
		return nil, c.Failed(err)
	}
	if c.DecodedSize >= 0 && int64(len(p)) != c.DecodedSize {
		return nil, c.Failed(fmt.Errorf("%w: decodes to %d bytes, not %d", tensor.ErrMalformed, len(p), c.DecodedSize))
	}
	return io.NopCloser(bytes.NewReader(p)), nil
}

// decoded streams what a zstd component decodes to, and holds its length against
// what is wanted, or against the limit where that is not known.
type decoded struct {
	k     *codec
	c     *core.Payload
	in    *core.StoredStream
	z     *zstd.Decoder
	n     int64
	want  int64 // -1: not known
	limit int64
	ended bool // no more frames
	err   error
}

func (d *decoded) Read(p []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	var n int
	err := io.EOF
	if !d.ended {
		n, err = d.z.Read(p)
	}
	d.n += int64(n)
	switch {
	case d.n > d.limit && d.want >= 0:
		err = fmt.Errorf("%w: decodes to more than %d bytes", tensor.ErrMalformed, d.want)
	case d.n > d.limit:
		err = fmt.Errorf("%w: %d bytes decode to more than %d", tensor.ErrLimit, d.c.Length, d.limit)
	case err == nil:
		return n, nil
	case err != io.EOF && d.in.Err != nil && d.in.Err != io.EOF:
		d.err = d.in.Err // the decoder only passes it on
		return n, d.err
	case err != io.EOF:
		err = core.ZstdError(err)
	case d.n < d.want:
		err = fmt.Errorf("%w: decodes to %d bytes, not %d", tensor.ErrMalformed, d.n, d.want)
	default:
		// The decoder has seen the end of what is stored, or there is nothing.
		_, err := io.Copy(io.Discard, d.in)
		if d.err = err; err == nil {
			d.err = io.EOF
		}
		return n, d.err
	}
	if d.n > d.limit {
		n = 0
	}
	d.err = d.c.Failed(err)
	return n, d.err
}

func (d *decoded) Close() error {
	if d.z != nil {
		d.k.c.keepStream(d.z)
		d.z = nil
		d.ended = true
	}
	if d.err == nil {
		d.err = core.ErrClosedStream
	}
	return nil
}

// decodeGrowing decodes src, whose decoded length is not known or not proven,
// into memory that grows with what there is. limit bounds it.
func decodeGrowing(d *zstd.Decoder, src []byte, limit int64) ([]byte, error) {
	room := min(limit, max(1<<20, 8*int64(len(src))))
	for {
		out, err := d.DecodeAll(src, make([]byte, 0, room))
		if !errors.Is(err, zstd.ErrDecoderSizeExceeded) {
			if err != nil {
				return nil, core.ZstdError(err)
			}
			return out, nil
		}
		if room >= limit {
			return nil, fmt.Errorf("%w: %d bytes decode to more than %d", tensor.ErrLimit, len(src), limit)
		}
		room = min(limit, 4*room)
	}
}

// zstdWindow reads how much memory the first frame of a stream wants.
func zstdWindow(start []byte) (int64, error) {
	var h zstd.Header
	if err := h.Decode(start); err != nil {
		return 0, core.ZstdError(err)
	}
	window := h.WindowSize
	if h.SingleSegment {
		window = h.FrameContentSize
	}
	return int64(min(window, core.MaxWindow+1)), nil
}

// plausibleWindow is the largest window that stored bytes make plausible.
func plausibleWindow(stored int64) int64 {
	return min(core.MaxWindow, max(freeWindow, 8*min(stored, core.MaxWindow)))
}

// zstdStream decodes what in has, until keepStream: by a decoder that did so
// before, if there is one, since its window would be garbage that lies about while
// the next part takes another. So the limit of windows is one for all parts, what
// the whole file makes plausible; the caller looks at that of the first frame.
func (c *container) zstdStream(in io.Reader) (*zstd.Decoder, error) {
	s := &c.stream
	s.Lock()
	z := s.z.Value()
	s.z = weak.Pointer[zstd.Decoder]{}
	s.Unlock()
	if z != nil {
		return z, z.Reset(in)
	}
	return newZstdStream(in, plausibleWindow(c.r.Src.Size()))
}

// keepStream keeps a decoder until the next collection of garbage.
func (c *container) keepStream(z *zstd.Decoder) {
	if z.Reset(nil) != nil {
		return
	}
	c.stream.Lock()
	c.stream.z = weak.Make(z)
	c.stream.Unlock()
}

// A spareStream is a decoder that nobody uses.
type spareStream struct {
	sync.Mutex
	z weak.Pointer[zstd.Decoder]
}

// newZstdStream decodes what in has, with a window of at most window bytes.
func newZstdStream(in io.Reader, window int64) (*zstd.Decoder, error) {
	return zstd.NewReader(in,
		zstd.WithDecoderMaxMemory(uint64(max(window, zstd.MinWindowSize))), // of the window; the output is counted elsewhere
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderConcurrency(1))
}
