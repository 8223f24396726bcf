// Package schema holds the FlatBuffers schemas of the ExecuTorch and RTen formats, and
// in its subpackages the Go code generated from them: accessors and builders by flatc,
// tables for the verifier of internal/fb by schema/gen.
//
// The subpackages are the raw level of this module. They are outside of its
// compatibility promise, and their accessors panic on a buffer that nobody verified:
// reach them through the readers of packages ptd, pte, ptn and rten.
//
// interop/tools/flatc.txt names the one flatc that may generate; interop/tools.sh
// installs it.
package schema

//go:generate go run ./gen
