package ztensor

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/tensorfile/tensorfile/tensor"
)

// What every writer of version 2 makes of a dense tensor has the same bytes
// between its values, since the keys are sorted. As in quick.go, an entry that is
// not exactly like this is left to scan2.object.
const (
	keys2Parts  = "\xa3\x65parts\xa1\x64data\xa3\x64blob\x82"
	keys2DType  = "\x65dtype"
	keys2Digest = "\x66digest\x75xxh3:"
	keys2Shape  = "\x65shape"
	keys2Layout = "\x66layout\x65dense"
)

// quick reads the entry at s.p, and reports whether it did.
func (s *scan2) quick(before *[]byte) bool {
	const (
		longest = 192 // bytes behind the name, with the longest values of the predicted ones
		maxRank = 7
	)
	b, p, r := s.b, s.p, s.r
	if len(b)-p < 2+longest {
		return false
	}
	n := int(b[p])
	switch p++; {
	case n == cborText<<5|24 && b[p] >= 24:
		n = int(b[p])
		p++
	case n > cborText<<5 && n < cborText<<5|24:
		n &= 31
	default:
		return false
	}
	if len(b)-p < n+longest || int64(n) > r.limits.MaxName {
		return false
	}
	name := b[p : p+n : p+n]
	p += n
	key := b[s.p:p:p]
	if len(*before) > 0 && bytes.Compare(*before, key) >= 0 || !hasKeys2Parts(b[p:]) {
		return false
	}
	p += len(keys2Parts)
	var off, length uint64
	if off, p = shortestUint(b, p); p < 0 {
		return false
	}
	if length, p = shortestUint(b, p); p < 0 || string(b[p:p+len(keys2DType)]) != keys2DType {
		return false
	}
	dtype, p := quickType(b, p+len(keys2DType), true)
	if dtype == tensor.Unknown || dtype == tensor.Bool || string(b[p:p+len(keys2Digest)]) != keys2Digest {
		return false
	}
	p += len(keys2Digest)
	high, ok1 := lowerHex(b[p:])
	low, ok2 := lowerHex(b[p+8:])
	if p += 16; !ok1 || !ok2 || string(b[p:p+len(keys2Shape)]) != keys2Shape {
		return false
	}
	p += len(keys2Shape)
	rank := int(b[p]) - cborArray<<5
	if p++; rank < 0 || rank > maxRank {
		return false
	}
	var dims [maxRank]int64
	size := uint64(dtype.Size())
	for i := range rank {
		var d, hi uint64
		if d, p = shortestUint(b, p); p < 0 {
			return false
		}
		if hi, size = bits.Mul64(size, d); hi != 0 || d > math.MaxInt64 {
			return false
		}
		dims[i] = int64(d)
	}
	// Beyond these the general scan tells what is wrong.
	end := uint64(r.src.Size() - footer2)
	if string(b[p:p+len(keys2Layout)]) != keys2Layout || size != length || off%floor2 != 0 || off < floor2 || off > end || length > end-off ||
		slices.Contains(name, 0) || !validUTF8(name) {
		return false
	}
	s.p = p + len(keys2Layout)
	*before = key

	t := &r.tensors.take(1)[0]
	x := &r.two.blobs.take(1)[0]
	x.r, x.t, x.offset, x.length, x.size, x.dtype = r, t, int64(off), int64(length), int64(length), dtype
	x.hash, x.hasHash = uint64(high)<<32|uint64(low), true
	s.placed(x)
	t.Name, t.DType, t.Data = r.keep(name), dtype, tensor.NewBlob(x)
	if t.Shape = (tensor.Shape{}); rank > 0 {
		t.Shape = r.dims.take(rank)
		copy(t.Shape, dims[:rank])
	}
	return true
}

// hasKeys2Parts reports whether b begins with keys2Parts, by words.
func hasKeys2Parts(b []byte) bool {
	const k = keys2Parts
	return string(b[:16]) == k[:16] && string(b[len(k)-8:len(k)]) == k[len(k)-8:]
}

// shortestUint reads an unsigned integer that is in its shortest form, -1 for
// anything else. There are nine bytes to read.
func shortestUint(b []byte, p int) (uint64, int) {
	v, next := quickUint(b, p)
	if least := [10]uint64{2: 24, 3: 1 << 8, 5: 1 << 16, 9: 1 << 32}; next < 0 || v < least[next-p] {
		return 0, -1
	}
	return v, next
}

// lowerHex reads eight lower-case hexadecimal digits, all at once.
func lowerHex(b []byte) (uint32, bool) {
	const each = 0x0101010101010101
	x := binary.LittleEndian.Uint64(b)
	letter := x >> 6 & each            // bit 6 tells a to f from 0 to 9
	nibble := x&(0x0f*each) + 9*letter // the value, if it is one
	big := (nibble + 6*each) >> 4 & each
	if nibble&(0xf0*each) != 0 || big != letter || nibble+0x30*each+39*letter != x {
		return 0, false
	}
	x = bits.ReverseBytes64(nibble)
	x = (x | x>>4) & 0x00ff00ff00ff00ff
	x = (x | x>>8) & 0x0000ffff0000ffff
	return uint32(x | x>>16), true
}
