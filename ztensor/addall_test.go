package ztensor

import (
	"bytes"
	"io"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// A panic of the sequence, or of the data of a tensor in a worker, is the caller's, and
// the file cannot be completed without the tensors whose names it has.
func TestAddAllPanics(t *testing.T) {
	for _, o := range []WriterOptions{{Version: "1.0", Level: 1}, {Version: "1.0", Digest: CRC32C},
		{Version: "1.0"}, {Version: "2"}, {Version: "2", Level: 1}} {
		for what, ts := range map[string]func(yield func(*tensor.Tensor, error) bool){
			"the sequence": func(yield func(*tensor.Tensor, error) bool) {
				if yield(tensor.New("a", tensor.Shape{2}, []byte{1, 2}), nil) {
					panic("boom")
				}
			},
			"the data": func(yield func(*tensor.Tensor, error) bool) {
				yield(&tensor.Tensor{Name: "a", DType: tensor.U8, Shape: tensor.Shape{2},
					Data: tensor.BlobFunc(2, func() (io.ReadCloser, error) { panic("boom") })},
					nil)
			},
		} {
			var out bytes.Buffer
			w := NewWriter(&out, &o)
			func() {
				defer func() {
					if p := recover(); p != "boom" {
						t.Errorf("%+v, %s: recovered %v", o, what, p)
					}
				}()
				err := w.AddAll(t.Context(), ts)
				t.Errorf("%+v, %s: no panic, %v", o, what, err)
			}()
			if err := w.Close(); err == nil {
				t.Errorf("%+v, %s: the file was completed", o, what)
			}
		}
	}
}
