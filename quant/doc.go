// Package quant reads weights that are stored quantised, each as several tensors: codes,
// and the scales, zero points and maps that make numbers of them.
//
//	for w := range quant.Weights(file, cfg) {
//		values, err := tensor.Convert[float32](w.Tensor)
//		…
//	}
//
// See the examples of [Find], [Weight.Check] and [Weights].
//
// [Find] looks for such weights in the tensors of a file. The dtypes, names and shapes of
// tensors decide whether a weight is quantised. The model's configuration, a [Config],
// only decides properties that tensors do not show, such as the size of a block. A tensor
// that is not part of a quantised weight is a [Weight] as it is, and a weight whose parts
// do not fit together, or whose scheme is not known, has an error in place of values: no
// value is ever read past a scale.
//
// The numbers of a weight are float32: each operation is rounded once, in the order of
// the reference implementations, which docs/quantized.md names. They are computed when
// they are read, on all cores where all are read at once.
//
// A compressed part of a zTensor file is decoded whole when all of a weight is read.
// Digests of parts are checked where the file's Reader is Strict, as by Blob.ReadAt.
package quant
