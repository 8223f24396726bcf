package ztensor

import (
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
)

// HasBlocks reports whether version 2 has a layout of that name for the quantised
// blocks of a .gguf file, such as gguf.q4_k/1: one part, data, of uint8, and the
// attributes elems_per_block and block_bytes.
func HasBlocks(scheme string) bool { return layouts.HasBlocks(scheme) }
