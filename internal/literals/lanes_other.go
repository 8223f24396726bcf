//go:build !amd64 || purego

package literals

// together decodes most of two blocks of one size in turns, where that is faster than one after the other.
func together(a, b *lanes) {}
