package core

import (
	"errors"
	"fmt"
	"hash"
	"io"
	"runtime"

	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// A Payload is the bytes that a tensor has in one role: the source of a tensor.Blob.
// Payloads are in slabs and handed out as pointers, so that a Blob costs no allocation.
type Payload struct {
	R           *File
	T           *tensor.Tensor // that it belongs to; nil for a whole file
	Offset      int64          // of the stored bytes in their file
	Length      int64          // of the stored bytes
	DecodedSize int64          // -1 when only decoding tells
	Digest      string         // as the file spells it; "" when there is none
	More        *Rare
	Shard       int32 // 1 + its index; 0 is the file itself
	Dtype       tensor.DType
}

// Rare is what few payloads have.
type Rare struct {
	Encoding string       // "" is raw
	Codec    Codec        // nil is raw
	Err      error        // why the bytes cannot be decoded
	Word     string       // the file's word for a dtype that nobody knows
	Storage  tensor.DType // beneath that
}

// A Codec decodes payloads that are not stored as they are, and checks their digests.
type Codec interface {
	// ReadInto decodes all of p into b, which has the size.
	ReadInto(p *Payload, b []byte) error
	// ReadAt decodes what is at off, within the size if that is known.
	ReadAt(p *Payload, b []byte, off int64) (int, error)
	// Open streams the decoded bytes, and checks the digest before io.EOF.
	Open(p *Payload) (io.ReadCloser, error)
	// Seekable reports whether ReadAt costs what it reads.
	Seekable() bool
}

// RareOf returns where what few payloads have goes. It is no method, since callers of package ztensor
// reach a Payload as the Source of a Blob.
func RareOf(p *Payload) *Rare {
	if p.More == nil {
		p.More = &p.R.rare.Take(1)[0]
	}
	return p.More
}

// Codec returns the codec of the payload; nil where it is stored as it is.
func (p *Payload) Codec() Codec {
	if p.More == nil {
		return nil
	}
	return p.More.Codec
}

// Role returns the role in which the tensor has the payload.
func (p *Payload) Role() string {
	for i := range p.T.Parts {
		if p.T.Parts[i].Data.Source() == tensor.Source(p) {
			return p.T.Parts[i].Role
		}
	}
	return "data"
}

// Encoded reports whether the payload is not stored as it is.
func (p *Payload) Encoded() bool { return p.More != nil && p.More.Encoding != "" }

func (p *Payload) Size() int64 { return p.DecodedSize }

// Readable reports why the bytes cannot be decoded.
func (p *Payload) Readable() error {
	if p.More == nil {
		return nil
	}
	return p.More.Err
}

// Source is the file that has the bytes.
func (p *Payload) Source() (*source.Source, error) {
	if p.Shard == 0 {
		return p.R.Src, nil
	}
	return p.R.Generation.Shard(int(p.Shard - 1))
}

func (p *Payload) Bytes() ([]byte, bool) {
	if p.Codec() != nil || p.Readable() != nil {
		return nil, false
	}
	src, err := p.Source()
	if err != nil {
		return nil, false
	}
	return src.Bytes(p.Offset, p.Length)
}

// Stored says where the payload is.
func (p *Payload) Stored() tensor.Stored {
	s := tensor.Stored{Offset: p.Offset, Size: p.Length, Encoding: "raw", Digest: p.Digest}
	if p.Shard > 0 {
		s.File = p.R.Generation.ShardName(int(p.Shard - 1))
	}
	if p.More != nil {
		s.Type = p.More.Word
		if p.More.Encoding != "" {
			s.Encoding = p.More.Encoding
		}
	}
	return s
}

// Seekable is for tensor.Slice.
func (p *Payload) Seekable() bool {
	c := p.Codec()
	return c == nil || c.Seekable()
}

// CheckView is called by tensor.View. Strict readers check the digest the first
// time that bytes are borrowed.
func (p *Payload) CheckView() error {
	if err := p.Readable(); err != nil {
		return p.Failed(err)
	}
	if _, err := p.Source(); err != nil {
		return p.Failed(err)
	}
	return p.checkStrict()
}

// checkStrict checks the digest once, if the reader is strict.
func (p *Payload) checkStrict() error {
	if !p.R.Strict || p.Digest == "" {
		return nil
	}
	if _, ok := p.R.checked.Load(p); ok {
		return nil
	}
	check := p.Check
	if !p.R.Ruled {
		check = p.CheckStored // digests of version 1 are of the stored bytes
	}
	if err := check(func(int64) error { return nil }, nil); err != nil {
		return err
	}
	p.R.checked.Store(p, nil)
	return nil
}

// Check reads all of the payload, compares it with the digest, and shows the decoded
// bytes to look, if that is not nil, piece by piece. step is told of stored bytes.
func (p *Payload) Check(step func(n int64) error, look func(b []byte) error) error {
	if err := p.Readable(); err != nil {
		return p.Failed(err)
	}
	if p.Codec() == nil {
		return p.CheckStored(step, look)
	}
	err := p.checkDecoded(step, look)
	if err != nil && !p.R.Ruled && !errors.Is(err, tensor.ErrChecksum) {
		sum := p.CheckStored(func(int64) error { return step(0) }, nil)
		if errors.Is(sum, tensor.ErrChecksum) { // which may be why it cannot be decoded
			err = fmt.Errorf("%w; %w", sum, p.Failed(err))
		}
	}
	return p.Failed(err)
}

// checkDecoded reads all that the codec decodes.
func (p *Payload) checkDecoded(step func(n int64) error, look func(b []byte) error) error {
	if _, _, err := p.Wanted(); err != nil && p.R.Ruled {
		return p.FailedDigest(err)
	}
	in, err := p.More.Codec.Open(p)
	if err != nil {
		return err
	}
	defer in.Close()
	size := int64(256 << 10)
	if p.DecodedSize >= 0 {
		size = max(1, min(size, p.DecodedSize))
	}
	buf := make([]byte, size)
	for {
		n, err := source.ReadPiece(in, buf)
		if look != nil && n > 0 {
			if err := look(buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return step(p.Length)
		}
		if err == nil {
			err = step(0)
		}
		if err != nil {
			return err
		}
	}
}

// CheckStored is Check for the bytes as they are stored.
func (p *Payload) CheckStored(step func(n int64) error, look func(b []byte) error) error {
	want, h, err := p.Wanted()
	if err != nil {
		return p.FailedDigest(err)
	}
	err = p.EachPiece(step, func(b []byte) error {
		switch {
		case h != nil:
			h.Write(b)
		case look == nil:
			Touch(b)
		}
		if look != nil {
			return look(b)
		}
		return nil
	})
	if err == nil && h != nil {
		if err := p.Compare(want, h); err != nil {
			return p.FailedDigest(err)
		}
	}
	return p.Failed(err)
}

// Touch looks at every page of b, which is a fault where the file has lost it.
func Touch(b []byte) {
	const page = 4096
	var all byte
	for i := 0; i < len(b); i += page {
		all |= b[i]
	}
	runtime.KeepAlive(all) // so that the loop is not left out
}

// EachPiece shows the stored bytes to look, without a copy where they are in memory, and
// calls step after each piece.
func (p *Payload) EachPiece(step func(n int64) error, look func(b []byte) error) error {
	src, err := p.Source()
	if err != nil {
		return err
	}
	var buf []byte
	for off := int64(0); off < p.Length; {
		n := min(p.Length-off, PieceSize)
		at := p.Offset + off
		inMemory, err := src.Scan(func(all []byte) error { return look(all[at : at+n]) })
		if !inMemory {
			if buf == nil {
				buf = make([]byte, n)
			}
			if _, err = src.ReadAt(buf[:n], at); err == nil {
				err = look(buf[:n])
			}
		}
		if err == nil {
			err = step(n)
		}
		if err != nil {
			return err
		}
		off += n
	}
	return nil
}

// UseStored calls use with n stored bytes from byte off of the payload, in place where
// they are in memory.
func (p *Payload) UseStored(off, n int64, use func(b []byte) error) error {
	src, err := p.Source()
	if err != nil {
		return err
	}
	at := p.Offset + off
	inMemory, err := src.Scan(func(all []byte) error { return use(all[at : at+n : at+n]) })
	if inMemory || err != nil {
		return err
	}
	b, err := src.Metadata(at, n)
	if err != nil {
		return err
	}
	return use(b)
}

func (p *Payload) ReadInto(b []byte) error {
	if err := p.Readable(); err != nil {
		return p.Failed(err)
	}
	if p.DecodedSize >= 0 && int64(len(b)) != p.DecodedSize {
		return p.Failed(fmt.Errorf("a buffer of %d bytes for %d: %w", len(b), p.DecodedSize,
			io.ErrShortBuffer))
	}
	if err := p.checkStrict(); err != nil {
		return err
	}
	if c := p.Codec(); c != nil {
		return p.Failed(c.ReadInto(p, b))
	}
	src, err := p.Source()
	if err == nil && len(b) > 0 {
		_, err = src.ReadAt(b, p.Offset)
	}
	return p.Failed(err)
}

func (p *Payload) ReadAt(b []byte, off int64) (int, error) {
	if err := p.Readable(); err != nil {
		return 0, p.Failed(err)
	}
	size := p.DecodedSize
	switch {
	case off < 0:
		return 0, fmt.Errorf("ztensor: negative offset %d", off)
	case len(b) == 0:
		return 0, nil
	case size >= 0 && off >= size:
		return 0, io.EOF
	case off == 0 && int64(len(b)) == size:
		if err := p.ReadInto(b); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	if err := p.checkStrict(); err != nil {
		return 0, err
	}
	short := size >= 0 && int64(len(b)) > size-off
	if short {
		b = b[:size-off]
	}
	n, err := p.readAt(b, off)
	if err != nil && err != io.EOF {
		return n, p.Failed(err)
	}
	if size >= 0 && n == len(b) {
		err = nil
	}
	if err == nil && short {
		err = io.EOF
	}
	return n, err
}

func (p *Payload) readAt(b []byte, off int64) (int, error) {
	if c := p.Codec(); c != nil {
		return c.ReadAt(p, b, off)
	}
	src, err := p.Source()
	if err != nil {
		return 0, err
	}
	return src.ReadAt(b, p.Offset+off)
}

// Open streams the decoded bytes and checks the digest, if there is one that
// this library knows, before it returns io.EOF.
func (p *Payload) Open() (io.ReadCloser, error) {
	if err := p.Readable(); err != nil {
		return nil, p.Failed(err)
	}
	if c := p.Codec(); c != nil {
		r, err := c.Open(p)
		return r, p.Failed(err)
	}
	if _, err := p.Source(); err != nil {
		return nil, p.Failed(err)
	}
	return p.OpenStored(true), nil
}

// A Stream reads the bytes of a payload.
type Stream struct {
	p    *Payload
	in   io.Reader
	h    hash.Hash
	want Stated
	Err  error // of the last Read, to be told from that of a decoder
}

// OpenStored streams the stored bytes. With check, a digest that does not fit is
// the error in place of io.EOF.
func (p *Payload) OpenStored(check bool) *Stream {
	src, err := p.Source()
	if err != nil {
		return &Stream{Err: p.Failed(err)}
	}
	in := io.NewSectionReader(src, p.Offset, p.Length)
	if !check {
		return &Stream{p: p, in: in}
	}
	return p.Stream(in)
}

// Stream reads in, the bytes that the digest covers, and checks that.
func (p *Payload) Stream(in io.Reader) *Stream {
	s := &Stream{p: p, in: in}
	var err error
	if s.want, s.h, err = p.Wanted(); err != nil && !errors.Is(err, errNoAlgorithm) {
		s.Err = p.FailedDigest(err)
	}
	return s
}

func (s *Stream) Read(b []byte) (int, error) {
	if s.Err != nil {
		return 0, s.Err
	}
	n, err := s.in.Read(b)
	if s.h != nil {
		s.h.Write(b[:n])
	}
	switch {
	case err == io.EOF && s.h != nil:
		if e := s.p.Compare(s.want, s.h); e != nil {
			err = s.p.FailedDigest(e)
		}
	case err != io.EOF:
		err = s.p.Failed(err)
	}
	s.Err = err
	return n, err
}

// Close gives up what is read from.
func (s *Stream) Close() error {
	if s.in = nil; s.Err == nil {
		s.Err = ErrClosedStream
	}
	return nil
}

// ErrClosedStream is the error of reading a stream that was closed.
var ErrClosedStream = errors.New("ztensor: read after Close")

// Failed gives an error of reading the payload its place; nil stays nil.
func (p *Payload) Failed(err error) error { return p.Fault("", err) }

// FailedDigest is Failed for the digest.
func (p *Payload) FailedDigest(err error) error { return p.Fault(".digest", err) }

// Fault gives an error its place, unless it has one.
func (p *Payload) Fault(field string, err error) error {
	if err == nil {
		return nil
	}
	var fe *tensor.FormatError
	if errors.As(err, &fe) {
		return err
	}
	var broken *rule.Error
	if field == "" && errors.As(err, &broken) && broken.Rule == rule.Digest {
		field = ".digest"
	}
	if p.T != nil {
		field = p.R.Path(p) + field
	}
	return &tensor.FormatError{Format: Format, Offset: p.Offset, Field: field, Err: err}
}
