package convert

import (
	"maps"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

// Safetensors that are made of a checkpoint name PyTorch as their library, which Hugging
// Face's transformers requires; others name none.
func TestSafetensorsOfACheckpointNamePyTorch(t *testing.T) {
	checkpoint := openFile(t, "../testdata/torch/values.pt")
	plain := tensorfile.FromTensors([]*tensor.Tensor{tensor.New("w", nil, []float32{1})}, nil)
	given := map[string]string{"license": "MIT"}
	for name, c := range map[string]struct {
		src      *tensorfile.File
		metadata map[string]string
		want     string
	}{
		"a checkpoint":                    {checkpoint, nil, "pt"},
		"a checkpoint and other metadata": {checkpoint, given, "pt"},
		"a checkpoint and a format":       {checkpoint, map[string]string{"format": "np"}, "np"},
		"another file":                    {plain, nil, ""},
	} {
		o := &Options{Writer: &safetensors.WriterOptions{Attributes: c.metadata}}
		end, p := run(t, c.src, form{tensorfile.Safetensors, ""}, o)
		if got := maps.Collect(end.Attributes()); got["format"] != c.want || len(p.Losses()) > 0 {
			t.Errorf("%s: %v, %v", name, got, p.Losses())
		}
	}
	if len(given) != 1 {
		t.Errorf("the caller's metadata is %v", given)
	}
}

// The library that safetensors name is no loss, and is kept where there are attributes.
func TestFormatOfSafetensorsIsNoLoss(t *testing.T) {
	x := []*tensor.Tensor{tensor.New("w", tensor.Shape{1, 2}, []float32{1, 2})}
	src := write(t, form{tensorfile.Safetensors, ""}, x, map[string]string{"format": "pt"})
	other := write(t, form{tensorfile.Safetensors, ""}, []*tensor.Tensor{
		tensor.New("v", tensor.Shape{1, 2}, []float32{1, 2})}, map[string]string{"format": "np"})
	for _, to := range forms() {
		o := to.options()
		if to.caps().MaxTensors != 1 {
			o.More = []*tensorfile.File{other}
		}
		o.Allow = LossReorder | LossNames
		end, p := run(t, src, to, o)
		for _, l := range p.Losses() {
			if l.Kind == LossAttributes {
				t.Errorf("%v: %v", to, l)
			}
		}
		if got := maps.Collect(end.Attributes()); to.caps().Attributes && got["format"] != "pt" {
			t.Errorf("%v: %v", to, got)
		}
	}
}
