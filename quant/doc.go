// Package quant reads weights that are stored quantised, each as several tensors: codes,
// which are small integers or floats, and the scales, zero points and maps that turn
// codes into numbers.
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
// that is not part of a quantised weight is a [Weight] by itself. A weight whose parts do
// not fit together, or whose scheme is not known, has an error in place of values: codes
// are never returned without their scale.
//
// The numbers of a weight are float32. Each operation is rounded once, in the order of
// the reference implementations, which docs/quantized.md names. Numbers are computed when
// they are read, on all cores if a whole weight is read.
//
// Reading a whole weight decodes a compressed part of a zTensor file at once, into
// memory. Digests of parts are checked if the file's Reader is Strict, as by Blob.ReadAt.
package quant
