package ztensor

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

// A blob is the payload of one part in version 2: the source of a tensor.Blob.
type blob struct {
	r       *file
	t       *tensor.Tensor // that it belongs to; nil for a whole file
	offset  int64          // of the stored bytes in their file
	length  int64          // of the stored bytes
	size    int64          // decoded
	hash    uint64
	more    *rare2
	shard   int32 // 1 + its index; 0 is the file itself
	dtype   tensor.DType
	hasHash bool // hash is the digest, an xxh3
	encoded bool // more.encoding says how
}

// rare2 is what few blobs have.
type rare2 struct {
	digest   string // as the file spells it, unless blob.hash stands for it
	encoding string
	logical  string       // the file's word for an element type that nobody knows
	storage  tensor.DType // beneath that
	err      error        // why the bytes cannot be decoded

	once   sync.Once
	frames *frames
	bad    error // of the frames
}

func (b *blob) rare() *rare2 {
	if b.more == nil {
		b.more = new(rare2)
	}
	return b.more
}

const prefixXXH3 = "xxh3:"

// setHash takes a digest that is an xxh3 as the specification spells it.
func (b *blob) setHash(text []byte) bool {
	if len(text) != len(prefixXXH3)+16 || string(text[:len(prefixXXH3)]) != prefixXXH3 {
		return false
	}
	var sum [8]byte
	if _, err := hex.Decode(sum[:], text[len(prefixXXH3):]); err != nil {
		return false
	}
	for _, x := range sum {
		b.hash = b.hash<<8 | uint64(x)
	}
	b.hasHash = true
	return true
}

// digest is the digest as the file spells it; "" when there is none.
func (b *blob) digest() string {
	switch {
	case b.hasHash:
		return fmt.Sprintf("%s%016x", prefixXXH3, b.hash)
	case b.more != nil:
		return b.more.digest
	}
	return ""
}

func (b *blob) Size() int64 { return b.size }

func (b *blob) readable() error {
	if b.more == nil {
		return nil
	}
	return b.more.err
}

// source is the file that has the bytes.
func (b *blob) source() (*source.Source, error) {
	if b.shard == 0 {
		return b.r.src, nil
	}
	return b.r.generation.shard(int(b.shard - 1))
}

func (b *blob) Bytes() ([]byte, bool) {
	if b.encoded {
		return nil, false
	}
	src, err := b.source()
	if err != nil {
		return nil, false
	}
	return src.Bytes(b.offset, b.length)
}

// Stored says where the blob lies.
func (b *blob) Stored() tensor.Stored {
	s := tensor.Stored{Offset: b.offset, Size: b.length, Encoding: "raw", Digest: b.digest()}
	if b.shard > 0 {
		s.File = b.r.generation.shardName(int(b.shard - 1))
	}
	if b.more != nil {
		s.Type = b.more.logical
		if b.encoded {
			s.Encoding = b.more.encoding
		}
	}
	return s
}

// Seekable is for tensor.Slice: ReadAt decodes only the frames that it needs.
func (b *blob) Seekable() bool { return true }

// CheckView is called by tensor.View.
func (b *blob) CheckView() error {
	if err := b.readable(); err != nil {
		return b.failed(err)
	}
	if _, err := b.source(); err != nil {
		return b.failed(err)
	}
	return b.checkStrict()
}

// checkStrict checks the digest once, if the reader is strict.
func (b *blob) checkStrict() error {
	if !b.r.strict {
		return nil
	}
	if _, ok := b.r.checked.Load(b); ok {
		return nil
	}
	if err := b.check(func(int64) error { return nil }, nil); err != nil {
		return err
	}
	b.r.checked.Store(b, nil)
	return nil
}

// check reads the decoded bytes once, holds them against the digest, and shows
// them to look, if that is not nil, piece by piece. step is told of each piece.
func (b *blob) check(step func(n int64) error, look func(p []byte) error) error {
	if err := b.readable(); err != nil {
		return b.failed(err)
	}
	want, err := b.wanted()
	if err != nil {
		return err
	}
	if want == nil && look == nil && !b.encoded {
		return step(b.length)
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
	if !b.encoded {
		err = b.pieces(step, piece)
	} else {
		err = b.eachFrame(step, piece)
	}
	if err == nil && want != nil {
		err = want.check()
	}
	return b.failed(err)
}

// pieces shows the stored bytes to look.
func (b *blob) pieces(step func(n int64) error, look func(p []byte) error) error {
	src, err := b.source()
	if err != nil {
		return err
	}
	var buf []byte
	for off := int64(0); off < b.length; {
		n := min(b.length-off, hashPiece)
		inMemory, err := src.Scan(func(all []byte) error { return look(all[b.offset+off : b.offset+off+n]) })
		if !inMemory {
			if buf == nil {
				buf = make([]byte, n)
			}
			if _, err = src.ReadAt(buf[:n], b.offset+off); err == nil {
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
type digest2 struct {
	hash.Hash
	want string
	err  error // in place of a check that cannot be made
}

// newDigest2 prepares the check of a digest that has the form of one.
func newDigest2(text string) *digest2 {
	algorithm, sum, _ := strings.Cut(text, ":")
	d := &digest2{want: sum}
	switch algorithm {
	case "xxh3":
		d.Hash = xxh3.New()
	case "sha256":
		d.Hash = sha256.New()
	default:
		d.err = fmt.Errorf("%w: %w %s", errors.ErrUnsupported, errNoAlgorithm, quote.Name(algorithm))
	}
	return d
}

func (d *digest2) check() error {
	if d.err != nil {
		return d.err
	}
	if have := hex.EncodeToString(d.Sum(nil)); have != d.want {
		return rule.Broken(rule.Digest, "it is %s, the file says %s", have, d.want)
	}
	return nil
}

// wanted prepares the check of the blob's digest; nil where it has none.
func (b *blob) wanted() (*digest2, error) {
	text := b.digest()
	if text == "" {
		return nil, nil
	}
	d := newDigest2(text)
	if d.err != nil {
		return nil, b.failedDigest(d.err)
	}
	return d, nil
}

func (b *blob) ReadInto(p []byte) error {
	if err := b.ready(int64(len(p))); err != nil {
		return b.failed(err)
	}
	if err := b.checkStrict(); err != nil {
		return err
	}
	if b.encoded {
		return b.failed(b.decodeInto(p))
	}
	src, err := b.source()
	if err == nil && len(p) > 0 {
		_, err = src.ReadAt(p, b.offset)
	}
	return b.failed(err)
}

func (b *blob) ready(n int64) error {
	if err := b.readable(); err != nil {
		return err
	}
	if n != b.size {
		return fmt.Errorf("a buffer of %d bytes for %d: %w", n, b.size, io.ErrShortBuffer)
	}
	return nil
}

func (b *blob) ReadAt(p []byte, off int64) (int, error) {
	if err := b.readable(); err != nil {
		return 0, b.failed(err)
	}
	switch {
	case off < 0:
		return 0, fmt.Errorf("ztensor: negative offset %d", off)
	case len(p) == 0:
		return 0, nil
	case off >= b.size:
		return 0, io.EOF
	}
	if err := b.checkStrict(); err != nil {
		return 0, err
	}
	short := int64(len(p)) > b.size-off
	if short {
		p = p[:b.size-off]
	}
	var err error
	if b.encoded {
		err = b.decodeAt(p, off)
	} else {
		var src *source.Source
		if src, err = b.source(); err == nil {
			_, err = src.ReadAt(p, b.offset+off)
		}
	}
	if err != nil {
		return 0, b.failed(err)
	}
	if short {
		return len(p), io.EOF
	}
	return len(p), nil
}

// Open streams the decoded bytes and checks the digest, if there is one that
// this library knows, before it answers io.EOF.
func (b *blob) Open() (io.ReadCloser, error) {
	if err := b.readable(); err != nil {
		return nil, b.failed(err)
	}
	if _, err := b.source(); err != nil {
		return nil, b.failed(err)
	}
	s := &stream2{b: b}
	if b.encoded {
		f, err := b.seekTable()
		if err != nil {
			return nil, b.failed(err)
		}
		s.frames = f
	}
	if text := b.digest(); text != "" {
		if d := newDigest2(text); d.err == nil {
			s.digest = d
		}
	}
	return s, nil
}

// A stream2 streams the decoded bytes of a blob.
type stream2 struct {
	b      *blob
	frames *frames // nil: raw
	next   int     // frame to decode
	room   []byte  // decoded frames
	ready  []byte  // of room, still to be handed out
	off    int64
	digest *digest2
	err    error
}

func (s *stream2) Read(p []byte) (int, error) {
	switch {
	case s.err != nil:
		return 0, s.err
	case len(p) == 0:
		return 0, nil
	case s.off == s.b.size:
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
		s.err = s.b.failed(err)
		return 0, s.err
	}
	if s.digest != nil {
		s.digest.Write(p[:n])
	}
	s.off += int64(n)
	return n, nil
}

func (s *stream2) fill(p []byte) (int, error) {
	if s.frames == nil {
		src, err := s.b.source()
		if err != nil {
			return 0, err
		}
		n := int(min(int64(len(p)), s.b.size-s.off))
		return src.ReadAt(p[:n], s.b.offset+s.off)
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

func (s *stream2) Close() error {
	s.room, s.ready = nil, nil
	if s.err == nil {
		s.err = errClosedStream
	}
	return nil
}

// field returns the path of a blob in the manifest, for errors.
func (b *blob) field() string {
	if b.t == nil {
		return ""
	}
	return partField(b.t.Name, roleOf(b.t, b))
}

// failed gives an error of reading the blob its place; nil stays nil.
func (b *blob) failed(err error) error { return b.fault("", err) }

func (b *blob) failedDigest(err error) error { return b.fault(".digest", err) }

func (b *blob) fault(field string, err error) error {
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
	return &tensor.FormatError{Format: format, Offset: b.offset, Field: b.field() + field, Err: err}
}

// isBools looks for bools that are none.
func isBools(p []byte) error {
	if i := le.NotBool(p); i >= 0 {
		return rule.Broken(rule.LayoutData, "the bool 0x%02x", p[i])
	}
	return nil
}

// scanFile shows all bytes of the file to look.
func (r *file) scanFile(step func(n int64) error, look func(p []byte) error) error {
	whole := blob{r: r, length: r.Size(), size: r.Size()}
	return whole.pieces(step, look)
}
