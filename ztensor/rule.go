package ztensor

import (
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// HasBlocks reports whether version 2 has a layout of that name for the quantised
// blocks of a .gguf file, such as gguf.q4_k/1: one part, data, of uint8, and the
// attributes elems_per_block and block_bytes.
func HasBlocks(scheme string) bool { return layouts.HasBlocks(scheme) }

// A RuleError is the refusal of a version 2 file that breaks one of its
// specification's rules: Rule is its name in upstream's conformance corpus, such as
// BlobAlignment, and Err has a class, tensor.ErrMalformed or tensor.ErrChecksum.
// errors.As finds it in the errors of opening, reading and verifying.
type RuleError = rule.Error
