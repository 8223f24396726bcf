package v1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// A codec decodes zstd, big-endian elements, or both.
type codec struct {
	c     *container
	zstd  bool
	width int // size of big-endian elements; 0: little-endian
}

func (k *codec) ReadInto(p *core.Payload, b []byte) error {
	var err error
	switch {
	case k.zstd:
		var d *zstd.Decoder
		if d, err = p.R.Decoder(); err == nil {
			err = p.UseStored(0, p.Length, func(stored []byte) error {
				return core.DecodeAll(d, b, stored)
			})
		}
	case len(b) > 0:
		_, err = p.R.ReadAt(b, p.Offset)
	}
	if err == nil && k.width > 0 {
		le.Swap(b, k.width)
	}
	return err
}

// ReadAt decodes all bytes before off too.
func (k *codec) ReadAt(p *core.Payload, b []byte, off int64) (int, error) {
	r, err := k.Open(p)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	if _, err := io.CopyN(io.Discard, r, off); err != nil {
		return 0, err
	}
	return source.ReadPiece(r, b)
}

func (k *codec) Open(p *core.Payload) (io.ReadCloser, error) {
	var err error
	var r io.ReadCloser = p.OpenStored()
	if k.zstd {
		r, err = k.c.openZstd(p)
	}
	if err == nil && k.width > 0 {
		r = source.Elements(r, k.width, func(b []byte) { le.Swap(b, k.width) })
	}
	return r, err
}

const (
	// freeWindow is the window that a frame of any length may have; see maxWindowFor for
	// larger ones.
	freeWindow = 8 << 20
	// freeDecoded is how many bytes a payload may decode to if the file does not give its
	// decoded size. A payload of more may have maxRatio bytes for each stored one.
	freeDecoded = 16 << 20
	maxRatio    = 1000
)

// openZstd streams the decoded bytes, and checks the digest of the stored bytes. If the
// window is larger than maxWindowFor the stored bytes, it decodes all at once, into
// memory that grows with the output.
func (c *container) openZstd(p *core.Payload) (io.ReadCloser, error) {
	limit := p.DecodedSize
	if limit < 0 {
		limit = max(freeDecoded, maxRatio*min(p.Length, 1<<50/maxRatio))
	}
	limit = min(limit, c.r.Options.Limits.MaxDecoded)
	if p.DecodedSize > limit {
		return nil, fmt.Errorf("%w: decodes to %d bytes", tensor.ErrLimit, p.DecodedSize)
	}
	window, err := zstdWindow(p)
	if err != nil {
		return nil, err
	}
	in := p.OpenStored()
	if window <= maxWindowFor(p.Length) {
		z, err := c.stream(bufio.NewReaderSize(in, int(min(max(p.Length, 16), 256<<10))))
		if err != nil {
			return nil, core.ZstdError(err)
		}
		return &decoded{p: p, in: in, z: z, streams: &c.streams, limit: limit}, nil
	}
	if window > core.MaxWindow {
		return nil, fmt.Errorf("%w: a zstd window of more than %d bytes", tensor.ErrLimit,
			core.MaxWindow)
	}
	stored, err := io.ReadAll(in) // few bytes: a large window is allowed for many
	if err != nil {
		return nil, err
	}
	d, err := c.r.Decoder()
	if err != nil {
		return nil, err
	}
	b, err := decodeGrowing(d, stored, limit)
	if err == nil && p.DecodedSize >= 0 && int64(len(b)) != p.DecodedSize {
		err = fmt.Errorf("%w: decodes to %d bytes, not %d", tensor.ErrMalformed, len(b),
			p.DecodedSize)
	}
	return io.NopCloser(bytes.NewReader(b)), err
}

// A decoded streams the decoded bytes of a zstd payload and checks how many there are.
type decoded struct {
	p       *core.Payload
	in      io.ReadCloser
	z       *zstd.Decoder // nil after Close
	streams *sync.Pool    // of z
	n       int64
	limit   int64
	err     error
}

func (d *decoded) Read(b []byte) (int, error) {
	if d.err != nil || len(b) == 0 {
		return 0, d.err
	}
	n, err := d.z.Read(b)
	d.n += int64(n)
	want := d.p.DecodedSize // -1: not known
	switch {
	case d.n > d.limit && want >= 0:
		n, err = 0, fmt.Errorf("%w: decodes to more than %d bytes", tensor.ErrMalformed, want)
	case d.n > d.limit:
		n, err = 0, fmt.Errorf("%w: %d bytes decode to more than %d", tensor.ErrLimit, d.p.Length,
			d.limit)
	case err == nil:
		return n, nil
	case err != io.EOF:
		err = core.ZstdError(err)
	case d.n < want:
		err = fmt.Errorf("%w: decodes to %d bytes, not %d", tensor.ErrMalformed, d.n, want)
	default:
		if _, err = io.Copy(io.Discard, d.in); err == nil { // checks the digest at its end
			d.err = io.EOF
			return n, d.err
		}
	}
	d.err = d.p.ReadError(err)
	return n, d.err
}

func (d *decoded) Close() error {
	if d.z != nil && d.z.Reset(nil) == nil {
		d.streams.Put(d.z)
	}
	d.z = nil
	if d.in.Close(); d.err == nil {
		_, d.err = d.in.Read(nil) // the error of reading after Close
	}
	return nil
}

// decodeGrowing decodes src, up to limit bytes, into memory that grows with the output.
func decodeGrowing(d *zstd.Decoder, src []byte, limit int64) ([]byte, error) {
	for size := min(limit, max(1<<20, 8*int64(len(src)))); ; size = min(limit, 4*size) {
		out, err := d.DecodeAll(src, make([]byte, 0, size))
		switch {
		case err == nil:
			return out, nil
		case !errors.Is(err, zstd.ErrDecoderSizeExceeded):
			return nil, core.ZstdError(err)
		case size >= limit:
			return nil, fmt.Errorf("%w: %d bytes decode to more than %d", tensor.ErrLimit,
				len(src), limit)
		}
	}
}

// zstdWindow returns the window of the first frame of a payload; 0 if it is empty.
func zstdWindow(p *core.Payload) (int64, error) {
	if p.Length == 0 {
		return 0, nil
	}
	head := make([]byte, min(p.Length, zstd.HeaderMaxSize))
	if _, err := p.R.ReadAt(head, p.Offset); err != nil {
		return 0, err
	}
	var h zstd.Header
	if err := h.Decode(head); err != nil {
		return 0, core.ZstdError(err)
	}
	window := h.WindowSize
	if h.SingleSegment {
		window = h.FrameContentSize
	}
	return int64(min(window, core.MaxWindow+1)), nil
}

// maxWindowFor returns the largest window that is allowed for that many stored bytes.
func maxWindowFor(stored int64) int64 {
	return min(core.MaxWindow, max(freeWindow, 8*min(stored, core.MaxWindow)))
}

// stream returns a decoder that reads from in. Decoders are reused, so that all have one
// limit of windows, maxWindowFor the whole file; the caller checks the first frame.
func (c *container) stream(in io.Reader) (*zstd.Decoder, error) {
	if z, ok := c.streams.Get().(*zstd.Decoder); ok {
		return z, z.Reset(in)
	}
	window := max(maxWindowFor(c.r.Size()), zstd.MinWindowSize)
	return zstd.NewReader(in,
		zstd.WithDecoderMaxMemory(uint64(window)), // of the window: decoded counts the output
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderConcurrency(1))
}
