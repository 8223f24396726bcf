package convert_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A .zt that becomes a .zt keeps its version if that is written, else becomes version 2,
// unless another is asked for. A version that is only read cannot be asked for.
func TestZTensorKeepsItsVersionIfItIsWritten(t *testing.T) {
	for file, version := range map[string]string{"crate-0.1.0-dtypes": "2",
		"crate-1.0.0-dtypes": "1.0", "crate-1.1.1-dtypes": "2", "crate-1.2.3-dtypes": "2",
		"crate-2.1.1-dtypes": "2"} {
		b, err := os.ReadFile("../testdata/ztensor/" + file + ".zt")
		if err != nil {
			t.Fatal(err)
		}
		f, err := tensorfile.OpenBytes(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range []string{"", "0.1", "1.0", "1.1", "1.2", "2"} {
			opts := &convert.Options{Allow: convert.LossAll}
			if to != "" {
				opts.Writer = &ztensor.WriterOptions{Version: to}
			}
			var out bytes.Buffer
			plan, err := convert.NewPlan(t.Context(), f, tensorfile.ZTensor, opts)
			if err == nil {
				err = plan.Write(t.Context(), &out)
			}
			want := to
			switch to {
			case "":
				want = version
			case "0.1", "1.1", "1.2":
				if !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("%s to %s: %v", file, to, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if r, err := ztensor.OpenBytes(out.Bytes(), nil); err != nil || r.Version() != want {
				t.Errorf("%s to %q: %v, %v", file, to, r.Version(), err)
			}
		}
	}
}
