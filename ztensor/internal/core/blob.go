package core

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// A Blob is the payload of one part in version 2: the source of a tensor.Blob.
type Blob struct {
	R           *File
	T           *tensor.Tensor // that it belongs to; nil for a whole file
	Offset      int64          // of the stored bytes in their file
	Length      int64          // of the stored bytes
	DecodedSize int64          // decoded
	Hash        uint64
	More        *rareFields
	Shard       int32 // 1 + its index; 0 is the file itself
	Dtype       tensor.DType
	HasHash     bool // hash is the digest, an xxh3
	Encoded     bool // more.encoding says how
}

// rare2 is what few blobs have.
type rareFields struct {
	Digest   string // as the file spells it, unless blob.hash stands for it
	Encoding string
	Logical  string       // the file's word for an element type that nobody knows
	Storage  tensor.DType // beneath that
	Err      error        // why the bytes cannot be decoded

	once   sync.Once
	frames *frames
	bad    error // of the frames
}

func (b *Blob) Rare() *rareFields {
	if b.More == nil {
		b.More = new(rareFields)
	}
	return b.More
}

const PrefixXXH3 = "xxh3:"

// SetHash takes a digest that is an xxh3 as the specification spells it.
func (b *Blob) SetHash(text []byte) bool {
	if len(text) != len(PrefixXXH3)+16 || string(text[:len(PrefixXXH3)]) != PrefixXXH3 {
		return false
	}
	var sum [8]byte
	if _, err := hex.Decode(sum[:], text[len(PrefixXXH3):]); err != nil {
		return false
	}
	for _, x := range sum {
		b.Hash = b.Hash<<8 | uint64(x)
	}
	b.HasHash = true
	return true
}

// Digest is the digest as the file spells it; "" when there is none.
func (b *Blob) Digest() string {
	switch {
	case b.HasHash:
		return fmt.Sprintf("%s%016x", PrefixXXH3, b.Hash)
	case b.More != nil:
		return b.More.Digest
	}
	return ""
}

func (b *Blob) Size() int64 { return b.DecodedSize }

func (b *Blob) readable() error {
	if b.More == nil {
		return nil
	}
	return b.More.Err
}

// Source is the file that has the bytes.
func (b *Blob) Source() (*source.Source, error) {
	if b.Shard == 0 {
		return b.R.Src, nil
	}
	return b.R.Generation.Shard(int(b.Shard - 1))
}

func (b *Blob) Bytes() ([]byte, bool) {
	if b.Encoded {
		return nil, false
	}
	src, err := b.Source()
	if err != nil {
		return nil, false
	}
	return src.Bytes(b.Offset, b.Length)
}

// Stored says where the blob lies.
func (b *Blob) Stored() tensor.Stored {
	s := tensor.Stored{Offset: b.Offset, Size: b.Length, Encoding: "raw", Digest: b.Digest()}
	if b.Shard > 0 {
		s.File = b.R.Generation.ShardName(int(b.Shard - 1))
	}
	if b.More != nil {
		s.Type = b.More.Logical
		if b.Encoded {
			s.Encoding = b.More.Encoding
		}
	}
	return s
}

// Seekable is for tensor.Slice: ReadAt decodes only the frames that it needs.
func (b *Blob) Seekable() bool { return true }

// CheckView is called by tensor.View.
func (b *Blob) CheckView() error {
	if err := b.readable(); err != nil {
		return b.Failed(err)
	}
	if _, err := b.Source(); err != nil {
		return b.Failed(err)
	}
	return b.checkStrict()
}

// checkStrict checks the digest once, if the reader is strict.
func (b *Blob) checkStrict() error {
	if !b.R.Strict {
		return nil
	}
	if _, ok := b.R.checked.Load(b); ok {
		return nil
	}
	if err := b.Check(func(int64) error { return nil }, nil); err != nil {
		return err
	}
	b.R.checked.Store(b, nil)
	return nil
}

// Check reads the decoded bytes once, holds them against the digest, and shows
// them to look, if that is not nil, piece by piece. step is told of each piece.
func (b *Blob) Check(step func(n int64) error, look func(p []byte) error) error {
	if err := b.readable(); err != nil {
		return b.Failed(err)
	}
	want, err := b.wanted()
	if err != nil {
		return err
	}
	if want == nil && look == nil && !b.Encoded {
		return step(b.Length)
	}
	piece := func(p []byte) error {
		if want != nil {
			want.Write(p)
		}
		if look != nil {
			return look(p)
		}
		return nil
	}
	if !b.Encoded {
		err = b.pieces(step, piece)
	} else {
		err = b.eachFrame(step, piece)
	}
	if err == nil && want != nil {
		err = want.check()
	}
	return b.Failed(err)
}

// pieces shows the stored bytes to look.
func (b *Blob) pieces(step func(n int64) error, look func(p []byte) error) error {
	src, err := b.Source()
	if err != nil {
		return err
	}
	var buf []byte
	for off := int64(0); off < b.Length; {
		n := min(b.Length-off, hashPiece)
		inMemory, err := src.Scan(func(all []byte) error { return look(all[b.Offset+off : b.Offset+off+n]) })
		if !inMemory {
			if buf == nil {
				buf = make([]byte, n)
			}
			if _, err = src.ReadAt(buf[:n], b.Offset+off); err == nil {
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

// A digest2 is a digest that is being computed, and what it should be.
type statedDigest struct {
	hash.Hash
	want string
	Err  error // in place of a check that cannot be made
}

// newDigest2 prepares the check of a digest that has the form of one.
func NewStatedDigest(text string) *statedDigest {
	algorithm, sum, _ := strings.Cut(text, ":")
	d := &statedDigest{want: sum}
	switch algorithm {
	case "xxh3":
		d.Hash = xxh3.New()
	case "sha256":
		d.Hash = sha256.New()
	default:
		d.Err = fmt.Errorf("%w: %w %s", errors.ErrUnsupported, errNoAlgorithm, quote.Name(algorithm))
	}
	return d
}

func (d *statedDigest) check() error {
	if d.Err != nil {
		return d.Err
	}
	if have := hex.EncodeToString(d.Sum(nil)); have != d.want {
		return rule.Broken(rule.Digest, "it is %s, the file says %s", have, d.want)
	}
	return nil
}

// wanted prepares the check of the blob's digest; nil where it has none.
func (b *Blob) wanted() (*statedDigest, error) {
	text := b.Digest()
	if text == "" {
		return nil, nil
	}
	d := NewStatedDigest(text)
	if d.Err != nil {
		return nil, b.failedDigest(d.Err)
	}
	return d, nil
}

func (b *Blob) ReadInto(p []byte) error {
	if err := b.ready(int64(len(p))); err != nil {
		return b.Failed(err)
	}
	if err := b.checkStrict(); err != nil {
		return err
	}
	if b.Encoded {
		return b.Failed(b.decodeInto(p))
	}
	src, err := b.Source()
	if err == nil && len(p) > 0 {
		_, err = src.ReadAt(p, b.Offset)
	}
	return b.Failed(err)
}

func (b *Blob) ready(n int64) error {
	if err := b.readable(); err != nil {
		return err
	}
	if n != b.DecodedSize {
		return fmt.Errorf("a buffer of %d bytes for %d: %w", n, b.DecodedSize, io.ErrShortBuffer)
	}
	return nil
}

func (b *Blob) ReadAt(p []byte, off int64) (int, error) {
	if err := b.readable(); err != nil {
		return 0, b.Failed(err)
	}
	switch {
	case off < 0:
		return 0, fmt.Errorf("ztensor: negative offset %d", off)
	case len(p) == 0:
		return 0, nil
	case off >= b.DecodedSize:
		return 0, io.EOF
	}
	if err := b.checkStrict(); err != nil {
		return 0, err
	}
	short := int64(len(p)) > b.DecodedSize-off
	if short {
		p = p[:b.DecodedSize-off]
	}
	var err error
	if b.Encoded {
		err = b.decodeAt(p, off)
	} else {
		var src *source.Source
		if src, err = b.Source(); err == nil {
			_, err = src.ReadAt(p, b.Offset+off)
		}
	}
	if err != nil {
		return 0, b.Failed(err)
	}
	if short {
		return len(p), io.EOF
	}
	return len(p), nil
}

// Open streams the decoded bytes and checks the digest, if there is one that
// this library knows, before it answers io.EOF.
func (b *Blob) Open() (io.ReadCloser, error) {
	if err := b.readable(); err != nil {
		return nil, b.Failed(err)
	}
	if _, err := b.Source(); err != nil {
		return nil, b.Failed(err)
	}
	s := &blobStream{b: b}
	if b.Encoded {
		f, err := b.seekTable()
		if err != nil {
			return nil, b.Failed(err)
		}
		s.frames = f
	}
	if text := b.Digest(); text != "" {
		if d := NewStatedDigest(text); d.Err == nil {
			s.digest = d
		}
	}
	return s, nil
}

// A stream2 streams the decoded bytes of a blob.
type blobStream struct {
	b      *Blob
	frames *frames // nil: raw
	next   int     // frame to decode
	room   []byte  // decoded frames
	ready  []byte  // of room, still to be handed out
	off    int64
	digest *statedDigest
	err    error
}

func (s *blobStream) Read(p []byte) (int, error) {
	switch {
	case s.err != nil:
		return 0, s.err
	case len(p) == 0:
		return 0, nil
	case s.off == s.b.DecodedSize:
		s.err = io.EOF
		if s.digest != nil {
			if err := s.digest.check(); err != nil {
				s.err = s.b.failedDigest(err)
			}
		}
		return 0, s.err
	}
	n, err := s.fill(p)
	if err != nil {
		s.err = s.b.Failed(err)
		return 0, s.err
	}
	if s.digest != nil {
		s.digest.Write(p[:n])
	}
	s.off += int64(n)
	return n, nil
}

func (s *blobStream) fill(p []byte) (int, error) {
	if s.frames == nil {
		src, err := s.b.Source()
		if err != nil {
			return 0, err
		}
		n := int(min(int64(len(p)), s.b.DecodedSize-s.off))
		return src.ReadAt(p[:n], s.b.Offset+s.off)
	}
	for len(s.ready) == 0 {
		var err error
		if s.ready, err = s.b.decodeNext(s.frames, &s.next, &s.room); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

func (s *blobStream) Close() error {
	s.room, s.ready = nil, nil
	if s.err == nil {
		s.err = errClosedStream
	}
	return nil
}

// field returns the path of a blob in the manifest, for errors.
func (b *Blob) field() string {
	if b.T == nil {
		return ""
	}
	return PartField(b.T.Name, roleOf(b.T, b))
}

// Failed gives an error of reading the blob its place; nil stays nil.
func (b *Blob) Failed(err error) error { return b.fault("", err) }

func (b *Blob) failedDigest(err error) error { return b.fault(".digest", err) }

func (b *Blob) fault(field string, err error) error {
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
	return &tensor.FormatError{Format: Format, Offset: b.Offset, Field: b.field() + field, Err: err}
}

// IsBools looks for bools that are none.
func IsBools(p []byte) error {
	if i := le.NotBool(p); i >= 0 {
		return rule.Broken(rule.LayoutData, "the bool 0x%02x", p[i])
	}
	return nil
}

// ScanFile shows all bytes of the file to look.
func (r *File) ScanFile(step func(n int64) error, look func(p []byte) error) error {
	whole := Blob{R: r, Length: r.Size(), DecodedSize: r.Size()}
	return whole.pieces(step, look)
}
