// Package ptd reads and writes ExecuTorch's .ptd files, format FlatTensor: named tensors
// and blobs next to a program, or without one.
//
//	r, err := ptd.Open("weights.ptd", nil)
//	if err != nil {
//		return err
//	}
//	defer r.Close()
//	for t := range r.Tensors() {
//		fmt.Println(t.Name, t.DType, t.Shape)
//	}
//
// See the examples of [Edit.WriteFile], [Edit], [Merge], [Open], [Save], [Split] and
// [WriteFile].
//
// # The file
//
//	0                 root offset of the FlatBuffer, identifier "FT01"
//	8                 extended header: "FH01", its length 40, flatbuffer_offset,
//	                  flatbuffer_size, segment_base_offset, segment_data_size
//	8+flatbuffer_offset   the rest of the FlatBuffer: its bytes from 8 on
//	segment_base_offset   segments: bytes of entries, each at its offset from here
//
// The header was inserted into a finished FlatBuffer, so that flatbuffer_offset is not
// where one begins: it is the number of bytes that were inserted after byte 8.
//
// An entry has a name, a segment, and, if it is a tensor, a layout: scalar type, sizes,
// dimension order. Entries may share a segment, each with its own layout, or without one.
//
// # Supported files
//
// Reading: everything that ExecuTorch 0.6 to 1.5 writes, in Python and C++. Files of 0.6
// have other tables under the same version 0, see [Reader.Schema]. Writing: the tables of
// 0.7 and later, with the bytes of ExecuTorch's serializer in Python, unless an entry
// asks for more alignment than the segments have: then it is aligned in the file, and not
// only from the first segment on. Dtypes: all that its runtime knows, 0 to 29; complex
// and packed dtypes are written too, although its exporter never emits them. Names are
// valid UTF-8 without NUL.
//
// The rules are checked in the order of the file: identifiers and the extended header in
// header.go; which tables a file has, the root table and segments in parse.go, where
// current and legacy walk through the tables of 0.7 and of 0.6; names and tensors in
// entry.go; layouts, which a Writer checks too, in layout.go; padding, bools and use of
// segments, which Verify reports, in verify.go.
//
// The first release's unreleased predecessors, which have the header at byte 0, are
// refused.
//
// # How it was checked
//
// Against ExecuTorch's Python serializer and C++ runtime in both directions
// (interop/ptd.sh), and its metadata against the C++ FlatBuffers verifier
// (interop/fb.sh).
//
// Package tensor describes the lifetime of borrowed memory.
package ptd
