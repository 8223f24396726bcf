package torch

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// wanted is what torch loads from a file.
type wanted struct {
	Version  string
	Foreign  []string
	Warnings []string // code and field
	// Attributes are the attributes of DTensors, which name the dimensions as Python
	// shows them.
	Attributes map[string][]any
	Tensors    map[string]struct {
		DType  string
		Shape  tensor.Shape
		Scheme string
		SHA256 string
		Parts  map[string]string
	}
}

// The files of torch: the committed ones, and the files of interop/torch.sh when
// TENSORFILE_TORCH names their directory.
func TestFilesOfTheReferenceHaveItsValues(t *testing.T) {
	dir := "../testdata/torch"
	if d := os.Getenv("TENSORFILE_TORCH"); d != "" {
		dir = d
	}
	notes, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(notes) < 11 {
		t.Fatalf("%d files, %v", len(notes), err)
	}
	for _, note := range notes {
		t.Run(strings.TrimSuffix(filepath.Base(note), ".json"), func(t *testing.T) {
			raw, err := os.ReadFile(note)
			if err != nil {
				t.Fatal(err)
			}
			var want wanted
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			for _, noMap := range []bool{false, true} {
				r, err := Open(strings.TrimSuffix(note, ".json"), &ReaderOptions{NoMap: noMap})
				if err != nil {
					t.Fatal(err)
				}
				compare(t, r, &want)
				r.Close()
			}
		})
	}
}

func compare(t *testing.T, r *Reader, want *wanted) {
	t.Helper()
	if r.Len() != len(want.Tensors) || r.Version() != want.Version ||
		len(r.Warnings()) != len(want.Warnings) {
		t.Errorf("%d tensors of %s, want %d of %s; %v", r.Len(), r.Version(), len(want.Tensors),
			want.Version, r.Warnings())
	}
	for x := range r.Tensors() {
		w, ok := want.Tensors[x.Name]
		if !ok || r.Tensor(x.Name) != x {
			t.Errorf("%q is not in torch's list", x.Name)
			continue
		}
		if x.DType.String() != w.DType || !x.Shape.Equal(w.Shape) || x.Scheme != w.Scheme ||
			x.Check() != nil {
			t.Errorf("%q: %v %v %q %v, torch has %+v", x.Name, x.DType, x.Shape, x.Scheme,
				x.Check(), w)
		}
		if w.SHA256 != "" && sum(t, x.Data) != w.SHA256 {
			t.Errorf("%q: other elements than torch's", x.Name)
		}
		for role, digest := range w.Parts {
			if p := x.Part(role); p == nil || sum(t, p.Data) != digest {
				t.Errorf("%q: other %s than torch's", x.Name, role)
			}
		}
	}
	_, attributes := rowsOf(t, r)
	for k, v := range want.Attributes {
		if b, _ := json.Marshal(v); attributes[k] != string(b) {
			t.Errorf("%s is %s, torch has %s", k, attributes[k], b)
		}
	}
	var foreign []string
	for g := range r.Globals() {
		if !g.Known {
			foreign = append(foreign, g.String())
		}
	}
	if want.Attributes == nil && !slices.Equal(foreign, want.Foreign) &&
		len(foreign)+len(want.Foreign) > 0 { // classes of DTensors differ between releases
		t.Errorf("foreign globals %q, want %q", foreign, want.Foreign)
	}
	report, err := r.Verify(t.Context(), nil)
	if err != nil || len(report.Findings) != len(want.Warnings) {
		t.Errorf("Verify: %v, %v", report.Findings, err)
	}
	for i, f := range report.Findings {
		if f.Severity != tensor.SeverityWarning || f.Code+" "+f.Field != want.Warnings[i] {
			t.Errorf("Verify: %v, want %q", f, want.Warnings)
		}
	}
}

func TestAttributesAreJSONOfTheirValues(t *testing.T) {
	r, err := Open("../testdata/torch/values.pt", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := map[string]string{}
	for k, v := range r.Attributes() {
		got[k] = v
	}
	for k, want := range map[string]string{
		"epoch": "3", "lr": "0.1", "name": "café", "none": "null", "betas": "[0.9,0.999]",
		"huge": `"0x400000000000000000"`,
		"inf":  `{"$float":"inf"}`, "set": "[1]", "bytes": `{"$bytes":"00ff"}`,
		"complex": `{"$complex":[1,2]}`,
		"size":    "[4,6]", "dtype": `"torch.bfloat16"`, "device": "cpu", "no": "[]",
		"yes": "true",
	} {
		if got[k] != want {
			t.Errorf("%s is %s, want %s", k, got[k], want)
		}
		delete(got, k)
	}
	if len(got) > 0 {
		t.Errorf("more attributes: %v", got)
	}
}

// Tensors that share elements are the same bytes of the file.
func TestSharedStoragesAreTheSameBytes(t *testing.T) {
	data, err := os.ReadFile("../testdata/torch/values.pt")
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenBytes(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for a, b := range map[string]string{"w": "tied.0", "tied.0": "tied.1",
		"shared.bias": "again.bias"} {
		x, y := r.Tensor(a), r.Tensor(b)
		if x == nil || y == nil || x.Data.Identity() == nil ||
			x.Data.Identity() != y.Data.Identity() {
			t.Errorf("%s and %s do not have the same bytes", a, b)
		}
		if _, ok := x.Data.Bytes(); !ok {
			t.Errorf("%s cannot be borrowed", a)
		}
	}
}
