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
// A Reader reads the versions 0.1, 1.0, 1.1, 1.2 and 2; [Reader.Version] returns the
// version of a file. A Writer writes 2, or 1.0 if [WriterOptions.Version] asks for it;
// package convert converts any version to these two. The versions differ in:
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
// Options that do not fit the version make a Writer fail: see [WriterOptions.Check].
//
// A file of version 1 is
//
//	offset 0       "ZTEN1000", in 0.1 "ZTEN0001"
//	multiple of 64 components: the stored bytes of tensors, with zeros between them
//	               manifest: one CBOR map
//	               its size, 8 bytes little-endian
//	               "ZTEN1000", from 1.1 on
//
// so that it is written in one pass and opened with two or three reads. The manifest of
// 1.0 has "tensors", each with one dtype. From 1.1 on it has "objects", whose components
// each have a dtype. A file with "objects" that does not end with the magic number is
// refused as truncated. The manifest of 0.1 is an array of entries of one component.
//
// A file of version 2 is
//
//	offset 0           a magic number of 8 bytes
//	multiple of 4096   blobs: the stored bytes of parts; parts with the same bytes
//	                   may share a blob
//	multiple of 4096   manifest: one map of deterministic CBOR
//	40 bytes           footer: offset, size and xxh3 of the manifest, version, magic
//
// Each part has a digest of its decoded bytes. In canonical form blobs are at multiples
// of 65536, in the order of the names, and equal bytes are stored once, so that equal
// content makes equal files. WriteFile writes canonical form where the options allow it,
// and [WriterOptions].Canonical asks for it. [Reader.ContentDigest] identifies the
// content however it is stored, [Reader.Identity] the bytes of the file, and
// [Reader.CanonicalViolations] lists deviations from canonical form.
//
// Parts may be compressed in frames (zt.zstd-seekable/1), which are decoded on all cores;
// a ReadAt decodes only the frames that it needs. A Writer makes frames of 1 MiB. Parts
// may be in other files, named shards: [WriteShards] divides a model, and [Writer.Link]
// refers to tensors of an existing file. The shard 00001 of the root model.zt is the file
// model-00001.zt, store/blobs/ALGORITHM/DIGEST or blobs/ALGORITHM/DIGEST in the directory
// of the root, or any file there of its size and digest. ReaderOptions.Companion opens
// shards elsewhere. [Append] adds tensors after the end of a file.
//
// Opening a file that breaks a rule of version 2 fails with a [RuleError], which names
// the rule. No upstream program checks the layouts zt.sparse_coo/1, zt.mx/1,
// zt.quant_group/1 and the layouts of gguf: a file that deviates from them is opened with
// a warning, unless the reader is strict, and never written.
//
// # Reading
//
// A dense tensor has Data. A tensor of another format or layout, such as sparse_csr, has
// its name as Scheme and a Part for each role. A tensor of an unknown dtype, logical type
// or encoding is listed with the file's name for it in tensor.Stored; only decoding it
// fails. [Reader.Warnings] has deviations from the document that do not prevent reading;
// with [ReaderOptions].Strict opening fails instead.
//
// Verify checks digests, and Blob.Open does before io.EOF. A strict reader checks the
// digest before any read.
//
// # How it was checked
//
// It reads the files of the Rust crates and Python packages of every generation, and they
// read its files (interop/ztensor.sh). The crate of version 2 refuses invalid files for
// the same rule (TestVerdictsAreTheSameAsCrate). The CBOR code was fuzzed against
// fxamacker/cbor. attacks_test.go has malicious files.
//
// Slices that Blob.Bytes and tensor.View return are borrowed: see package tensor.
package ztensor
