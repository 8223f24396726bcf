package ztensor

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// other returns where the unusual of c goes.
func (c *component) other() *unusual {
	if c.more == nil {
		c.more = &c.r.unusual.take(1)[0]
	}
	return c.more
}

// setDigest notes the digest, a crc32c that is spelled as it should be as its
// value, and anything else as its text.
func (c *component) setDigest(text string) {
	if v, ok := strings.CutPrefix(text, prefixCRC); ok {
		if c.crc, c.hasCRC = upperHex(v); c.hasCRC {
			return
		}
	}
	c.other().digest, c.other().digested = c.r.keepString(text), true
}

// encoding is how the bytes of a component are stored.
type encoding uint8

const (
	encodingRaw encoding = iota
	encodingZstd
	encodingUnknown // more.encoding has the word
)

// A component is one payload of a tensor: the source of a Blob. Components lie
// in slabs and are handed out as pointers, so that a Blob costs no allocation.
type component struct {
	r        *file
	t        *tensor.Tensor // that it belongs to
	offset   int64          // of the stored bytes in the file
	length   int64          // of the stored bytes
	size     int64          // decoded; -1 when only decoding tells
	more     *unusual
	crc      uint32 // the digest, if hasCRC
	encoding encoding
	dtype    tensor.DType
	hasCRC   bool
	big      bool // 0.1 only: elements are big-endian, as wide as dtype says

	dims [2]int64 // of the tensor, where it has no more and this component comes first
}

// unusual is what few components have.
type unusual struct {
	digest   string // as the file spells it, unless component.crc stands for it
	digested bool   // it has one
	encoding string // the file's word where it is neither raw nor zstd
	dtype    string // the file's word for the element type where dtype is Unknown
	err      error  // why the bytes cannot be decoded
}

func (c *component) Size() int64 { return c.size }

// plain reports whether reading is nothing but reading the file.
func (c *component) plain() bool {
	return c.encoding == encodingRaw && !c.big && c.readable() == nil
}

func (c *component) readable() error {
	if c.more == nil {
		return nil
	}
	return c.more.err
}

func (c *component) Bytes() ([]byte, bool) {
	if !c.plain() {
		return nil, false
	}
	return c.r.src.Bytes(c.offset, c.length)
}

// Stored says where the component lies.
func (c *component) Stored() tensor.Stored {
	s := tensor.Stored{Offset: c.offset, Size: c.length, Encoding: "raw", Digest: c.digest()}
	if c.encoding == encodingZstd {
		s.Encoding = "zstd"
	}
	if c.more != nil {
		s.Type = c.more.dtype
		if c.encoding == encodingUnknown {
			s.Encoding = c.more.encoding
		}
	}
	return s
}

// digest is the digest as the file spells it; "" when there is none.
func (c *component) digest() string {
	switch {
	case c.hasCRC:
		return fmt.Sprintf("%s%08X", prefixCRC, c.crc)
	case c.more != nil:
		return c.more.digest
	}
	return ""
}

// wanted is the digest that the stored bytes should have.
func (c *component) wanted() (w wanted, ok bool, err error) {
	switch {
	case c.hasCRC:
		return wanted{alg: CRC32C, crc: c.crc}, true, nil
	case c.more != nil && c.more.digested:
		w, err = parseDigest(c.more.digest)
		return w, true, err
	}
	return w, false, nil
}

// CheckView is called by tensor.View. Strict readers check the digest the first
// time that bytes are borrowed.
func (c *component) CheckView() error {
	if err := c.readable(); err != nil {
		return c.failed(err)
	}
	return c.checkStrict()
}

// checkStrict checks the digest once, if the reader is strict.
func (c *component) checkStrict() error {
	if !c.r.strict {
		return nil
	}
	if _, ok := c.r.checked.Load(c); ok {
		return nil
	}
	if err := c.checkDigest(func(int64) error { return nil }); err != nil {
		return err
	}
	c.r.checked.Store(c, nil)
	return nil
}

// checkDigest reads the stored bytes and holds them against the digest; step is
// told of each piece. There is nothing to check where there is no digest.
func (c *component) checkDigest(step func(n int64) error) error {
	want, ok, err := c.wanted()
	if err != nil {
		return c.failedDigest(err)
	}
	if !ok {
		return nil
	}
	h := newHasher(want.alg)
	if err := c.eachPiece(h.write, step); err != nil {
		return err
	}
	if err := h.check(want); err != nil {
		return c.failedDigest(err)
	}
	return nil
}

// eachPiece calls f with the stored bytes, piece by piece, without a copy where
// they are in memory, and step behind each piece.
func (c *component) eachPiece(f func(p []byte), step func(n int64) error) error {
	var buf []byte
	for off := int64(0); off < c.length; {
		n := min(c.length-off, hashPiece)
		inMemory, err := c.r.src.Scan(func(all []byte) error {
			f(all[c.offset+off : c.offset+off+n])
			return nil
		})
		if !inMemory {
			if buf == nil {
				buf = make([]byte, n)
			}
			if _, err = c.r.src.ReadAt(buf[:n], c.offset+off); err == nil {
				f(buf[:n])
			}
		}
		if err == nil {
			err = step(n)
		}
		if err != nil {
			return c.failed(err)
		}
		off += n
	}
	return nil
}

// hashPiece is how much is hashed between two looks at the context.
const hashPiece = 1 << 20

func (c *component) ReadInto(p []byte) error {
	if err := c.readable(); err != nil {
		return c.failed(err)
	}
	if c.size >= 0 && int64(len(p)) != c.size {
		return c.failed(fmt.Errorf("a buffer of %d bytes for %d: %w", len(p), c.size, io.ErrShortBuffer))
	}
	if err := c.checkStrict(); err != nil {
		return err
	}
	switch c.encoding {
	case encodingRaw:
		if len(p) == 0 {
			return nil
		}
		if _, err := c.r.src.ReadAt(p, c.offset); err != nil {
			return c.failed(err)
		}
	case encodingZstd:
		if err := c.decodeInto(p); err != nil {
			return err
		}
	}
	if c.big {
		le.Swap(p, c.dtype.Align())
	}
	return nil
}

// decodeInto decodes a zstd component into p in one step where the stored bytes
// are in memory or no burden there, else as a stream.
func (c *component) decodeInto(p []byte) error {
	d, err := c.r.decoder()
	if err != nil {
		return c.failed(err)
	}
	inMemory, err := c.r.src.Scan(func(all []byte) error {
		return decodeAll(d, p, all[c.offset:c.offset+c.length])
	})
	if inMemory {
		return c.failed(err)
	}
	if c.length <= int64(len(p))+1<<20 {
		stored, err := c.r.src.Metadata(c.offset, c.length)
		if err == nil {
			err = decodeAll(d, p, stored)
		}
		return c.failed(err)
	}
	r, err := c.openZstd(false)
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.ReadFull(r, p); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = fmt.Errorf("%w: decodes to fewer than %d bytes", tensor.ErrMalformed, len(p))
		}
		return c.failed(err)
	}
	var one [1]byte
	if n, err := r.Read(one[:]); n > 0 || err != io.EOF {
		if err == nil || err == io.EOF {
			err = fmt.Errorf("%w: decodes to more than %d bytes", tensor.ErrMalformed, len(p))
		}
		return c.failed(err)
	}
	return nil
}

func (c *component) ReadAt(p []byte, off int64) (int, error) {
	if err := c.readable(); err != nil {
		return 0, c.failed(err)
	}
	if off < 0 {
		return 0, fmt.Errorf("ztensor: negative offset %d", off)
	}
	if c.size >= 0 {
		if off >= c.size {
			if len(p) == 0 {
				return 0, nil
			}
			return 0, io.EOF
		}
		if off == 0 && int64(len(p)) == c.size {
			if err := c.ReadInto(p); err != nil {
				return 0, err
			}
			return len(p), nil
		}
	}
	if c.plain() {
		if err := c.checkStrict(); err != nil {
			return 0, err
		}
		n := min(int64(len(p)), c.size-off)
		if _, err := c.r.src.ReadAt(p[:n], c.offset+off); err != nil {
			return 0, c.failed(err)
		}
		if n < int64(len(p)) {
			return int(n), io.EOF
		}
		return int(n), nil
	}
	r, err := c.Open()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	if _, err := io.CopyN(io.Discard, r, off); err != nil {
		return 0, err
	}
	return source.ReadPiece(r, p)
}

// Open streams the decoded bytes and checks the digest, if there is one that
// this library knows, before it answers io.EOF.
func (c *component) Open() (io.ReadCloser, error) {
	if err := c.readable(); err != nil {
		return nil, c.failed(err)
	}
	var r io.ReadCloser
	switch c.encoding {
	case encodingZstd:
		z, err := c.openZstd(true)
		if err != nil {
			return nil, err
		}
		r = z
	default:
		r = io.NopCloser(c.openStored(true))
	}
	if c.big {
		width := c.dtype.Align()
		return source.Elements(r, width, func(p []byte) { le.Swap(p, width) }), nil
	}
	return r, nil
}

// openZstd streams the decoded bytes, checking the digest of the stored ones if
// asked to. What is small, or wants a window beyond what its stored bytes make
// plausible, is decoded into memory that grows with it.
func (c *component) openZstd(check bool) (io.ReadCloser, error) {
	limit := c.size
	if limit < 0 {
		limit = max(freeDecoded, maxRatio*min(c.length, 1<<50/maxRatio))
	}
	limit = min(limit, c.r.limits.MaxDecoded)
	if c.size > limit {
		return nil, c.failed(fmt.Errorf("%w: decodes to %d bytes", tensor.ErrLimit, c.size))
	}
	var start [zstd.HeaderMaxSize]byte
	head := start[:min(c.length, int64(len(start)))]
	if _, err := c.r.src.ReadAt(head, c.offset); err != nil {
		return nil, c.failed(err)
	}
	if len(head) == 0 { // no frame at all decodes to nothing
		return &decoded{c: c, in: c.openStored(check), want: c.size, limit: limit, ended: true}, nil
	}
	window, err := zstdWindow(head)
	if err != nil {
		return nil, c.failed(err)
	}
	in := c.openStored(check)
	if window <= plausibleWindow(c.length) {
		z, err := c.r.zstdStream(bufio.NewReaderSize(in, int(min(max(c.length, 16), 256<<10))))
		if err != nil {
			return nil, c.failed(zstdError(err))
		}
		return &decoded{c: c, in: in, z: z, want: c.size, limit: limit}, nil
	}
	if window > maxWindow {
		return nil, c.failed(fmt.Errorf("%w: a zstd window of more than %d bytes", tensor.ErrLimit, maxWindow))
	}
	// The window is large and little is stored: take all of that into memory.
	stored, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	d, err := c.r.decoder()
	if err != nil {
		return nil, c.failed(err)
	}
	p, err := decodeGrowing(d, stored, limit)
	if err != nil {
		return nil, c.failed(err)
	}
	if c.size >= 0 && int64(len(p)) != c.size {
		return nil, c.failed(fmt.Errorf("%w: decodes to %d bytes, not %d", tensor.ErrMalformed, len(p), c.size))
	}
	return io.NopCloser(bytes.NewReader(p)), nil
}

// stored streams the bytes as they lie in the file.
type stored struct {
	c    *component
	off  int64
	h    hasher
	want *wanted
	err  error // of reading, to be told from that of a decoder
}

// openStored streams the stored bytes. With check, a digest that does not fit is
// the error in place of io.EOF.
func (c *component) openStored(check bool) *stored {
	s := &stored{c: c}
	if check {
		switch want, ok, err := c.wanted(); {
		case err == nil && ok:
			s.want, s.h = &want, newHasher(want.alg)
		case err != nil && !errors.Is(err, errNoAlgorithm):
			s.err = c.failedDigest(err)
		}
	}
	return s
}

func (s *stored) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	left := s.c.length - s.off
	if left == 0 {
		s.err = io.EOF
		if s.want != nil {
			if err := s.h.check(*s.want); err != nil {
				s.err = s.c.failedDigest(err)
			}
		}
		return 0, s.err
	}
	p = p[:min(int64(len(p)), left)]
	if _, err := s.c.r.src.ReadAt(p, s.c.offset+s.off); err != nil {
		s.err = s.c.failed(err)
		return 0, s.err
	}
	s.h.write(p)
	s.off += int64(len(p))
	return len(p), nil
}

// decoded streams what a zstd component decodes to, and holds its length against
// what is wanted, or against the limit where that is not known.
type decoded struct {
	c     *component
	in    *stored
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
		err = fmt.Errorf("%w: %d bytes decode to more than %d", tensor.ErrLimit, d.c.length, d.limit)
	case err == nil:
		return n, nil
	case err != io.EOF && d.in.err != nil && d.in.err != io.EOF:
		d.err = d.in.err // the decoder only passes it on
		return n, d.err
	case err != io.EOF:
		err = zstdError(err)
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
	d.err = d.c.failed(err)
	return n, d.err
}

func (d *decoded) Close() error {
	if d.z != nil {
		d.c.r.keepStream(d.z)
		d.z = nil
		d.ended = true
	}
	if d.err == nil {
		d.err = errClosedStream
	}
	return nil
}

var errClosedStream = errors.New("ztensor: read after Close")

// failed gives an error of reading the component its place; nil stays nil.
func (c *component) failed(err error) error { return c.fault("", err) }

func (c *component) failedDigest(err error) error { return c.fault(".digest", err) }

func (c *component) fault(field string, err error) error {
	if err == nil {
		return nil
	}
	var fe *tensor.FormatError
	if errors.As(err, &fe) {
		return err
	}
	return &tensor.FormatError{Format: format, Offset: c.offset, Field: c.r.path(c) + field, Err: err}
}
