package core

import (
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/digest"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// A Payload is the bytes that a tensor has in one role: the source of a tensor.Blob.
// Payloads are in slabs and handed out as pointers, so that a Blob costs no allocation.
type Payload struct {
	R           *File
	T           *tensor.Tensor // that it belongs to
	Offset      int64          // of the stored bytes in their file
	Length      int64          // of the stored bytes
	DecodedSize int64          // -1 where it is known only after decoding
	Digest      string         // as the file spells it; "" when there is none
	Extra       *extra
	Shard       int32 // 1 + its index; 0 is the file itself
	Dtype       tensor.DType
	self        *blobSource // that has it
}

// A blobSource payload is the source of a Blob, which has no field that a caller could set.
type blobSource struct {
	tensor.Computed
	p Payload
}

func (s *blobSource) Size() int64                   { return s.p.DecodedSize }
func (s *blobSource) Stored() (tensor.Stored, bool) { return s.p.location(), true }
func (s *blobSource) ReadInto(b []byte) error       { return s.p.readInto(b) }
func (s *blobSource) Open() (io.ReadCloser, error)  { return s.p.open() }

// Bytes is false where a strict reader finds another digest.
func (s *blobSource) Bytes() ([]byte, bool) {
	if s.p.checkView() != nil {
		return nil, false
	}
	return s.p.bytes()
}

func (s *blobSource) ReadAt(b []byte, off int64) (int, error) { return s.p.readAt(b, off) }

// Seekable is for tensor.Slice: a codec of version 2 does not decode what comes before.
func (s *blobSource) Seekable() bool { return s.p.codec() == nil || s.p.R.IsVersion2 }

// Blob returns the bytes of a payload.
func (p *Payload) Blob() tensor.Blob { return tensor.NewBlob(p.self) }

// PayloadOf returns the payload that is the source of a Blob.
func PayloadOf(b tensor.Blob) (*Payload, bool) {
	s, ok := b.Source().(*blobSource)
	if !ok {
		return nil, false
	}
	return &s.p, true
}

// extra is what few payloads have.
type extra struct {
	Encoding string       // "" is raw
	Codec    codec        // nil is raw
	Err      error        // why the bytes cannot be decoded
	TypeName string       // the file's word for an unknown dtype
	Storage  tensor.DType // beneath that
}

// A codec decodes payloads that are not stored as they are, and checks their digests.
type codec interface {
	// ReadInto decodes all of p into b, which has the size.
	ReadInto(p *Payload, b []byte) error
	// ReadAt decodes what is at off, within the size if that is known.
	ReadAt(p *Payload, b []byte, off int64) (int, error)
	// Open streams the decoded bytes, and checks the digest before io.EOF.
	Open(p *Payload) (io.ReadCloser, error)
}

// EnsureExtra returns where what few payloads have goes.
func (p *Payload) EnsureExtra() *extra {
	if p.Extra == nil {
		p.Extra = &p.R.extras.Take(1)[0]
	}
	return p.Extra
}

// codec returns the codec of the payload; nil where it is stored as it is.
func (p *Payload) codec() codec {
	if p.Extra == nil {
		return nil
	}
	return p.Extra.Codec
}

// Role returns the role in which the tensor has the payload.
func (p *Payload) Role() string {
	for i := range p.T.Parts {
		if p.T.Parts[i].Data.Source() == tensor.Source(p.self) {
			return p.T.Parts[i].Role
		}
	}
	return "data"
}

// Encoded reports whether the payload is not stored as it is.
func (p *Payload) Encoded() bool { return p.Extra != nil && p.Extra.Encoding != "" }

// decodeError reports why the bytes cannot be decoded.
func (p *Payload) decodeError() error {
	if p.Extra == nil {
		return nil
	}
	return p.Extra.Err
}

// Source is the file that has the bytes.
func (p *Payload) Source() (*source.Source, error) {
	if p.Shard == 0 {
		return p.R.Source, nil
	}
	src, _, err := p.R.Generation.Shard(int(p.Shard - 1))
	return src, err
}

func (p *Payload) bytes() ([]byte, bool) {
	if p.codec() != nil || p.decodeError() != nil {
		return nil, false
	}
	src, err := p.Source()
	if err != nil {
		return nil, false
	}
	return src.Bytes(p.Offset, p.Length)
}

// location says where the payload is.
func (p *Payload) location() tensor.Stored {
	s := tensor.Stored{Offset: p.Offset, Size: p.Length, Encoding: "raw", Digest: p.Digest}
	if p.Shard > 0 {
		s.File = p.R.Shards[p.Shard-1].Name
	}
	if p.Extra != nil {
		s.Type = p.Extra.TypeName
		if p.Extra.Encoding != "" {
			s.Encoding = p.Extra.Encoding
		}
	}
	return s
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

func (p *Payload) readInto(b []byte) error {
	if err := p.decodeError(); err != nil {
		return p.ReadError(err)
	}
	if p.DecodedSize >= 0 && int64(len(b)) != p.DecodedSize {
		return p.ReadError(fmt.Errorf("a buffer of %d bytes for %d: %w", len(b), p.DecodedSize,
			io.ErrShortBuffer))
	}
	if err := p.checkStrict(); err != nil {
		return err
	}
	if c := p.codec(); c != nil {
		return p.ReadError(c.ReadInto(p, b))
	}
	src, err := p.Source()
	if err == nil && len(b) > 0 {
		_, err = src.ReadAt(b, p.Offset)
	}
	return p.ReadError(err)
}

func (p *Payload) readAt(b []byte, off int64) (n int, err error) {
	if off == 0 && int64(len(b)) == p.DecodedSize {
		if err = p.readInto(b); err == nil {
			n = len(b)
		}
		return n, err
	}
	if err = p.checkView(); err != nil || len(b) == 0 {
		return 0, err
	}
	if p.DecodedSize >= 0 && !align.Within(off, int64(len(b)), p.DecodedSize) {
		return 0, p.ReadError(fmt.Errorf("%d bytes at %d of %d: %w", len(b), off, p.DecodedSize,
			io.ErrUnexpectedEOF))
	}
	if c := p.codec(); c != nil {
		n, err = c.ReadAt(p, b, off)
	} else if src, e := p.Source(); e != nil {
		err = e
	} else {
		n, err = src.ReadAt(b, p.Offset+off)
	}
	if n == len(b) && err == io.EOF {
		err = nil
	} else if err != io.EOF {
		err = p.ReadError(err)
	}
	return n, err
}

// open streams the decoded bytes and checks the digest, if there is one that
// this library knows, before it returns io.EOF.
func (p *Payload) open() (io.ReadCloser, error) {
	if err := p.decodeError(); err != nil {
		return nil, p.ReadError(err)
	}
	if c := p.codec(); c != nil {
		r, err := c.Open(p)
		return r, p.ReadError(err)
	}
	if _, err := p.Source(); err != nil {
		return nil, p.ReadError(err)
	}
	return p.OpenStored(), nil
}

// ReadError gives an error of reading the payload its place; nil stays nil.
func (p *Payload) ReadError(err error) error { return p.errorAt("", err) }

// digestError is Failed for the digest.
func (p *Payload) digestError(err error) error { return p.errorAt(".digest", err) }

// errorAt gives an error its place, unless it has one.
func (p *Payload) errorAt(field string, err error) error {
	if err == nil {
		return nil
	}
	var broken *rule.Error
	if field == "" && errors.As(err, &broken) && broken.Rule == rule.Digest {
		field = ".digest"
	}
	if p.Shard > 0 {
		err = p.R.ExplainUnfinished(err)
	}
	err = p.R.Locate(p.Offset, p.R.PathOf(p)+field, err)
	if fe, ok := err.(*tensor.FormatError); ok && p.Shard > 0 && fe.File == "" {
		if _, name, _ := p.R.Generation.Shard(int(p.Shard - 1)); name != "" {
			err = Errs.InFile(name, err)
		}
	}
	return err
}

// A stream reads the bytes of a payload.
type stream struct {
	p    *Payload
	in   io.Reader
	h    hash.Hash
	want digest.Expected
	err  error // of the last Read
}

// OpenStored streams the stored bytes. A digest that does not fit is the error in place
// of io.EOF.
func (p *Payload) OpenStored() io.ReadCloser {
	src, err := p.Source()
	if err != nil {
		return &stream{err: p.ReadError(err)}
	}
	return p.Checked(io.NewSectionReader(src, p.Offset, p.Length))
}

// Checked reads in, the bytes that the digest covers, and checks that.
func (p *Payload) Checked(in io.Reader) io.ReadCloser {
	s := &stream{p: p, in: in}
	var err error
	if s.want, s.h, err = p.expected(); err != nil && !errors.Is(err, digest.ErrUnknown) {
		s.err = p.digestError(err)
	}
	return s
}

func (s *stream) Read(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.in.Read(b)
	if s.h != nil {
		s.h.Write(b[:n])
	}
	switch {
	case err == io.EOF && s.h != nil:
		if e := s.want.Compare(s.h); e != nil {
			err = s.p.digestError(e)
		}
	case err != io.EOF:
		err = s.p.ReadError(err)
	}
	s.err = err
	return n, err
}

// Close releases what is read from.
func (s *stream) Close() error {
	s.in, s.err = nil, errClosed
	return nil
}

var errClosed = errors.New("ztensor: read after Close")
