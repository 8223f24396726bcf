package fb

import "encoding/binary"

// ExecuTorch keeps an extended header inside of the FlatBuffer, between its first 8
// bytes (root offset and identifier) and the rest. All offsets but the root's are
// relative and come after, so that only the root's changes.

// Splice returns a copy of a finished FlatBuffer with n zero bytes inserted after the
// first 8. To keep alignment n must be a multiple of the largest alignment in the
// buffer.
func Splice(buf []byte, n int) []byte {
	out := make([]byte, len(buf)+n)
	copy(out, buf[:8])
	copy(out[8+n:], buf[8:])
	binary.LittleEndian.PutUint32(out, binary.LittleEndian.Uint32(out)+uint32(n))
	return out
}

// Unsplice undoes Splice: a copy of buf without the n bytes that follow the first 8. It
// is false when the root is before what remains, or buf is too short.
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
