package inspect_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/inspect"
)

// Every format has the field that is named after it, and no other; totals are the totals
// of the dtypes.
func TestInfoHasTheFieldOfItsFormatOnly(t *testing.T) {
	for name, field := range map[string]string{
		"pte/export-1.5.1-xnnpack.pte": "pte", "ptd/et-0.6.0-basic.ptd": "ptd",
		"rten/convert-0.10.0-basic.rten":           "rten",
		"ztensor/crate-1.2.3-objects.zt":           "ztensor",
		"primitiv/optimizer-Adam-default.primitiv": "primitiv",
		"safetensors/dtypes.safetensors":           "",
	} {
		f, err := tensorfile.Open("../testdata/"+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		d := inspect.NewInfo(f, nil)
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range []string{"pte", "ptd", "rten", "ztensor", "primitiv"} {
			if has := strings.Contains(string(text), `,"`+other+`":{`); has != (other == field) {
				t.Errorf("%s has %s: %v", name, other, has)
			}
		}
		var sum inspect.InfoTotal
		for _, x := range d.DTypes {
			sum.Tensors += x.Tensors
			sum.Parameters += x.Parameters
			sum.Bytes += x.Bytes
		}
		if sum != d.InfoTotal || int(sum.Tensors) != f.Len() || d.Size != f.Size() {
			t.Errorf("%s: %+v, %+v", name, sum, d)
		}
	}
}

// Attributes are in the order of the file, whatever they are.
func TestAttributesAreJSONInTheOrderOfTheFile(t *testing.T) {
	b, err := json.Marshal(inspect.AttributeList{{Key: "z", Value: 1},
		{Key: "a\"\xff", Value: "<x>"}})
	if want := `{"z":1,"a\"\ufffd":"\u003cx\u003e"}`; err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
}
