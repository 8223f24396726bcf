// Package ztensor reads and writes zTensor files (.zt): dense, sparse and packed tensors
// with attributes and digests.
//
//	r, err := ztensor.Open("model.zt", nil)
//	if err != nil {
//		return err
//	}
//	defer r.Close()
//	for t := range r.Tensors() {
//		fmt.Println(t.Name, t.DType, t.Shape)
//	}
//
// See the examples of [Append], [Create], [NewWriter], [Open], [Reader.Tensor],
// [Reader.Verify], [WriteShards] and [Writer].
//
// # Versions
//
// A Reader distinguishes the versions by their first and last bytes and reads 0.1, 1.0,
// 1.1, 1.2 and 2; [Reader.Version] returns which. A Writer writes 2, or 1.0 if
// [WriterOptions.Version] asks for it; package convert makes either of the others. What
// each can hold:
//
//	                        0.1      1.0      1.1      1.2      2
//	written                 no       yes      no       no       yes, the default
//	dtypes                  13       13       13       19       21
//	dtype is given for      tensor   tensor   part     part     part
//	sparse tensors          no       yes      yes      yes      yes
//	other layouts           no       yes      yes      yes      yes
//	attributes of a file    no       text     text     any      any, without tags
//	attributes of a tensor  any      no       any      any      any, without tags
//	compression             zstd     zstd     zstd     zstd     zstd in frames
//	digests                 crc32c, sha256 of stored bytes      xxh3 of decoded bytes
//	                        (optional)                          (always; sha256 is read)
//	parts in other files    no       no       no       no       yes
//	canonical form          no       no       no       no       yes
//	Append                  no       new file no       no       at the end
//	NewEdit                 no       yes      no       no       yes
//	Create, WriteShards     no       Create   no       no       both
//	Generator               no       yes      no       no       no
//	Alignment, Canonical    no       no       no       no       yes
//
// Options that do not fit the version are an error: see [WriterOptions.Check].
//
// A file of version 1 is
//
//	offset 0       "ZTEN1000"
//	multiple of 64 components: the stored bytes of tensors, zeros in between
//	               manifest: one CBOR map
//	               its size, 8 bytes little-endian
//	               "ZTEN1000", from 1.1 on
//
// so that it is written in one pass and opened with two or three reads. In 1.0 the
// manifest has "tensors", each with its dtype; from 1.1 on "objects", whose components
// have one each: a file of 1.1 or 1.2 that lost exactly its last eight bytes is refused
// as truncated, although it could be read as one that begins like 1.2 and ends like 1.0,
// which nobody writes. 0.1 has an array of entries, each a single component.
//
// A file of version 2 is
//
//	offset 0           a magic number of 8 bytes
//	multiple of 4096   blobs: the stored bytes of parts; parts with the same bytes
//	                   may share one. In canonical form, multiples of 65536 in the
//	                   order of the names, equal bytes once
//	                   manifest: one map of deterministic CBOR
//	40 bytes           footer: where the manifest is, its xxh3, the version, the magic
//
// whose parts each have a digest of their decoded bytes. In canonical form, which
// WriteFile makes and [WriterOptions].Canonical asks for, equal content makes equal
// files. [Reader.ContentDigest] identifies the content however it is stored,
// [Reader.Identity] the bytes of the file, [Reader.CanonicalViolations] lists the
// deviations from canonical form, and Verify has a depth for each.
//
// Parts may be compressed in frames of 1 MiB (zt.zstd-seekable/1), which are decoded on
// all cores; a ReadAt decodes only the frames that it needs. Parts may be in other files,
// the shards: [WriteShards] divides a model, and [Writer.Link] refers to tensors of an
// existing file. Shards are found next to the file that names them, as NAME-SHARD.zt or
// in a store of content, or by their size and digest, in its directory; with
// ReaderOptions.Companion wherever the caller has them. [Append] adds after the end of a
// file.
//
// A file that breaks a rule of version 2 is refused with a [RuleError] that names it. No
// program of upstream checks the layouts zt.sparse_coo/1, zt.mx/1, zt.quant_group/1 and
// the layouts of gguf: deviations from them are read, with a warning, unless the reader
// is strict, and never written.
//
// # Reading
//
// dense tensors are Data; sparse_csr, sparse_coo and every other format string are Scheme
// and Parts, one a role. Encodings are raw and zstd. A tensor of an unknown dtype,
// logical type or encoding is listed with the file's word in tensor.Stored, and only
// decoding it fails. Deviations from the document that do not prevent reading are in
// [Reader.Warnings]; [ReaderOptions].Strict refuses them.
//
// Digests are of the stored bytes in version 1, of the decoded ones in version 2. They
// are checked by Verify and by Blob.Open before io.EOF, and, strict, whenever bytes are
// read.
//
// # How it was checked
//
// Against the Rust crates and Python packages of every generation, in both directions
// (interop/ztensor.sh), and of version 2 on wrong files too, which the crate must
// refuse for the same rule, or list, read and verify as we do
// (TestVerdictsAreTheSameAsCrate); against fxamacker/cbor and against itself by
// fuzzing; against the attacks of attacks_test.go.
//
// Slices that Blob.Bytes and tensor.View return are borrowed: see package tensor.
package ztensor
