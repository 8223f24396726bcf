package tensor

import (
	"fmt"
	"math"
)

// Limits bound what a file may ask of its reader. A field of zero means the
// default, which reads every genuine file that we know of; nothing is ever
// allocated because a limit would allow it, only because the file has the bytes.
// One type serves all formats; a field without meaning in a format is ignored.
type Limits struct {
	MaxMetadata int64 // bytes of manifest, flatbuffer or header; default 1 GiB
	MaxTensors  int64 // tensors, blobs and nodes together; default 16,777,216
	MaxName     int64 // bytes of one name; default 1 MiB
	MaxRank     int64 // dimensions of one tensor; default 255
	MaxDecoded  int64 // bytes that one encoded payload may decode to; default 64 GiB
	// MaxDecodedTotal bounds the bytes that one operation, such as one Verify or
	// one Plan.Write, decodes in all; see DecodedTotal for its default.
	MaxDecodedTotal int64
	MaxDepth        int64 // nesting of metadata; default 64
}

// WithDefaults returns l with every zero replaced.
func (l Limits) WithDefaults() Limits {
	def := func(p *int64, v int64) {
		if *p == 0 {
			*p = v
		}
	}
	def(&l.MaxMetadata, 1<<30)
	def(&l.MaxTensors, 1<<24)
	def(&l.MaxName, 1<<20)
	def(&l.MaxRank, 255)
	def(&l.MaxDecoded, 64<<30)
	def(&l.MaxDepth, 64)
	return l
}

// DecodedTotal returns MaxDecodedTotal or its default, the larger of 64 GiB and
// 1,100 times the size of the file: no encoding that is read expands further.
func (l Limits) DecodedTotal(fileSize int64) int64 {
	switch {
	case l.MaxDecodedTotal > 0:
		return l.MaxDecodedTotal
	case fileSize > math.MaxInt64/1100:
		return math.MaxInt64
	}
	return max(64<<30, 1100*fileSize)
}

// Check reports a negative limit, for readers to refuse on entry.
func (l Limits) Check() error {
	for _, f := range []struct {
		name string
		v    int64
	}{
		{"MaxMetadata", l.MaxMetadata}, {"MaxTensors", l.MaxTensors}, {"MaxName", l.MaxName},
		{"MaxRank", l.MaxRank}, {"MaxDecoded", l.MaxDecoded}, {"MaxDepth", l.MaxDepth},
		{"MaxDecodedTotal", l.MaxDecodedTotal},
	} {
		if f.v < 0 {
			return fmt.Errorf("tensor: Limits.%s is negative: %d", f.name, f.v)
		}
	}
	return nil
}
