// Package ztensor reads and writes zTensor files (.zt): dense, sparse and packed
// tensors with attributes and digests.
//
// # Versions
//
// A Reader tells the versions apart by their first and last bytes and reads 0.1,
// 1.0, 1.1, 1.2 and 2; [Reader.Version] says which. A Writer writes 1.0, the
// version of the format's document, unless [WriterOptions.Version] asks for
// another.
//
// A file of version 1 is
//
//	offset 0       "ZTEN1000"
//	multiple of 64 components: the stored bytes of tensors, zeros in between
//	               manifest: one CBOR map
//	               its size, 8 bytes little-endian
//	               "ZTEN1000", from 1.1 on
//
// so that it is written in one pass and opened with two or three reads. In 1.0
// the manifest has "tensors", each with its dtype; from 1.1 on "objects", whose
// components have one each. 0.1 has an array of entries, each a single component.
//
// # What is read
//
// dense tensors are Data; sparse_csr, sparse_coo and every other format string
// are Scheme and Parts, one a role. Encodings are raw and zstd. A dtype, logical
// type or encoding that this package does not know does not keep the others from
// being read: its tensor is listed with the file's word in tensor.Stored, and
// only decoding it fails. Departures from the document that do not prevent
// reading are in [Reader.Warnings]; [ReaderOptions].Strict refuses them.
//
// Digests are of the stored bytes in version 1, of the decoded ones in version 2.
// They are checked by Verify and by Blob.Open before io.EOF, and, strict, whenever
// bytes are read.
//
// # How it was checked
//
// Against the Rust crates and Python packages of every generation, in both
// directions (interop/ztensor.sh); against fxamacker/cbor and against itself by
// fuzzing; against the list of attacks in hostile_test.go.
//
// Slices that Blob.Bytes and tensor.View return are borrowed: see package tensor.
package ztensor
