package zipfile

import (
	"archive/zip"
	"compress/flate"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Member is a file of an archive.
type Member struct {
	File   *zip.File
	Header int64 // where its local header begins in the source

	src     *source.Source
	options *Options
	extent  source.Extent // as stored
	strict  *checkOnce    // nil: only streams check the CRC
	deduced *checkOnce    // nil: the local header was read
}

// Extent is the place of the bytes as they are stored.
func (m *Member) Extent() source.Extent { return m.extent }

// Stored reports whether the member is not compressed.
func (m *Member) Stored() bool { return m.File.Method == zip.Store }

// Size is the number of bytes, decoded.
func (m *Member) Size() int64 { return int64(m.File.UncompressedSize64) }

// Blob returns the bytes of the member, decoded, without the first skip, which must not
// be more than it has. descr is for [tensor.Stored].Type. Where the member is not
// compressed the Blob has random access.
func (m *Member) Blob(skip int64, descr string) tensor.Blob {
	p := payload{Member: m, skip: skip, size: m.Size() - skip, descr: descr}
	if m.Stored() {
		return tensor.NewBlob(&storedPayload{p})
	}
	return tensor.NewBlob(&p)
}

// Decode streams the whole member, its CRC unchecked. It uses the decoder in inflate
// again where there is one: a decoder takes 40 KB.
func (m *Member) Decode(inflate *io.ReadCloser) (io.ReadCloser, error) {
	if err := m.CheckHeader(); err != nil {
		return nil, err
	}
	stored := io.NewSectionReader(&m.extent, 0, m.extent.Size())
	switch {
	case m.Stored():
		return io.NopCloser(stored), nil
	case *inflate == nil:
		*inflate = flate.NewReader(stored)
		return *inflate, nil
	}
	return *inflate, (*inflate).(flate.Resetter).Reset(stored, nil)
}

// A payload is the bytes of a member from skip on.
type payload struct {
	tensor.Computed
	*Member
	skip  int64
	size  int64
	descr string
}

// A checkOnce remembers that a CRC was right.
type checkOnce struct {
	mu sync.Mutex
	ok bool
}

// checkStrict checks the CRC of the member the first time, if the Reader is strict.
func (m *payload) checkStrict() error {
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
	_, err = io.Copy(io.Discard, r)
	m.strict.ok = err == nil
	return err
}

func (m *payload) Size() int64             { return m.size }
func (m *payload) ReadInto(p []byte) error { return tensor.ReadFull(m, p) }

func (m *payload) Stored() (tensor.Stored, bool) {
	s := tensor.Stored{
		Offset: m.extent.Offset(), Size: m.extent.Size(), Encoding: "deflate",
		Digest: fmt.Sprintf("crc32:0x%08x", m.File.CRC32), Type: m.descr,
	}
	if m.File.Method == zip.Store {
		s.Offset, s.Size, s.Encoding = s.Offset+m.skip, m.size, "raw"
	}
	return s, true
}

// Open streams the elements. Before io.EOF it checks the CRC of the member, and that
// nothing follows the elements.
func (m *payload) Open() (io.ReadCloser, error) {
	if limit := m.options.Limits.MaxDecoded; m.size > limit {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", tensor.ErrLimit, m.size, limit)
	}
	var inflate io.ReadCloser
	in, err := m.Decode(&inflate)
	if err != nil {
		return nil, err
	}
	c := &checked{r: in, left: m.skip + m.size, want: m.File.CRC32}
	if _, err := io.CopyN(io.Discard, c, m.skip); err != nil {
		in.Close()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return c, nil
}

func (m *payload) ReadAt(p []byte, off int64) (int, error) {
	if err := m.checkStrict(); err != nil {
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

// A storedPayload is not compressed: its elements can be borrowed.
type storedPayload struct{ payload }

func (m *storedPayload) Bytes() ([]byte, bool) {
	b, ok := m.extent.Bytes()
	if !ok || m.CheckHeader() != nil || m.checkStrict() != nil {
		return nil, false
	}
	return b[m.skip : m.skip+m.size : m.skip+m.size], true
}

func (m *storedPayload) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > m.size || int64(len(p)) > m.size-off {
		return 0, io.ErrUnexpectedEOF
	}
	if err := errors.Join(m.CheckHeader(), m.checkStrict()); err != nil {
		return 0, err
	}
	return m.extent.ReadAt(p, m.skip+off)
}

func (m *storedPayload) Seekable() bool { return true }

// ReadInto does not check the CRC, unless the Reader is strict: it costs one copy.
func (m *storedPayload) ReadInto(p []byte) error {
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
		switch n, err := source.ReadPiece(c.r, one[:]); {
		case n > 0:
			return 0, fmt.Errorf("%w: the member is longer than its declared size",
				tensor.ErrMalformed)
		case err == io.ErrUnexpectedEOF:
			return 0, fmt.Errorf("%w: the end of the compressed data is missing", err)
		case err != io.EOF:
			return 0, Classify(err)
		}
		if c.sum != c.want {
			return 0, fmt.Errorf("%w: CRC-32 is 0x%08x, not 0x%08x",
				tensor.ErrChecksum, c.sum, c.want)
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
	return n, Classify(err)
}

func (c *checked) Close() error { return c.r.Close() }

// Classify gives the errors of the decoder their class.
func Classify(err error) error {
	var c flate.CorruptInputError
	if errors.As(err, &c) {
		return fmt.Errorf("%w: %w", tensor.ErrMalformed, err)
	}
	return err
}
