// Package primitiv reads, writes, checks and edits the files of the neural network
// toolkit primitiv, format version 0.1: shapes, tensors, parameters, models and the
// settings of optimizers.
//
//	r, err := primitiv.Open("model.primitiv", nil)
//	if err != nil {
//		return err
//	}
//	defer r.Close()
//	for t := range r.Tensors() {
//		fmt.Println(t.Name, t.DType, t.Shape)
//	}
//
// See the examples of [Edit], [Open], [Optimizer.Set] and [WriteFile].
//
// A file is a concatenation of MessagePack items, without an index, a length or a
// checksum:
//
//	u32 0   u32 1   u32 data_type    15 bytes, the same in every file but for the kind
//	Shape      array of rank × u32, then u32 batch
//	Tensor     Shape, then bin of float32, little-endian, column-major
//	Parameter  Tensor value, then u32 N, then N × (str name, Tensor statistic)
//	Model      u32 N, then N × (array of str path, Parameter)
//	Optimizer  map of str → u32, then map of str → float32
//
// A parameter is known by its path, the names from the root of the model down, which
// [Parameter] has exactly; tensors have it joined with dots as their name, and a
// statistic of an optimizer is the tensor PATH:STATISTIC. Shapes are without trailing
// ones; a batch above one is one more dimension, the last. All tensors are column-major,
// as their Order says: [tensor.Reordered] makes a row-major copy.
//
// # Accepted files
//
// A [Reader] accepts the files that the reference implementation loads: integers have
// exactly four bytes; headers of strings, arrays, maps and data have any legal width. It
// also refuses three kinds of damage that the reference accepts: element counts beyond 32
// bits, duplicate names, and bytes after the end.
//
// The rules are checked in the order of the specification: type codes in items.go, then
// in parse.go the version and kind (head), Shape (readShape), Tensor (readTensor),
// Parameter (parameter, statistics), Model (model, path, comparePaths) and Optimizer
// (optimizer); limits of memory in entries.go. MessagePack is read and written by
// github.com/vmihailenco/msgpack/v5, item by item: no length of a file reaches it before
// it was compared with the bytes that follow.
//
// Since there is no index, opening walks from header to header. Over a mapping this
// touches no byte of a payload; over an [io.ReaderAt] it costs one read of 4 KiB a
// tensor, fewer where tensors are small.
//
// A [Writer] writes the same bytes as the reference for the same content. Optimizers are
// inferred from their settings, since the format does not name them; their tensors are
// statistics in the file of the model.
//
// The package was checked against primitiv 0.3: files of every kind in both directions,
// and the verdict on every MessagePack type code in every place; see interop/primitiv.sh.
// Package tensor describes the lifetime of borrowed memory.
package primitiv
