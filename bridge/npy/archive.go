package npy

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"sync"

	"github.com/tensorfile/tensorfile/internal/names"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

func (r *Reader) openArchive() error {
	z, err := zip.NewReader(r.src, r.src.Size())
	if err != nil {
		if errors.Is(err, zip.ErrFormat) && !hasDirectory(r.src) {
			return npzError(r.src.Size(), "end of central directory", io.ErrUnexpectedEOF, "the archive has no end record, which stands last")
		}
		if errors.Is(err, zip.ErrFormat) || errors.Is(err, zip.ErrAlgorithm) || errors.Is(err, zip.ErrChecksum) {
			err = fmt.Errorf("%w: %w", tensor.ErrMalformed, err)
		}
		return &tensor.FormatError{Format: "npz", Offset: -1, Field: "central directory", Err: err}
	}
	if int64(len(z.File)) > r.limits.MaxTensors {
		return npzError(-1, "central directory", tensor.ErrLimit, "%d members, the limit is %d", len(z.File), r.limits.MaxTensors)
	}
	if _, dup := names.Build(len(z.File), func(i int) string { return z.File[i].Name }); dup >= 0 {
		return npzError(-1, member(z.File[dup].Name), tensor.ErrMalformed, "the member stands twice")
	}
	var inflate io.ReadCloser // one for all headers: a decoder takes 40 KB
	for _, f := range z.File {
		if err := r.addMember(f, &inflate); err != nil {
			return err
		}
	}
	r.tensors = r.tensors[:len(r.tensors):len(r.tensors)]
	// x.npy.npy and x.npy are members of two names, but x.npy and x are not.
	if _, dup := names.Build(len(r.tensors), func(i int) string { return r.tensors[i].Name }); dup >= 0 {
		return npzError(-1, member(r.tensors[dup].Name), tensor.ErrMalformed, "the name stands twice")
	}
	return nil
}

// hasDirectory says whether the signature of the end record (APPNOTE 4.3.16) is anywhere where it could be: behind it only a comment of
// 65,535 bytes may stand.
func hasDirectory(src *source.Source) bool {
	tail := make([]byte, min(src.Size(), 22+1<<16-1))
	n, _ := src.ReadAt(tail, src.Size()-int64(len(tail)))
	return bytes.Contains(tail[:n], []byte("PK\x05\x06"))
}

func npzError(off int64, field string, class error, format string, args ...any) error {
	return &tensor.FormatError{Format: "npz", Offset: off, Field: field, Err: fmt.Errorf("%w: "+format, append([]any{class}, args...)...)}
}

func member(name string) string { return "members[" + tensor.Quote(name) + "]" }

func (r *Reader) addMember(f *zip.File, inflate *io.ReadCloser) error {
	field := member(f.Name)
	if int64(len(f.Name)) > r.limits.MaxName {
		return npzError(-1, field, tensor.ErrLimit, "a name of %d bytes, the limit is %d", len(f.Name), r.limits.MaxName)
	}
	const encrypted = 1
	switch {
	case f.Flags&encrypted != 0:
		return npzError(-1, field, errors.ErrUnsupported, "it is encrypted")
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return npzError(-1, field, errors.ErrUnsupported, "compression method %d", f.Method)
	case f.UncompressedSize64 > 1<<62 || f.CompressedSize64 > 1<<62:
		return npzError(-1, field, tensor.ErrMalformed, "%d bytes", f.UncompressedSize64)
	case f.Method == zip.Store && f.UncompressedSize64 != f.CompressedSize64:
		return npzError(-1, field, tensor.ErrMalformed, "stored, yet of two sizes: %d and %d", f.CompressedSize64, f.UncompressedSize64)
	}
	off, err := f.DataOffset()
	if err != nil {
		if errors.Is(err, zip.ErrFormat) {
			err = fmt.Errorf("%w: %w", tensor.ErrMalformed, err)
		}
		return &tensor.FormatError{Format: "npz", Offset: -1, Field: field, Err: err}
	}
	stored, err := r.src.Extent(off, int64(f.CompressedSize64))
	if err != nil {
		return &tensor.FormatError{Format: "npz", Offset: off, Field: field, Err: err}
	}
	m := &packed{f: f, extent: stored, size: int64(f.UncompressedSize64), most: r.limits.MaxDecoded}
	if r.strict {
		m.strict = new(checkOnce)
	}
	if !strings.HasSuffix(f.Name, suffix) {
		if f.FileInfo().IsDir() {
			return nil
		}
		r.blobs = append(r.blobs, blob{f.Name, m.blob()})
		return nil
	}
	start, err := m.start(inflate)
	if err != nil {
		return &tensor.FormatError{Format: "npz", Offset: off, Field: field, Err: err}
	}
	h, err := readHeader(start, m.size, off, r.limits)
	if err != nil {
		var fe *tensor.FormatError
		if errors.As(err, &fe) {
			fe.Format, fe.Field = "npz", field+"."+fe.Field
			if f.Method != zip.Store {
				fe.Offset = off // offsets within a compressed member are no offsets of the file
			}
		}
		return err
	}
	if have := m.size - h.size; have != h.bytes {
		class := tensor.ErrMalformed
		if have < h.bytes {
			class = io.ErrUnexpectedEOF
		}
		return npzError(off, field, class, "%d bytes of elements where %v of %v takes %d", have, h.shape, h.d, h.bytes)
	}
	m.skip, m.size = h.size, h.bytes
	r.add(strings.TrimSuffix(f.Name, suffix), h, m.blob())
	return nil
}

// packed is the elements of a member of an archive.
type packed struct {
	f      *zip.File
	extent source.Extent // as stored
	skip   int64         // bytes of the header before the elements, decoded
	size   int64         // of the elements, decoded
	most   int64
	strict *checkOnce // nil: only streams check the CRC
}

// A checkOnce remembers that a CRC was found right.
type checkOnce struct {
	mu sync.Mutex
	ok bool
}

// CheckView checks the CRC of the member the first time, if the Reader is strict.
func (m *packed) CheckView() error {
	if m.strict == nil {
		return nil
	}
	m.strict.mu.Lock()
	defer m.strict.mu.Unlock()
	if m.strict.ok {
		return nil
	}
	r, err := m.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	m.strict.ok = true
	return nil
}

// blob makes the member a Blob: with random access where it is stored.
func (m *packed) blob() tensor.Blob {
	if m.f.Method == zip.Store {
		return tensor.NewBlob(&storedMember{*m})
	}
	return tensor.NewBlob(m)
}

// start is raw with a decoder that is used again.
func (m *packed) start(inflate *io.ReadCloser) (io.Reader, error) {
	stored := io.NewSectionReader(&m.extent, 0, m.extent.Size())
	switch {
	case m.f.Method == zip.Store:
		return stored, nil
	case *inflate == nil:
		*inflate = flate.NewReader(stored)
		return *inflate, nil
	}
	return *inflate, (*inflate).(flate.Resetter).Reset(stored, nil)
}

// raw streams the whole member, decoded, its CRC unchecked.
func (m *packed) raw() io.ReadCloser {
	stored := io.NewSectionReader(&m.extent, 0, m.extent.Size())
	if m.f.Method == zip.Store {
		return io.NopCloser(stored)
	}
	return flate.NewReader(stored)
}

func (m *packed) Size() int64           { return m.size }
func (m *packed) Bytes() ([]byte, bool) { return nil, false }

func (m *packed) Stored() tensor.Stored {
	encoding := "raw"
	off, size := m.extent.Offset(), m.extent.Size()
	if m.f.Method != zip.Store {
		encoding = "deflate"
	} else {
		off, size = off+m.skip, m.size
	}
	return tensor.Stored{Offset: off, Size: size, Encoding: encoding, Digest: fmt.Sprintf("crc32:0x%08x", m.f.CRC32)}
}

// Open streams the elements; the end of the stream is also where the CRC of the
// member is checked, and that nothing follows.
func (m *packed) Open() (io.ReadCloser, error) {
	if m.size > m.most {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", tensor.ErrLimit, m.size, m.most)
	}
	r := m.raw()
	c := &checked{r: r, left: m.skip + m.size, want: m.f.CRC32}
	if _, err := io.CopyN(io.Discard, c, m.skip); err != nil {
		r.Close()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return c, nil
}

func (m *packed) ReadAt(p []byte, off int64) (int, error) {
	if err := m.CheckView(); err != nil {
		return 0, err
	}
	r, err := m.Open()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	if _, err := io.CopyN(io.Discard, r, off); err != nil {
		return 0, err
	}
	return io.ReadFull(r, p)
}

// storedMember is a member that is not compressed: its elements can be borrowed.
type storedMember struct{ packed }

func (m *storedMember) Bytes() ([]byte, bool) {
	b, ok := m.extent.Bytes()
	if !ok {
		return nil, false
	}
	return b[m.skip : m.skip+m.size : m.skip+m.size], true
}

func (m *storedMember) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > m.size || int64(len(p)) > m.size-off {
		return 0, io.ErrUnexpectedEOF
	}
	if err := m.CheckView(); err != nil {
		return 0, err
	}
	return m.extent.ReadAt(p, m.skip+off)
}

// ReadInto does not check the CRC, unless the Reader is strict: it costs one copy.
func (m *storedMember) ReadInto(p []byte) error {
	_, err := m.ReadAt(p, 0)
	return err
}

// checked is a stream of known length and CRC.
type checked struct {
	r    io.ReadCloser
	left int64
	sum  uint32
	want uint32
}

func (c *checked) Read(p []byte) (int, error) {
	if c.left == 0 {
		var one [1]byte
		switch n, err := io.ReadFull(c.r, one[:]); {
		case n > 0:
			return 0, fmt.Errorf("%w: the member is longer than it says", tensor.ErrMalformed)
		case err != io.EOF:
			return 0, corrupt(err)
		}
		if c.sum != c.want {
			return 0, fmt.Errorf("%w: CRC-32 is 0x%08x, not 0x%08x", tensor.ErrChecksum, c.sum, c.want)
		}
		return 0, io.EOF
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.sum = crc32.Update(c.sum, crc32.IEEETable, p[:n])
	c.left -= int64(n)
	if err == io.EOF {
		if err = nil; c.left > 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, corrupt(err)
}

func (c *checked) Close() error { return c.r.Close() }

// corrupt gives the errors of the decoder their class.
func corrupt(err error) error {
	var c flate.CorruptInputError
	if errors.As(err, &c) {
		return fmt.Errorf("%w: %w", tensor.ErrMalformed, err)
	}
	return err
}
