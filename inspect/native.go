package inspect

import (
	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/ptn"
	"github.com/tensorfile/tensorfile/tensor"
)

// nativeProgram returns the program in the payload of a delegate of ExecuTorch's native
// runtime; nil for other delegates and invalid payloads.
func nativeProgram(d pte.Delegate) *ptn.Reader {
	if d.ID != "NativeBackend" {
		return nil
	}
	r, err := ptn.NewReader(d.Payload, d.Payload.Size(), nil)
	if err != nil {
		return nil
	}
	return r
}

// BlobTensors returns the blobs of a .pte that are weights of a native delegate, by the
// names of the blobs, as tensors with the dtypes and shapes of the delegate's program. It
// leaves out packed weights, whose blobs have other sizes. It returns nil for other
// formats.
func BlobTensors(f *tensorfile.File) map[string]*tensor.Tensor {
	r, ok := f.Sys().(*pte.Reader)
	if !ok {
		return nil
	}
	all, weights := map[string]*tensor.Tensor{}, map[string]*tensor.Tensor{}
	for m := range r.Program().Methods() {
		for _, d := range m.Delegates() {
			if p := nativeProgram(d); p != nil {
				for t := range p.Tensors() {
					weights[t.Name] = t
				}
			}
		}
	}
	for n := range r.Program().NamedData() {
		if w := weights[n.Key]; w != nil && w.DType.Known() {
			t := &tensor.Tensor{Name: "named/" + n.Key, DType: w.DType, Shape: w.Shape,
				Data: n.Data}
			if t.Check() == nil {
				all[t.Name] = t
			}
		}
	}
	return all
}
