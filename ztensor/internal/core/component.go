package core

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

// Other returns where the unusual of c goes.
func (c *Component) Other() *unusual {
	if c.More == nil {
		c.More = &c.R.unusual.Take(1)[0]
	}
	return c.More
}

// SetDigest notes the digest, a crc32c that is spelled as it should be as its
// value, and anything else as its text.
func (c *Component) SetDigest(text string) {
	if v, ok := strings.CutPrefix(text, prefixCRC); ok {
		if c.crc, c.hasCRC = upperHex(v); c.hasCRC {
			return
		}
	}
	c.Other().digest, c.Other().digested = c.R.KeepString(text), true
}

// encoding is how the bytes of a component are stored.
type encoding uint8

const (
	encodingRaw encoding = iota
	EncodingZstd
	EncodingUnknown // more.encoding has the word
)

// A Component is one payload of a tensor: the source of a Blob. Components lie
// in slabs and are handed out as pointers, so that a Blob costs no allocation.
type Component struct {
	R           *File
	T           *tensor.Tensor // that it belongs to
	Offset      int64          // of the stored bytes in the file
	Length      int64          // of the stored bytes
	DecodedSize int64          // decoded; -1 when only decoding tells
	More        *unusual
	crc         uint32 // the digest, if hasCRC
	Encoding    encoding
	Dtype       tensor.DType
	hasCRC      bool
	Big         bool // 0.1 only: elements are big-endian, as wide as dtype says

	dims [2]int64 // of the tensor, where it has no more and this component comes first
}

// unusual is what few components have.
type unusual struct {
	digest   string // as the file spells it, unless component.crc stands for it
	digested bool   // it has one
	Encoding string // the file's word where it is neither raw nor zstd
	Dtype    string // the file's word for the element type where dtype is Unknown
	Err      error  // why the bytes cannot be decoded
}

func (c *Component) Size() int64 { return c.DecodedSize }

// Plain reports whether reading is nothing but reading the file.
func (c *Component) Plain() bool {
	return c.Encoding == encodingRaw && !c.Big && c.Readable() == nil
}

func (c *Component) Readable() error {
	if c.More == nil {
		return nil
	}
	return c.More.Err
}

func (c *Component) Bytes() ([]byte, bool) {
	if !c.Plain() {
		return nil, false
	}
	return c.R.Src.Bytes(c.Offset, c.Length)
}

// Stored says where the component lies.
func (c *Component) Stored() tensor.Stored {
	s := tensor.Stored{Offset: c.Offset, Size: c.Length, Encoding: "raw", Digest: c.Digest()}
	if c.Encoding == EncodingZstd {
		s.Encoding = "zstd"
	}
	if c.More != nil {
		s.Type = c.More.Dtype
		if c.Encoding == EncodingUnknown {
			s.Encoding = c.More.Encoding
		}
	}
	return s
}

// Digest is the digest as the file spells it; "" when there is none.
func (c *Component) Digest() string {
	switch {
	case c.hasCRC:
		return fmt.Sprintf("%s%08X", prefixCRC, c.crc)
	case c.More != nil:
		return c.More.digest
	}
	return ""
}

// Wanted is the digest that the stored bytes should have.
func (c *Component) Wanted() (w wanted, ok bool, err error) {
	switch {
	case c.hasCRC:
		return wanted{alg: CRC32C, crc: c.crc}, true, nil
	case c.More != nil && c.More.digested:
		w, err = parseDigest(c.More.digest)
		return w, true, err
	}
	return w, false, nil
}

// CheckView is called by tensor.View. Strict readers check the digest the first
// time that bytes are borrowed.
func (c *Component) CheckView() error {
	if err := c.Readable(); err != nil {
		return c.Failed(err)
	}
	return c.checkStrict()
}

// checkStrict checks the digest once, if the reader is strict.
func (c *Component) checkStrict() error {
	if !c.R.Strict {
		return nil
	}
	if _, ok := c.R.checked.Load(c); ok {
		return nil
	}
	if err := c.CheckDigest(func(int64) error { return nil }); err != nil {
		return err
	}
	c.R.checked.Store(c, nil)
	return nil
}

// CheckDigest reads the stored bytes and holds them against the digest; step is
// told of each piece. There is nothing to check where there is no digest.
func (c *Component) CheckDigest(step func(n int64) error) error {
	want, ok, err := c.Wanted()
	if err != nil {
		return c.FailedDigest(err)
	}
	if !ok {
		return nil
	}
	h := NewHasher(want.alg)
	if err := c.EachPiece(h.Write, step); err != nil {
		return err
	}
	if err := h.check(want); err != nil {
		return c.FailedDigest(err)
	}
	return nil
}

// EachPiece calls f with the stored bytes, piece by piece, without a copy where
// they are in memory, and step behind each piece.
func (c *Component) EachPiece(f func(p []byte), step func(n int64) error) error {
	var buf []byte
	for off := int64(0); off < c.Length; {
		n := min(c.Length-off, hashPiece)
		inMemory, err := c.R.Src.Scan(func(all []byte) error {
			f(all[c.Offset+off : c.Offset+off+n])
			return nil
		})
		if !inMemory {
			if buf == nil {
				buf = make([]byte, n)
			}
			if _, err = c.R.Src.ReadAt(buf[:n], c.Offset+off); err == nil {
				f(buf[:n])
			}
		}
		if err == nil {
			err = step(n)
		}
		if err != nil {
			return c.Failed(err)
		}
		off += n
	}
	return nil
}

// hashPiece is how much is hashed between two looks at the context.
const hashPiece = 1 << 20

func (c *Component) ReadInto(p []byte) error {
	if err := c.Readable(); err != nil {
		return c.Failed(err)
	}
	if c.DecodedSize >= 0 && int64(len(p)) != c.DecodedSize {
		return c.Failed(fmt.Errorf("a buffer of %d bytes for %d: %w", len(p), c.DecodedSize, io.ErrShortBuffer))
	}
	if err := c.checkStrict(); err != nil {
		return err
	}
	switch c.Encoding {
	case encodingRaw:
		if len(p) == 0 {
			return nil
		}
		if _, err := c.R.Src.ReadAt(p, c.Offset); err != nil {
			return c.Failed(err)
		}
	case EncodingZstd:
		if err := c.decodeInto(p); err != nil {
			return err
		}
	}
	if c.Big {
		le.Swap(p, c.Dtype.Align())
	}
	return nil
}

// decodeInto decodes a zstd component into p in one step where the stored bytes
// are in memory or no burden there, else as a stream.
func (c *Component) decodeInto(p []byte) error {
	d, err := c.R.decoder()
	if err != nil {
		return c.Failed(err)
	}
	inMemory, err := c.R.Src.Scan(func(all []byte) error {
		return decodeAll(d, p, all[c.Offset:c.Offset+c.Length])
	})
	if inMemory {
		return c.Failed(err)
	}
	if c.Length <= int64(len(p))+1<<20 {
		stored, err := c.R.Src.Metadata(c.Offset, c.Length)
		if err == nil {
			err = decodeAll(d, p, stored)
		}
		return c.Failed(err)
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

func (c *Component) ReadAt(p []byte, off int64) (int, error) {
	if err := c.Readable(); err != nil {
		return 0, c.Failed(err)
	}
	if off < 0 {
		return 0, fmt.Errorf("ztensor: negative offset %d", off)
	}
	if c.DecodedSize >= 0 {
		if off >= c.DecodedSize {
			if len(p) == 0 {
				return 0, nil
			}
			return 0, io.EOF
		}
		if off == 0 && int64(len(p)) == c.DecodedSize {
			if err := c.ReadInto(p); err != nil {
				return 0, err
			}
			return len(p), nil
		}
	}
	if c.Plain() {
		if err := c.checkStrict(); err != nil {
			return 0, err
		}
		n := min(int64(len(p)), c.DecodedSize-off)
		if _, err := c.R.Src.ReadAt(p[:n], c.Offset+off); err != nil {
			return 0, c.Failed(err)
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
func (c *Component) Open() (io.ReadCloser, error) {
	if err := c.Readable(); err != nil {
		return nil, c.Failed(err)
	}
	var r io.ReadCloser
	switch c.Encoding {
	case EncodingZstd:
		z, err := c.openZstd(true)
		if err != nil {
			return nil, err
		}
		r = z
	default:
		r = io.NopCloser(c.openStored(true))
	}
	if c.Big {
		width := c.Dtype.Align()
		return source.Elements(r, width, func(p []byte) { le.Swap(p, width) }), nil
	}
	return r, nil
}

// openZstd streams the decoded bytes, checking the digest of the stored ones if
// asked to. What is small, or wants a window beyond what its stored bytes make
// plausible, is decoded into memory that grows with it.
func (c *Component) openZstd(check bool) (io.ReadCloser, error) {
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
		return &decoded{c: c, in: c.openStored(check), want: c.DecodedSize, limit: limit, ended: true}, nil
	}
	window, err := zstdWindow(head)
	if err != nil {
		return nil, c.Failed(err)
	}
	in := c.openStored(check)
	if window <= plausibleWindow(c.Length) {
		z, err := c.R.zstdStream(bufio.NewReaderSize(in, int(min(max(c.Length, 16), 256<<10))))
		if err != nil {
			return nil, c.Failed(zstdError(err))
		}
		return &decoded{c: c, in: in, z: z, want: c.DecodedSize, limit: limit}, nil
	}
	if window > MaxWindow {
		return nil, c.Failed(fmt.Errorf("%w: a zstd window of more than %d bytes", tensor.ErrLimit, MaxWindow))
	}
	// The window is large and little is stored: take all of that into memory.
	stored, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	d, err := c.R.decoder()
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

// stored streams the bytes as they lie in the file.
type stored struct {
	c    *Component
	off  int64
	h    hasher
	want *wanted
	err  error // of reading, to be told from that of a decoder
}

// openStored streams the stored bytes. With check, a digest that does not fit is
// the error in place of io.EOF.
func (c *Component) openStored(check bool) *stored {
	s := &stored{c: c}
	if check {
		switch want, ok, err := c.Wanted(); {
		case err == nil && ok:
			s.want, s.h = &want, NewHasher(want.alg)
		case err != nil && !errors.Is(err, errNoAlgorithm):
			s.err = c.FailedDigest(err)
		}
	}
	return s
}

func (s *stored) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	left := s.c.Length - s.off
	if left == 0 {
		s.err = io.EOF
		if s.want != nil {
			if err := s.h.check(*s.want); err != nil {
				s.err = s.c.FailedDigest(err)
			}
		}
		return 0, s.err
	}
	p = p[:min(int64(len(p)), left)]
	if _, err := s.c.R.Src.ReadAt(p, s.c.Offset+s.off); err != nil {
		s.err = s.c.Failed(err)
		return 0, s.err
	}
	s.h.Write(p)
	s.off += int64(len(p))
	return len(p), nil
}

// decoded streams what a zstd component decodes to, and holds its length against
// what is wanted, or against the limit where that is not known.
type decoded struct {
	c     *Component
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
		err = fmt.Errorf("%w: %d bytes decode to more than %d", tensor.ErrLimit, d.c.Length, d.limit)
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
	d.err = d.c.Failed(err)
	return n, d.err
}

func (d *decoded) Close() error {
	if d.z != nil {
		d.c.R.keepStream(d.z)
		d.z = nil
		d.ended = true
	}
	if d.err == nil {
		d.err = errClosedStream
	}
	return nil
}

var errClosedStream = errors.New("ztensor: read after Close")

// Failed gives an error of reading the component its place; nil stays nil.
func (c *Component) Failed(err error) error { return c.Fault("", err) }

func (c *Component) FailedDigest(err error) error { return c.Fault(".digest", err) }

func (c *Component) Fault(field string, err error) error {
	if err == nil {
		return nil
	}
	var fe *tensor.FormatError
	if errors.As(err, &fe) {
		return err
	}
	return &tensor.FormatError{Format: Format, Offset: c.Offset, Field: c.R.Path(c) + field, Err: err}
}
