package convert

import (
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile"
)

// tagged is 32("x"), a text with a CBOR tag.
type tagged struct{}

func (tagged) MarshalCBOR() ([]byte, error) { return []byte{0xd8, 32, 0x61, 'x'}, nil }

// An attribute with a CBOR tag, at the top or within, of the file or of a tensor,
// is a named loss: no version that is written has tags in attributes.
func TestTagsAreNamed(t *testing.T) {
	values := map[string]any{"top": tagged{}, "within": []any{1, tagged{}}}
	for _, c := range []struct {
		to   form
		lost []string
	}{
		{form{tensorfile.ZTensor, "2"}, []string{`attributes["top"]`, `attributes["within"]`,
			`tensors["w"].attributes["top"]`, `tensors["w"].attributes["within"]`}},
		{form{tensorfile.ZTensor, "1.0"}, []string{`attributes["top"]`, `attributes["within"]`,
			`tensors["w"].attributes["top"]`, `tensors["w"].attributes["within"]`}},
		{form{tensorfile.Safetensors, ""}, []string{`attributes["top"]`, `attributes["within"]`,
			`tensors["w"].attributes["top"]`, `tensors["w"].attributes["within"]`}},
	} {
		o := c.to.options()
		o.Allow = LossAll
		_, p := run(t, version12(t, values, values), c.to, o)
		var lost []string
		for _, l := range p.Losses() {
			lost = append(lost, l.Field)
		}
		slices.Sort(lost)
		if !slices.Equal(lost, c.lost) {
			t.Errorf("%v: %q is lost, want %q", c.to, lost, c.lost)
		}
	}
}
