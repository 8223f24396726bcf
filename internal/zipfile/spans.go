package zipfile

import (
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// Spans returns what the archive has around the bytes of its members: local headers,
// data descriptors (APPNOTE 4.3.9), the directory and the end record.
func (a *Archive) Spans() []tensor.Span {
	members := a.sorted()
	list := make([]tensor.Span, 0, len(members)+1)
	end := a.start
	for _, m := range members {
		at := m.Header
		if at-end <= maxExtra {
			at = end // extra fields, whose size is not in the directory
		}
		end = m.extent.Offset() + m.extent.Size()
		if m.File.Flags&hasDescriptor != 0 {
			end = min(end+m.descriptor(), a.End)
		}
		list = append(list, format.MetadataSpan(at, end-at))
	}
	return append(list, format.MetadataSpan(a.Data, a.End-a.Data))
}

const maxExtra = 1<<16 - 1

const hasDescriptor = 8

// descriptor is the size of the data descriptor: of the signature that all writers put
// there, the CRC and two sizes, of 8 bytes in a member of 4 GiB or more.
func (m *Member) descriptor() int64 {
	if m.File.CompressedSize64 >= 1<<32-1 || m.File.UncompressedSize64 >= 1<<32-1 {
		return 24
	}
	return 16
}
