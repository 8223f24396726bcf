package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// Findings of several directories and files have the codes, the levels, and the names
// that a repository has them under.
func TestSARIFLocatesFindings(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	dir := filepath.Join("models", "a b:c%")
	for name, text := range map[string]string{
		"config.json":                  "[]",
		"model.safetensors.index.json": "{\n \"weight_map\": {\"é\": 3}}",
	} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	whole := created(t, root, "w.safetensors", st(safetensorsOptions), tensor.New("w",
		tensor.Shape{2}, []float32{1, 2}))
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("cut{0}.safetensors", text[:len(text)-1], 0o666); err != nil {
		t.Fatal(err)
	}

	checked := sarifOf(t, statusFound, "check", "models/a b:c%").Runs[0]
	var got []string
	for _, r := range checked.Results {
		l := r.Locations[0].Physical
		got = append(got, r.Level+" "+r.Rule+" "+l.Artifact.URI)
		if offset := l.Region.Offset; offset != nil && (*offset < 3 || l.Region.Line != 2 ||
			l.Region.Column < 2 || l.Region.EndColumn != l.Region.Column) {
			t.Errorf("%+v", l.Region)
		}
	}
	if want := []string{"error config-malformed models/a%20b%3Ac%25/config.json",
		"error index-malformed models/a%20b%3Ac%25/model.safetensors.index.json",
	}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if !checked.Invocations[0].ExecutionSuccessful ||
		checked.AutomationDetails.ID != "tensorfile-check/" {
		t.Errorf("%+v", checked)
	}

	cut := sarifOf(t, statusFound, "verify", "cut{0}.safetensors", whole).Runs[0].Results
	if len(cut) != 1 || cut[0].Rule != "truncated" || cut[0].Locations[0].Physical.Artifact.URI !=
		"cut%7B0%7D.safetensors" || cut[0].Locations[0].Physical.Region.Offset == nil {
		t.Errorf("%+v", cut)
	}
	if none := sarifOf(t, statusOK, "verify", whole).Runs[0]; len(none.Results) != 0 {
		t.Errorf("%+v", none)
	}
	if absent := sarifOf(t, statusUnreadable, "check", "absent").Runs[0]; len(absent.Results) !=
		0 || absent.Invocations[0].ExecutionSuccessful ||
		len(absent.Invocations[0].ToolExecutionNotifications) != 1 {
		t.Errorf("%+v", absent)
	}
	if absent := sarifOf(t, statusUnreadable, "check", "-r", "absent").Runs[0]; len(
		absent.Invocations[0].ToolExecutionNotifications) != 1 {
		t.Errorf("%+v", absent)
	}
	t.Chdir("models")
	if above := sarifOf(t, statusFound, "verify", "../cut{0}.safetensors").Runs[0].Results; len(
		above) != 1 || above[0].Locations[0].Physical.Artifact.Base != "" {
		t.Errorf("%+v", above)
	}
}

// A report has the most severe findings, no more than GitHub accepts, and nothing in a
// message is a link or a placeholder.
func TestSARIFBoundsFindings(t *testing.T) {
	s := new(sarifLog)
	d := &verifyDocument{Findings: slices.Repeat([]findingRow{{Severity: "warning",
		Class: "warning", Offset: -1, Message: "[x](http://y) {0}\n"}}, maxSARIF)}
	d.Findings = append(d.Findings, findingRow{Severity: "error", Class: "malformed", Offset: 1})
	s.add("x.zt", d, nil)
	var out strings.Builder
	a := newApp(t.Context(), nil, &out, &out, os.Getenv)
	text, err := s.text(&manyFiles{app: a, cmd: verifyCommand(a)})
	var f sarifFile
	if err != nil || json.Unmarshal(text, &f) != nil {
		t.Fatal(err)
	}
	got := f.Runs[0].Results
	if len(got) != maxSARIF || got[0].Level != "error" ||
		got[1].Message.Text != `[x] (http://y) {{0}}\n` ||
		got[1].Partial.Hash == got[2].Partial.Hash || !strings.Contains(out.String(), "1 more") {
		t.Errorf("%d results, first %+v, %s", len(got), got[:3], out.String())
	}
}
