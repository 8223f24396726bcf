package ztensor

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/tensor"
)

// Writers give every dense tensor the same keys in the same order. This file
// reads such an entry in one go: the keys between the values are compared as
// whole runs of bytes. It has no errors. Whatever is not exactly as predicted,
// right or wrong, is left to scan.tensor, which starts the entry over.

// The keys between the values of a dense entry.
const (
	keys10     = "\xa4\x65dtype" // 1.0
	keys11     = "\xa3\x65shape" // from 1.1 on
	keysShape  = "\x65shape"     // 1.0, behind the dtype
	keysFormat = "\x66format\x65dense\x6acomponents\xa1\x64data"
	keysDType  = "\x65dtype"
	keysOffset = "\x66offset"
	keysLength = "\x66length"
	keysCRC    = "\x66digest\x71crc32c:0x"
)

// quick reads the entry at s.p, with its name, and reports whether it did.
func (s *scan) quick() bool {
	const (
		longest = 256 // bytes behind the name: with the longest values of the predicted ones an entry takes fewer
		maxRank = 7   // of at most nine bytes each
	)
	b, p, r, x := s.b, s.p, s.r, s.x
	if len(b)-p < 2+longest || len(x.tensors.last) == cap(x.tensors.last) {
		return false
	}
	name := int(b[p])
	switch p++; {
	case name == cborText<<5|24:
		name = int(b[p])
		p++
	case name>>5 == cborText && name&31 < 24:
		name &= 31
	default:
		return false
	}
	if len(b)-p < name+longest || int64(name) > r.limits.MaxName {
		return false
	}
	named := b[p : p+name]
	p += name

	var dtype tensor.DType
	fields := byte(0xa2) // the head of a component with offset and length
	if s.objects {
		if string(b[p:p+len(keys11)]) != keys11 {
			return false
		}
		p += len(keys11)
		fields++ // and dtype
	} else {
		if string(b[p:p+len(keys10)]) != keys10 {
			return false
		}
		if dtype, p = quickType(b, p+len(keys10), false); dtype == tensor.Unknown {
			return false
		}
		if string(b[p:p+len(keysShape)]) != keysShape {
			return false
		}
		p += len(keysShape)
	}
	rank := int(b[p] - 0x80)
	if rank > maxRank {
		return false
	}
	p++
	var dims [maxRank]int64
	product := uint64(1)
	for i := range rank {
		var d, hi uint64
		d, p = quickUint(b, p)
		hi, product = bits.Mul64(product, d)
		if hi != 0 || d > math.MaxInt64 || p < 0 {
			return false
		}
		dims[i] = int64(d)
	}
	if !hasKeysFormat(b[p:]) {
		return false
	}
	p += len(keysFormat)
	crc := b[p] == fields+1
	if b[p] != fields && !crc {
		return false
	}
	p++
	if s.objects {
		if string(b[p:p+len(keysDType)]) != keysDType {
			return false
		}
		if dtype, p = quickType(b, p+len(keysDType), true); dtype == tensor.Unknown {
			return false
		}
	}
	if string(b[p:p+len(keysOffset)]) != keysOffset {
		return false
	}
	offset, p := quickUint(b, p+len(keysOffset))
	if p < 0 || string(b[p:p+len(keysLength)]) != keysLength {
		return false
	}
	length, p := quickUint(b, p+len(keysLength))
	if p < 0 {
		return false
	}
	var sum uint32
	if crc {
		if string(b[p:p+len(keysCRC)]) != keysCRC {
			return false
		}
		p += len(keysCRC)
		if sum, crc = upperHex(b[p:]); !crc {
			return false
		}
		p += 8
	}
	// Where it lies: as scan.place has it, without the liberties.
	if end := uint64(r.manifestAt); offset < alignment || offset%alignment != 0 || offset > end || length > end-offset {
		return false
	}
	if hi, size := bits.Mul64(product, uint64(dtype.Size())); hi != 0 || size != length || !validUTF8(named) {
		return false
	}

	s.p = p
	t := s.next(named)
	c := &x.components.take(1)[0]
	c.r, c.t, c.offset, c.length, c.size, c.dtype, c.crc, c.hasCRC = r, t, int64(offset), int64(length), int64(length), dtype, sum, crc
	if length > 0 {
		s.lies(c)
	}
	t.DType, t.Data = dtype, tensor.NewBlob(c)
	t.Shape = x.shape(c, dims[:rank])
	return true
}

// hasKeysFormat reports whether b begins with keysFormat, by words.
func hasKeysFormat(b []byte) bool {
	const k = keysFormat
	return string(b[:16]) == k[:16] && string(b[len(k)-16:len(k)]) == k[len(k)-16:]
}

// quickUint reads an unsigned integer in its shortest form, -1 for anything
// else. There are nine bytes to read.
func quickUint(b []byte, p int) (uint64, int) {
	if c := b[p]; c < 24 {
		return uint64(c), p + 1
	}
	v := binary.BigEndian.Uint64(b[p+1:])
	switch b[p] {
	case 24:
		return v >> 56, p + 2
	case 25:
		return v >> 48, p + 3
	case 26:
		return v >> 32, p + 5
	case 27:
		return v, p + 9
	}
	return 0, -1
}

// quickType reads the text of a dtype.
func quickType(b []byte, p int, short bool) (tensor.DType, int) {
	n := int(b[p] - 0x60)
	if n > 8 {
		return tensor.Unknown, p
	}
	p++
	return storageType(le.String(b[p:p+n:p+n]), short), p + n
}
