// Package pte reads, checks, edits and writes ExecuTorch programs: the .pte files that
// PyTorch's exporter makes for phones and microcontrollers, and .bpte bundles of such a
// program with its tests. It needs neither Python nor ExecuTorch.
//
//	r, err := pte.Open("model.pte", nil)
//	if err != nil {
//		return err
//	}
//	defer r.Close()
//	for t := range r.Tensors() {
//		fmt.Println(t.Name, t.DType, t.Shape)
//	}
//
// See the examples of the package, [Builder], [Edit.Externalize], [Edit.Replace] and
// [Reader.Verify].
//
// # The file
//
//	0        uint32 offset of the root table, "ET12"
//	8        extended header "eh00": lengths of what follows; only with segments
//	...      flatbuffer: methods, their values, operators, instructions, memory plans
//	         padding
//	base     segments: constants, initial values, payloads of delegates, named blobs
//
// Files without segments have no extended header. Before ExecuTorch 0.4 constants may be
// inside the flatbuffer. All published generations are read: headers of 24 bytes, 32 and
// more, constants and payloads inside the flatbuffer, and every field of the schema up to
// ExecuTorch 1.5. Content of a newer schema does not prevent reading: its values and
// instructions are shown as of unknown kind.
//
// # Reading
//
// [Open], [OpenBytes] and [NewReader] read the flatbuffer and verify it once. A payload
// is read when the caller reads its Blob. [Reader.Program] is a view of methods, values,
// instructions, delegates and memory plans. [Reader.Tensors] yields constants, state, and
// tensors that are expected in a .ptd. Most constants have no name in the file and are
// named METHOD/VALUE. [Reader.Raw] returns the verified tables themselves.
//
// [Reader.Verify] reports whether ExecuTorch's runtime would load and run the program.
// Open makes all checks that need no payload. It fails if the program cannot be read;
// other findings are in [Reader.Warnings]. The checks are in these files:
//
//	extended header                                  header.go
//	Program, segments, named data                    rules.go
//	ExecutionPlan, operators, delegates, memory      rules_method.go
//	Chain, Instruction                               rules_instruction.go
//	EValue, lists, Tensor and its tables             rules_value.go
//	external tensors, padding                        verify.go
//	BundledProgram                                   bundle.go
//
// # Writing
//
// A [Builder] assembles a program, an [Edit] writes a program with changes, and
// [Bundle.Write] writes a program with test cases.
//
// # Lifetime
//
// Slices from Blob.Bytes and tensor.View are valid until Close; see package tensor.
// Strings and other metadata are copies and stay valid.
//
// # How it was checked
//
// The package was compared with ExecuTorch's own reader, field by field, on programs by
// its exporter (testdata/pte) and by the serializers of seven releases from 0.2 to 1.5
// (interop/pte.sh). The format is described in ExecuTorch's
// docs/source/pte-file-format.md and schema/program.fbs; schema/program.fbs here is ours.
package pte
