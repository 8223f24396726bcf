// Package onnx reads ONNX models: their tensors, and the graph around them. It does not
// write.
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
//	ModelProto, a message of protobuf, without a header, a length or a checksum
//	├ ir_version, producer, opset_import, metadata_props …
//	├ graph        nodes, inputs, outputs, initializers, sparse initializers
//	├ functions    operators made of nodes
//	└ training_info
//
// The elements of a tensor are in raw_data, in one of six typed fields, or in another
// file below the directory of the model, at an offset. All three give the same bytes.
// Tensors are also attributes of nodes, such as the value of a Constant, and nodes have
// graphs as attributes, which have tensors again: see [Reader.Tensors].
//
// The file is read by a cursor over its fields: payloads stay where they are, so that
// opening costs the metadata. Unknown fields are skipped. Opening refuses files that
// protobuf refuses, dimensions that are negative or beyond 2^63, and files that lack a
// part that every model has. Other damage to a tensor is an error of reading that tensor,
// and a finding of [Reader.Verify], which also checks the graph.
//
// Other files are opened when they are first needed, each once, through
// ReaderOptions.Companion, and closed by Close. A location that leads out of the
// directory is refused, as are names that mean another file on another system. No offset,
// length or number of a file is trusted: nothing is allocated or read because of it.
//
// The package was checked against onnx 1.23.2 and onnxruntime 1.32.0: see
// interop/onnx.sh.
package onnx
