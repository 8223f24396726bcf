package zipfile

import (
	"archive/zip"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/tensor"
)

const (
	localMagic  = "PK\x03\x04"
	localHeader = 30 // and the name, and extra fields (APPNOTE 4.3.7)
)

// A directory is an archive of which archive/zip reads the directory. For its members
// archive/zip has the offsets, but says only where their data begin.
type directory struct {
	io.ReaderAt
	at *int64 // of the local header that is asked for; nil: the archive is read
}

func (d *directory) ReadAt(p []byte, off int64) (int, error) {
	if d.at == nil {
		return d.ReaderAt.ReadAt(p, off)
	}
	*d.at = off
	return copy(p, localMagic+string(make([]byte, localHeader-len(localMagic)))), nil
}

// header returns the offset of the local header of a member.
func (d *directory) header(f *zip.File) (off int64) {
	d.at = &off
	defer func() { d.at = nil }()
	f.DataOffset() // of the header that ReadAt gives: it cannot fail
	return off
}

// deduce finds the data of a member where PyTorch puts it: at a multiple of 64, after the
// least padding, and up to the descriptor that the next member follows.
func (m *Member) deduce(start, next int64) {
	const align, maxZip64 = 64, 28
	name := int64(len(m.File.Name))
	after := []int64{0}
	if m.File.Flags&hasDescriptor != 0 {
		after = []int64{16, 24} // the sizes in it have 8 bytes beyond 4 GiB
	}
	for _, n := range after {
		data := next - n - int64(m.File.CompressedSize64)
		extra := data - m.Header - localHeader - name
		if !m.Stored() || (data-start)%align != 0 || extra < 4 || extra >= 4+maxZip64+align {
			continue
		}
		if x, err := m.src.Extent(data, int64(m.File.CompressedSize64)); err == nil {
			m.extent, m.deduced = x, new(checkOnce)
			return
		}
	}
}

// locate reads the local header of a member whose data was not found yet.
func (m *Member) locate() error {
	if m.deduced != nil {
		return nil
	}
	data, err := m.data()
	if err != nil {
		return err
	}
	m.extent, err = m.src.Extent(data, int64(m.File.CompressedSize64))
	if err != nil {
		return m.error(data, err)
	}
	return nil
}

// data returns where the data begin by the local header, which must have the name that
// the directory has: NumPy refuses another, and PyTorch does not look at it.
func (m *Member) data() (int64, error) {
	b := make([]byte, localHeader+len(m.File.Name))
	if _, err := m.src.ReadAt(b, m.Header); err != nil {
		return 0, m.error(m.Header, err)
	}
	name, extra := binary.LittleEndian.Uint16(b[26:]), binary.LittleEndian.Uint16(b[28:])
	switch {
	case string(b[:4]) != localMagic:
		return 0, m.error(m.Header, fmt.Errorf("%w: no local header", tensor.ErrMalformed))
	case int(name) != len(m.File.Name) || string(b[localHeader:]) != m.File.Name:
		return 0, m.error(m.Header, fmt.Errorf("%w: its local header has another name",
			tensor.ErrMalformed))
	}
	return m.Header + localHeader + int64(name) + int64(extra), nil
}

func (m *Member) error(off int64, err error) error {
	return &tensor.FormatError{Format: m.options.Format, Offset: off, Field: Field(m.File.Name),
		Err: err}
}

// CheckHeader reads the local header of a member whose data Open deduced, the first time,
// and refuses one by which the data begin elsewhere: other programs would read that.
func (m *Member) CheckHeader() error {
	if m.deduced == nil {
		return nil
	}
	m.deduced.mu.Lock()
	defer m.deduced.mu.Unlock()
	if m.deduced.ok {
		return nil
	}
	data, err := m.data()
	if err == nil && data != m.extent.Offset() {
		err = m.error(m.Header,
			fmt.Errorf("%w: its data begin at %d by the local header, at %d by "+
				"the directory", tensor.ErrMalformed, data, m.extent.Offset()))
	}
	m.deduced.ok = err == nil
	return err
}
