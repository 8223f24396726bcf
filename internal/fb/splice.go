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
