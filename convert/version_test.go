package convert_test

import (
	"bytes"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A .zt that becomes a .zt keeps its version, unless another is asked for.
func TestZTensorKeepsItsVersion(t *testing.T) {
	for _, from := range []string{"1.0", "1.1", "1.2", "2"} {
		for _, to := range []string{"", "1.0", "1.1", "1.2", "2"} {
			var in, out bytes.Buffer
			w := ztensor.NewWriter(&in, &ztensor.WriterOptions{Version: from})
			if err := w.Add(tensor.New("w", tensor.Shape{2}, []float32{1, 2})); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			f, err := tensorfile.OpenBytes(in.Bytes(), nil)
			if err != nil {
				t.Fatal(err)
			}
			opts := &convert.Options{}
			if to != "" {
				opts.Writer = &ztensor.WriterOptions{Version: to}
			}
			plan, err := convert.NewPlan(t.Context(), f, tensorfile.ZTensor, opts)
			if err == nil {
				err = plan.Write(t.Context(), &out)
			}
			if err != nil {
				t.Fatal(err)
			}
			r, err := ztensor.OpenBytes(out.Bytes(), nil)
			if err != nil {
				t.Fatal(err)
			}
			want := to
			if to == "" {
				want = from
			}
			if r.Version() != want {
				t.Errorf("%s to %q is %s", from, to, r.Version())
			}
		}
	}
}
