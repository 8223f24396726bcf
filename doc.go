// Package tensorfile opens tensor files of all formats of this module, with one API:
// safetensors, GGUF, PyTorch checkpoints, ONNX models, NumPy's .npy and .npz,
// ExecuTorch's .pte, .ptd and .ptn, RTen's .rten, zTensor's .zt and the files of
// primitiv.
//
//	f, err := tensorfile.Open("model.zt", nil)
//	if err != nil {
//		return err
//	}
//	defer f.Close()
//	for t := range f.Tensors() {
//		fmt.Println(t.Name, t.DType, t.Shape, t.Size())
//	}
//
// See the examples of [Create], [File.LoadAll], [File.Lookup], [File.Spans],
// [File.Summary], [File.Sys], [File.Tensor], [Format.Caps], [NewReader], [OpenFS] and
// [Open].
//
// The format is found from the content, never from the name of the file. This package and
// package tensor have everything that the formats share. The package of a format has the
// rest, such as the program of a .pte: [File.Sys] returns its Reader.
//
// # Reading
//
// [Open] maps the file where the system can; [OpenBytes] takes memory, and [NewReader]
// any [io.ReaderAt], such as a reader over https. All metadata is read and checked before
// they return, so that listing cannot fail later; payloads are read only when asked for.
// A File may be used by several goroutines.
//
// Slices that tensor.View and Blob.Bytes return are borrowed from the file and valid
// until Close; package tensor has the rules.
//
// # Untrusted files
//
// A panic, unbounded memory or time, or a byte read outside of the file is a bug to be
// reported as SECURITY.md says. Errors are *tensor.FormatError with the offset and the
// field; package tensor has their classes. [File.Verify] reads everything and reports all
// findings.
package tensorfile
