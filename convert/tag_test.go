package convert

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// tagged is 32("x"), a text with a CBOR tag.
type tagged struct{}

func (tagged) MarshalCBOR() ([]byte, error) { return []byte{0xd8, 32, 0x61, 'x'}, nil }

// An attribute with a CBOR tag, at the top or within, of the file or of a tensor, keeps
// the tag or is a named loss.
func TestTagsAreKeptOrNamed(t *testing.T) {
	values := map[string]any{"top": tagged{}, "within": []any{1, tagged{}}}
	x := tensor.New("w", tensor.Shape{1}, []float32{1})
	source := func() *tensorfile.File {
		var b bytes.Buffer
		w := ztensor.NewWriter(&b, &ztensor.WriterOptions{Version: "1.2", Attributes: values})
		if err := errors.Join(w.TensorAttributes("w", values), w.Add(x), w.Close()); err != nil {
			t.Fatal(err)
		}
		return open(t, b.Bytes())
	}
	for _, c := range []struct {
		to   form
		lost []string
	}{
		{form{tensorfile.ZTensor, "1.2"}, nil},
		{form{tensorfile.ZTensor, "2"}, []string{`attributes["top"]`, `attributes["within"]`,
			`tensors["w"].attributes["top"]`, `tensors["w"].attributes["within"]`}},
		{form{tensorfile.ZTensor, "1.0"}, []string{`attributes["top"]`, `attributes["within"]`,
			`tensors["w"].attributes["top"]`, `tensors["w"].attributes["within"]`}},
		{form{tensorfile.Safetensors, ""}, []string{`attributes["top"]`, `attributes["within"]`,
			`tensors["w"].attributes["top"]`, `tensors["w"].attributes["within"]`}},
	} {
		o := c.to.options()
		o.Allow = LossAll
		end, p := run(t, source(), c.to, o)
		var lost []string
		for _, l := range p.Losses() {
			lost = append(lost, l.Field)
		}
		slices.Sort(lost)
		if !slices.Equal(lost, c.lost) {
			t.Errorf("%v: %q is lost, want %q", c.to, lost, c.lost)
		}
		if len(c.lost) > 0 {
			continue
		}
		z := end.Sys().(*ztensor.Reader)
		n := 0
		for _, v := range z.AttributeValues() {
			if v.HasTag() {
				n++
			}
		}
		for _, v := range z.TensorAttributes(end.Tensor("w")) {
			if v.HasTag() {
				n++
			}
		}
		if n != 4 {
			t.Errorf("%v: %d of 4 attributes have their tags", c.to, n)
		}
	}
}
