package inspect

import (
	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/ptn"
	"github.com/tensorfile/tensorfile/tensor"
)

// nativeProgram returns the program that the payload of a delegate of ExecuTorch's native
// runtime is, nil for other delegates and for a payload that is not sound.
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

// BlobTensors returns the blobs of a .pte that are weights of a native delegate, as
// tensors with the dtypes and shapes that the program of the delegate has, by the names
// of the blobs. Packed weights, whose blobs have other sizes, are left out. It is nil
// for other formats.
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
