package command

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// A sarifFile has the properties of SARIF 2.1.0 that the command writes, and no others.
type sarifFile struct {
	Schema  string `json:"$schema"`
	Version string
	Runs    []struct {
		AutomationDetails struct{ ID string }
		ColumnKind        string
		Invocations       []struct {
			ExecutionSuccessful        bool
			ToolExecutionNotifications []struct {
				Level   string
				Message struct{ Text string }
			}
		}
		Results []sarifFinding
		Tool    struct {
			Driver struct {
				Name, Version, InformationURI string
				Rules                         []sarifRule
			}
		}
	}
}

type (
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifFinding struct {
		Rule      string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations"`
		Partial   struct {
			Hash string `json:"primaryLocationLineHash"`
		} `json:"partialFingerprints"`
	}
	sarifLocation struct {
		Physical struct {
			Artifact sarifArtifact `json:"artifactLocation"`
			Region   sarifRegion   `json:"region"`
		} `json:"physicalLocation"`
		Logical []sarifName `json:"logicalLocations,omitempty"`
	}
	sarifArtifact struct {
		URI  string `json:"uri"`
		Base string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		Line      int    `json:"startLine"`
		Column    int    `json:"startColumn,omitempty"`
		EndColumn int    `json:"endColumn,omitempty"`
		Offset    *int64 `json:"byteOffset,omitempty"`
		Length    *int64 `json:"byteLength,omitempty"`
	}
	sarifName struct {
		Name string `json:"fullyQualifiedName"`
	}
	sarifRule struct {
		ID      string       `json:"id"`
		Short   sarifMessage `json:"shortDescription"`
		Full    sarifMessage `json:"fullDescription"`
		Help    sarifMessage `json:"help"`
		HelpURI string       `json:"helpUri"`

		Properties struct{ Tags []string }
	}
)

// sarifOf runs a command and returns the report that it wrote, after checking what the
// schema and GitHub's code scanning require.
func sarifOf(t *testing.T, status int, args ...string) (f sarifFile) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.sarif")
	if got := run(t.Context(), append(args, "--sarif", name), nil, io.Discard, io.Discard,
		os.Getenv); got != status {
		t.Fatalf("%q: exit status %d, want %d", args, got, status)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if f.Version != "2.1.0" || len(f.Runs) != 1 || f.Runs[0].Results == nil ||
		f.Runs[0].Tool.Driver.Name != "tensorfile" || f.Runs[0].Tool.Driver.Version == "" {
		t.Fatalf("%s", text)
	}
	uri := regexp.MustCompile(`^([A-Za-z0-9._~/@!$&'()*+,;=-]|%[0-9A-F]{2})+$`)
	rules := f.Runs[0].Tool.Driver.Rules
	hashes := map[string]bool{}
	for _, r := range f.Runs[0].Results {
		if r.Rule == "" || rules[r.RuleIndex].ID != r.Rule || r.Message.Text == "" ||
			!slices.Contains([]string{"error", "warning", "note"}, r.Level) ||
			len(r.Locations) != 1 || hashes[r.Partial.Hash] {
			t.Errorf("%+v", r)
		}
		hashes[r.Partial.Hash] = true
		l := r.Locations[0].Physical
		isBelow := l.Artifact.Base == "%SRCROOT%"
		if isBelow && !uri.MatchString(l.Artifact.URI) ||
			!isBelow && !strings.HasPrefix(l.Artifact.URI, "file:///") || l.Region.Line < 1 {
			t.Errorf("%+v", l)
		}
	}
	for _, r := range rules {
		if r.Short.Text == "" || r.Full.Text == "" || r.Help.Text == "" ||
			!strings.HasPrefix(r.HelpURI, "https://") {
			t.Errorf("%+v", r)
		}
	}
	return f
}

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
