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

// A Payload is the bytes that a tensor has in one role: the source of a tensor.Blob. It
// is in an arena, so that a Blob costs no allocation.
type Payload struct {
	R           *File
	T           *tensor.Tensor
	Offset      int64  // of the stored bytes in their file
	Length      int64  // of the stored bytes
	DecodedSize int64  // -1 if it is known only after decoding
	Digest      string // as the file spells it; "" if there is none
	Extra       *extra
	Shard       int32 // 1 + its index; 0 is the file itself
	Dtype       tensor.DType
	self        *blobSource // that has it
}

// A blobSource is a Payload as the source of a Blob. It has no exported field that a
// caller could set.
type blobSource struct {
	tensor.Computed
	p Payload
}

func (s *blobSource) Size() int64                   { return s.p.DecodedSize }
func (s *blobSource) Stored() (tensor.Stored, bool) { return s.p.location(), true }
func (s *blobSource) ReadInto(b []byte) error       { return s.p.readInto(b) }
func (s *blobSource) Open() (io.ReadCloser, error)  { return s.p.open() }

// Bytes returns false if a strict reader finds another digest.
func (s *blobSource) Bytes() ([]byte, bool) {
	if s.p.checkView() != nil {
		return nil, false
	}
	return s.p.bytes()
}

func (s *blobSource) ReadAt(b []byte, off int64) (int, error) { return s.p.readAt(b, off) }

// Seekable reports to tensor.Slice whether ReadAt decodes only the bytes it returns.
func (s *blobSource) Seekable() bool { return s.p.codec() == nil || s.p.R.IsVersion2 }

// Blob returns the Blob of a payload.
func (p *Payload) Blob() tensor.Blob { return tensor.NewBlob(p.self) }

// PayloadOf returns the payload that is the source of a Blob.
func PayloadOf(b tensor.Blob) (*Payload, bool) {
	s, ok := b.Source().(*blobSource)
	if !ok {
		return nil, false
	}
	return &s.p, true
}

// extra has the fields that few payloads need.
type extra struct {
	Encoding string       // "" is raw
	Codec    codec        // nil is raw
	Err      error        // why the bytes cannot be decoded
	TypeName string       // the file's name for an unknown dtype
	Storage  tensor.DType // the storage type of TypeName, in version 2
}

// A codec decodes payloads that are encoded or big-endian, and checks their digests.
type codec interface {
	// ReadInto decodes all of p into b, whose length is the decoded size.
	ReadInto(p *Payload, b []byte) error
	// ReadAt decodes len(b) bytes from off, which are within the decoded size if it is
	// known.
	ReadAt(p *Payload, b []byte, off int64) (int, error)
	// Open streams the decoded bytes, and checks the digest before io.EOF.
	Open(p *Payload) (io.ReadCloser, error)
}

// EnsureExtra allocates p.Extra if it is nil, and returns it.
func (p *Payload) EnsureExtra() *extra {
	if p.Extra == nil {
		p.Extra = &p.R.extras.Take(1)[0]
	}
	return p.Extra
}

// codec returns the codec of the payload; nil if its bytes need no decoding.
func (p *Payload) codec() codec {
	if p.Extra == nil {
		return nil
	}
	return p.Extra.Codec
}

// Role returns the role of the payload in its tensor.
func (p *Payload) Role() string {
	for i := range p.T.Parts {
		if p.T.Parts[i].Data.Source() == tensor.Source(p.self) {
			return p.T.Parts[i].Role
		}
	}
	return "data"
}

// Encoded reports whether the payload has an encoding other than raw.
func (p *Payload) Encoded() bool { return p.Extra != nil && p.Extra.Encoding != "" }

// decodeError returns why the bytes cannot be decoded, or nil.
func (p *Payload) decodeError() error {
	if p.Extra == nil {
		return nil
	}
	return p.Extra.Err
}

// Source returns the file that has the bytes, which may be a shard.
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

// location returns where and how the payload is stored.
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

// UseStored calls use with n stored bytes from byte off of the payload. It does not copy
// them if they are in memory. use must not keep them.
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

// ReadError adds the location of the payload to an error of reading it; nil stays nil.
func (p *Payload) ReadError(err error) error { return p.errorAt("", err) }

// digestError adds the location of the digest to an error; nil stays nil.
func (p *Payload) digestError(err error) error { return p.errorAt(".digest", err) }

// errorAt adds a location to an error, unless it has one, and the name of the shard.
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

// A stream reads the bytes of a payload and checks their digest.
type stream struct {
	p    *Payload
	in   io.Reader
	h    hash.Hash
	want digest.Expected
	err  error // of the last Read
}

// OpenStored streams the stored bytes as Checked does.
func (p *Payload) OpenStored() io.ReadCloser {
	src, err := p.Source()
	if err != nil {
		return &stream{err: p.ReadError(err)}
	}
	return p.Checked(io.NewSectionReader(src, p.Offset, p.Length))
}

// Checked streams in, the bytes that the digest covers. If the digest is wrong, the last
// Read fails instead of returning io.EOF.
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

// Close makes further reads fail.
func (s *stream) Close() error {
	s.in, s.err = nil, errClosed
	return nil
}

var errClosed = errors.New("ztensor: read after Close")
