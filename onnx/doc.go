// Package onnx reads ONNX models: their tensors and their graphs. It does not write.
//
//	r, err := onnx.Open("model.onnx", nil)
//	if err != nil {
//		return err
//	}
//	defer r.Close()
//	for t := range r.Tensors() {
//		fmt.Println(t.Name, t.DType, t.Shape)
//	}
//
// See the examples of [Open], [Reader.Tensor] and [Reader.Verify].
//
//	ModelProto, a protobuf message without header, length or checksum
//	├ ir_version, producer, opset_import, metadata_props …
//	├ graph        nodes, inputs, outputs, initializers, sparse initializers
//	├ functions    operators made of nodes
//	└ training_info
//
// The elements of a tensor are in raw_data, in one of six typed fields such as
// float_data, or in a data file: another file in or below the directory of the model. A
// Reader returns the same bytes for all three. Attributes of nodes may be tensors, such
// as the value of a Constant, or graphs with tensors of their own: see [Reader].
//
// Opening reads the metadata and skips the elements of tensors. Unknown fields are
// skipped. Opening fails if the file is not valid protobuf, lacks a part that every model
// has, or has dimensions that are negative or beyond 2^63. If a tensor is damaged in
// another way, reading it fails, and [Reader.Verify] reports it. Verify also checks the
// graph.
//
// A data file is opened once, when it is first needed, through ReaderOptions.Companion,
// and closed by Close. A location outside the directory is an error, as is a name that
// another system would read differently. Memory is not allocated by a size that the file
// declares, but by bytes that exist.
//
// The package was checked against onnx 1.23.2 and onnxruntime 1.32.0: see
// interop/onnx.sh.
package onnx
