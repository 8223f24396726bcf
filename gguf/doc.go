// Package gguf reads, writes and edits the files of llama.cpp and ggml.
//
//	r, err := gguf.Open("model.gguf", nil)
//	if err != nil {
//		return err
//	}
//	defer r.Close()
//	for t := range r.Tensors() {
//		fmt.Println(t.Name, t.DType, t.Shape)
//	}
//
// See the examples of [Edit], [Open], [ReadHeader], [Reader.Value] and [WriteFile].
//
//	offset 0    "GGUF", version, number of tensors, number of metadata entries
//	then        metadata: key, type, value
//	then        tensors: name, dimensions (the fastest first), type, offset of data
//	then        padding to general.alignment (32 where it is not given), and the data
//
// Versions 1 to 3 are read, and version 3 in big-endian order too, of which the blocks
// that gguf-convert-endian knows. F32, F16, BF16, F64 and integers are dense tensors.
// Quantised blocks stay as they are: such a tensor has its type's name, such as Q4_K, as
// Scheme and one part of role "blocks", and [tensor.Convert], Values, As and Slice decode
// it to float32. Blocks of types that ggml withdrew, or of forks, are bytes with a number
// and a name. Q2_0 in blocks of 128 elements, of early files, is PQ2_0. Shapes are
// reversed, so that the last dimension varies fastest.
//
// Tensors come in the order of their offsets. Names and keys that are duplicates, data
// that overlaps or is not aligned, and rows that are not a whole number of blocks are
// refused. Metadata arrays appear in Attributes as JSON.
//
// Version 3 is written, little-endian, data in the order of Add and packed. A tensor that
// ggml refuses is refused: names above 63 bytes, more than four dimensions, dtypes
// without a type there. [Edit] keeps the types of metadata; its WriteHeader changes a
// file without copying the data. [WriteShards] and [Merge] have the names and keys of
// gguf-split.
//
// The package was checked against the gguf package of PyPI: its files, blocks of every
// type that it decodes bit for bit, are read, and written to the byte: see
// interop/gguf.sh.
package gguf
