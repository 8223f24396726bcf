package fbtest

import "encoding/binary"

// Unsplice undoes fb.Splice: a copy of buf without the n bytes that follow the first 8.
// It is false when the root is before what remains, or buf is too short.
func Unsplice(buf []byte, n int) ([]byte, bool) {
	if len(buf) < 8 || n < 0 || n > len(buf)-8 {
		return nil, false
	}
	root := binary.LittleEndian.Uint32(buf)
	if uint64(root) < 8+uint64(n) {
		return nil, false
	}
	out := make([]byte, len(buf)-n)
	copy(out, buf[:8])
	copy(out[8:], buf[8+n:])
	binary.LittleEndian.PutUint32(out, root-uint32(n))
	return out, true
}
