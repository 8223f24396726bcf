package command

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/pte"
)

// runJSON runs the program and decodes what it prints.
func runJSON(t *testing.T, want int, args ...string) map[string]any {
	t.Helper()
	var out, errs bytes.Buffer
	if got := run(context.Background(), args, strings.NewReader(""), &out, &errs,
		func(string) string { return "" }); got != want {
		t.Fatalf("%v: exit status %d, want %d: %s", args, got, want, &errs)
	}
	return decode(t, out.Bytes())
}

// covers reports where got lacks something of want; got may have more.
func covers(path string, got, want any) string {
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for k, v := range w {
			if k == "sha256" || k == "stack_traces" || k == "compile_specs" || k == "values" {
				continue // another command's, or the library's
			}
			if bad := covers(path+"."+k, g[k], v); bad != "" {
				return bad
			}
		}
		return ""
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			return path + ": another number of elements"
		}
		for i := range w {
			if bad := covers(path+"[]", g[i], w[i]); bad != "" {
				return bad
			}
		}
		return ""
	}
	if !reflect.DeepEqual(got, want) {
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		return path + ": " + string(g) + ", not " + string(w)
	}
	return ""
}

// TestProgramsAreShownAsTheReferenceSeesThem compares info, ls and hash of the
// exporter's programs with what ExecuTorch's own reader says of them.
func TestProgramsAreShownAsTheReferenceSeesThem(t *testing.T) {
	files, err := filepath.Glob("../../testdata/pte/export-*.*pte")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d programs: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			b, err := os.ReadFile(strings.TrimSuffix(strings.TrimSuffix(file, ".pte"), ".bpte") +
				".json")
			if err != nil {
				t.Fatal(err)
			}
			want := decode(t, b)
			info := runJSON(t, 0, "info", "--json", file)
			facts := info["pte"].(map[string]any)
			for _, k := range []string{"methods", "segments", "named_data"} {
				if bad := covers(k, facts[k], want[k]); bad != "" {
					t.Error("info:", bad)
				}
			}
			if bad := covers("version", info["version"], want["version"]); bad != "" {
				t.Error("info:", bad)
			}
			ls := runJSON(t, 0, "ls", "--json", file)
			for _, k := range []string{"tensors", "blobs"} {
				if bad := covers(k, ls[k], want[k]); bad != "" {
					t.Error("ls:", bad)
				}
			}
			hash := runJSON(t, 0, "hash", "--json", file)
			for _, k := range []string{"tensors", "blobs"} {
				for i, w := range want[k].([]any) {
					w, g := w.(map[string]any), hash[k].([]any)[i].(map[string]any)
					for _, f := range []string{"name", "method", "value", "sha256", "error"} {
						if !reflect.DeepEqual(g[f], w[f]) {
							t.Errorf("hash: %s of %v is %v, not %v", f, w["name"], g[f], w[f])
						}
					}
				}
			}
			if v := runJSON(t, 0, "verify", "--strict", "--json", file); v["ok"] != true {
				t.Errorf("verify: %v", v)
			}
			runJSON(t, 0, "du", "--json", file)
			runJSON(t, 0, "graph", "--json", file)
		})
	}
}

// TestStringsAreWhole has a method answer a text such as a chat template, which is longer
// than what fits into a drawing.
func TestStringsAreWhole(t *testing.T) {
	text := strings.Repeat("{%- if tools %}\n\t{{ a }}\x00", 20)
	b := pte.NewBuilder()
	b.Metadata("get_template", text)
	name := filepath.Join(t.TempDir(), "p.pte")
	if err := b.WriteFile(t.Context(), name, nil); err != nil {
		t.Fatal(err)
	}
	info := runJSON(t, 0, "info", "--json", name)["pte"].(map[string]any)
	output := map[string]any{"kind": "String", "value": text}
	want := map[string]any{
		"methods": []any{map[string]any{"outputs": []any{output}}}}
	if bad := covers("pte", info, want); bad != "" {
		t.Error(bad)
	}
}
