//go:build !amd64 || purego

package literals

// together decodes most of two blocks of one size in turns, where that is faster than one after the other.
func together(a, b *lanes) {}

// wide is whether codes of bytes are looked up without pairs.
const wide = false

// some encodes most of src, from its end on, where that is faster than one word after the other.
func (e *Encoder) some(out, src []byte) (rest, at int, gathered, left uint64) {
	return len(src), 0, 0, 0
}
