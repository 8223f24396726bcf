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
//	then        padding to general.alignment (32 if it is not given), and the data
//
// A Reader reads versions 1 to 3. It reads big-endian files of version 3 whose tensors
// are dense or of a block type that gguf-convert-endian converts. F32, F16, BF16, F64 and
// integers are dense tensors. A tensor of quantised blocks has the name of its type, such
// as Q4_K, as Scheme and one part of role "blocks"; [tensor.Convert], Values, As and
// Slice decode it to float32. Types that ggml has withdrawn, and types of forks, are read
// as bytes: their Scheme is the number of the type, with its name if that is known. Q2_0
// in blocks of 128 elements, as in early files, is read as PQ2_0. Shapes are reversed, so
// that the last dimension varies fastest.
//
// Tensors come in the order of their offsets. Opening fails if names or keys are
// duplicates, data overlaps or is not aligned, or rows are not a whole number of blocks.
// Attributes has metadata arrays as JSON.
//
// A Writer writes version 3, little-endian, with the data in the order of Add. It refuses
// tensors that ggml refuses: names above 63 bytes, more than four dimensions, dtypes that
// ggml does not have. [Edit] keeps the types of metadata; its WriteHeader changes a file
// without copying the data. [WriteShards] and [Merge] use the names and keys of
// gguf-split.
//
// The package was checked against the gguf package of PyPI: it reads the package's files,
// with blocks of every type bit for bit, and writes the same bytes: see interop/gguf.sh.
package gguf
