package tensor

import (
	"bytes"
	"fmt"
	"io"
	"reflect"

	"github.com/tensorfile/tensorfile/internal/align"
)

// A Source provides the bytes of a Blob; a Blob is a Source itself. All methods may be
// called at the same time from several goroutines. A Source of bytes that are made as
// they are read embeds [Computed].
type Source interface {
	// Size is the number of (decoded) bytes, -1 where it is known only after decoding.
	Size() int64
	// ReadAt fills p from off or fails, as io.ReaderAt asks. Where the bytes must not be
	// borrowed, or cannot be read, it fails for an empty p too.
	ReadAt(p []byte, off int64) (int, error)
	// ReadInto fills p with all bytes; len(p) is Size, or the number of decoded bytes if
	// Size is -1. [ReadFull] does it by ReadAt.
	ReadInto(p []byte) error
	// Open streams the bytes, and checks a digest before io.EOF. [Stream] does it by
	// ReadAt.
	Open() (io.ReadCloser, error)
	// Bytes returns all bytes without a copy, or false. The slice is borrowed.
	Bytes() ([]byte, bool)
	// Memory returns the bytes if they are in ordinary memory: see Blob.Memory.
	Memory() ([]byte, bool)
	// Stored returns where and how the bytes are in the file; false if they are in none.
	Stored() (Stored, bool)
	// Seekable reports whether ReadAt costs only what it reads.
	Seekable() bool
	// Identity is a key for the bytes: see Blob.Identity. nil stands for the Source, if
	// it is a pointer.
	Identity() any
}

// Computed is embedded by a Source whose bytes are made as they are read, each time from
// the start, and so are in no file and no memory.
type Computed struct{}

// Bytes returns false.
func (Computed) Bytes() ([]byte, bool) { return nil, false }

// Memory returns false.
func (Computed) Memory() ([]byte, bool) { return nil, false }

// Stored returns false.
func (Computed) Stored() (Stored, bool) { return Stored{}, false }

// Seekable returns false.
func (Computed) Seekable() bool { return false }

// Identity returns nil.
func (Computed) Identity() any { return nil }

// Stream streams src from the start, by its ReadAt.
func Stream(src Source) io.ReadCloser { return io.NopCloser(&sectionStream{src: src}) }

// ReadFull fills p with the first bytes of src by one ReadAt. It fails with
// io.ErrUnexpectedEOF if src has fewer bytes.
func ReadFull(src Source, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	n, err := src.ReadAt(p, 0)
	if n == len(p) {
		return nil
	}
	return unexpected(err)
}

// Stored describes where and how a blob is stored in its file.
type Stored struct {
	Offset   int64  // from the start of the file; -1 when the bytes are not in it
	Size     int64  // bytes in the file, so after compression
	Encoding string // in the format's own words; "raw" for plain bytes
	Digest   string // in the format's own spelling; "" when there is none
	Type     string // the file's name for the dtype, if DType is Unknown
	// File is the name of the other file that has the bytes, as this file has it; Offset
	// is in that file. "" is the file itself.
	File string
}

// A Blob is an immutable string of bytes that is read on demand: nothing is read before
// it is needed. The zero value is empty. A Blob is small, copied by value, and as safe
// for concurrent use as its source.
type Blob struct {
	src Source
}

// NewBlob makes a blob of what src reads; nil gives the empty blob.
func NewBlob(src Source) Blob { return Blob{src} }

// BlobOf makes a blob of b and keeps b, which must not change afterwards.
func BlobOf(b []byte) Blob {
	if len(b) == 0 {
		return Blob{}
	}
	return Blob{inMemory(b)}
}

// BlobFunc makes a blob of size bytes that open streams from the start, each time anew.
// ReadAt reads and drops the bytes before its offset. Reading fails with
// io.ErrUnexpectedEOF if the stream ends early, and with ErrMalformed if it is longer.
func BlobFunc(size int64, open func() (io.ReadCloser, error)) Blob {
	return Blob{&stream{size: size, open: open}}
}

// Size returns the number of bytes that reading gives, or -1 where it is known only after
// decoding.
func (b Blob) Size() int64 {
	if b.src == nil {
		return 0
	}
	return b.src.Size()
}

// Source returns the source that the blob reads from, for code that recognises its own
// sources; nil for the empty blob.
func (b Blob) Source() Source { return b.src }

// Identity returns a value that is equal, as a map key is, for blobs that are the same
// bytes in memory, the same bytes of a file, or the same source, so that a writer can
// store them once. It is nil for a blob without an identity, such as the zero value.
// Empty blobs are equal only if their sources are. It reads nothing.
func (b Blob) Identity() any {
	type place struct {
		first *byte
		n     int
	}
	if b.src == nil {
		return nil
	}
	if p, ok := b.src.Bytes(); ok && len(p) > 0 {
		return place{&p[0], len(p)}
	}
	if id := b.src.Identity(); id != nil {
		return id
	}
	if reflect.TypeOf(b.src).Kind() == reflect.Pointer {
		return b.src
	}
	return nil
}

// Bytes returns the bytes without a copy, if that is possible: mapped or in memory, and
// not encoded. See the lifetime rules in the package comment. They are not compared with
// a digest unless the Reader is Strict: Bytes then returns false if the digest does not
// match, and reading fails. A caller must handle false.
func (b Blob) Bytes() ([]byte, bool) {
	if b.src == nil {
		return nil, true
	}
	return b.src.Bytes()
}

// Memory returns the bytes where they are in ordinary memory and have no digest:
// the bytes of BlobOf, and of files opened from memory. Unlike Bytes it never returns
// memory of a mapped file, which faults in any goroutine that touches it after the
// file was truncated: writers read from Memory, or from the stream of Open.
func (b Blob) Memory() ([]byte, bool) {
	if b.src == nil {
		return nil, true
	}
	return b.src.Memory()
}

// Seekable reports whether ReadAt costs as much as it reads, and not also the bytes
// before its offset.
func (b Blob) Seekable() bool { return b.src == nil || b.src.Seekable() }

// Stored reports where in its file the blob is. It is false for blobs that come
// from elsewhere.
func (b Blob) Stored() (Stored, bool) {
	if b.src == nil {
		return Stored{}, false
	}
	return b.src.Stored()
}

// ReadInto fills p, whose length must be Size, or the number of decoded bytes if Size is
// unknown. Nothing is allocated for plain bytes.
func (b Blob) ReadInto(p []byte) error {
	size := b.Size()
	if size >= 0 && int64(len(p)) != size {
		return fmt.Errorf("tensor: ReadInto requires a buffer of %d bytes, not %d: %w", size,
			len(p), io.ErrShortBuffer)
	}
	if b.src == nil {
		return nil
	}
	return b.src.ReadInto(p)
}

// ReadAt fills p from off, as io.ReaderAt requires: at the end of the blob it returns the
// bytes that there are, and io.EOF.
func (b Blob) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("tensor: negative offset %d", off)
	}
	size := b.Size()
	if b.src != nil && (size < 0 || int64(len(p)) <= size-off) {
		return b.src.ReadAt(p, off)
	}
	if off >= size {
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	n, err := b.src.ReadAt(p[:size-off], off)
	if err == nil {
		err = io.EOF
	}
	return n, err
}

// ReadAll returns a copy of all bytes, owned by the caller. The memory grows with the
// bytes that are read, never with a declared size.
func (b Blob) ReadAll() ([]byte, error) {
	size := b.Size()
	if size == 0 {
		return []byte{}, b.ReadInto(nil)
	}
	if size > 0 && b.plausible() {
		n, err := toInt(size)
		if err != nil {
			return nil, err
		}
		p := make([]byte, n)
		if err := b.ReadInto(p); err != nil {
			return nil, err
		}
		return p, nil
	}
	r, err := b.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p, err := io.ReadAll(r) // the stream ends at Size, or at the source's limit
	if err != nil {
		return nil, err
	}
	if size >= 0 && int64(len(p)) != size {
		return nil, fmt.Errorf("%w: %d bytes where %d were declared", ErrMalformed, len(p), size)
	}
	return p, nil
}

// readChecked is ReadAll through the stream, which checks a digest.
func (b Blob) readChecked() ([]byte, error) {
	size := b.Size()
	if size <= 0 || !b.plausible() {
		return b.ReadAll() // by the stream, too
	}
	n, err := toInt(size)
	if err != nil {
		return nil, err
	}
	p := make([]byte, n)
	return p, readStream(b, p)
}

// plausible reports whether Size may be allocated at once: it may where it is a
// small multiple of bytes that are really there. A declared size far beyond the
// stored bytes has to prove itself step by step.
func (b Blob) plausible() bool {
	const free, ratio = 16 << 20, 8
	size := b.src.Size()
	if size <= free {
		return true
	}
	if _, ok := b.src.(inMemory); ok {
		return true
	}
	if d, ok := b.src.(*dequantizer); ok {
		return d.blocks.plausible()
	}
	st, ok := b.Stored()
	if !ok {
		_, fromFunc := b.src.(*stream)
		return !fromFunc // a source without more to say stands for plain bytes
	}
	return size/ratio <= st.Size
}

// Open streams the bytes from the start. Where the file has a digest, the stream checks
// it before it returns io.EOF. The caller closes the stream.
func (b Blob) Open() (io.ReadCloser, error) {
	if b.src == nil {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	return b.src.Open()
}

// WriteTo writes all bytes to w, in pieces of 1 MiB where they are not in
// Memory, and checks a digest as the stream of Open does.
func (b Blob) WriteTo(w io.Writer) (int64, error) {
	if p, ok := b.Memory(); ok {
		n, err := w.Write(p)
		if err == nil && n < len(p) {
			err = io.ErrShortWrite
		}
		return int64(n), err
	}
	r, err := b.Open()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	size := b.Size()
	if size < 0 {
		size = 64 << 10
	}
	buf := make([]byte, min(max(size, 1), 1<<20))
	// The wrappers keep io.CopyBuffer from handing the work to ReadFrom or
	// WriteTo, whose pieces may be small.
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, buf)
}

// Section returns the n bytes at off as a blob. Sections of sources that must be decoded
// from the start cost what decoding costs. It fails when they are outside the blob, or
// the size of the blob is unknown.
func (b Blob) Section(off, n int64) (Blob, error) {
	size := b.Size()
	if !align.Within(off, n, size) {
		return Blob{}, fmt.Errorf("%w: %d bytes at %d of a blob of %d", ErrMalformed, n, off, size)
	}
	switch {
	case n == 0:
		return Blob{}, nil
	case n == size:
		return b, nil
	}
	if s, ok := b.src.(*section); ok {
		return Blob{&section{s.src, s.off + off, n}}, nil
	}
	return Blob{&section{b.src, off, n}}, nil
}

// readStream fills p from the blob's stream and requires the stream to end there.
func readStream(b Blob, p []byte) error {
	r, err := b.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.ReadFull(r, p); err != nil {
		return unexpected(err)
	}
	var one [1]byte
	switch n, err := io.ReadFull(r, one[:]); {
	case n > 0:
		return fmt.Errorf("%w: more than the %d bytes asked for", ErrMalformed, len(p))
	case err != io.EOF:
		return err
	}
	return nil
}

func unexpected(err error) error {
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// toInt converts a size for make.
func toInt(n int64) (int, error) {
	if n < 0 || int64(int(n)) != n {
		return 0, fmt.Errorf("%w: %d bytes do not fit this machine's memory", ErrLimit, n)
	}
	return int(n), nil
}
