//go:build !amd64 || purego

package literals

// together decodes most of two blocks of one size in turns, where that is faster than one after the other.
func together(a, b *lanes) {}

// someWords encodes the last words of eight bytes of src, where that is faster than one after the other.
func (e *Encoder) someWords(out, src []byte) (rest, at int, gathered, left uint64) {
	return len(src), 0, 0, 0
}
