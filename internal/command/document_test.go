package command

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/tensor"
)

// documents are all structs that --json prints.
var documents = []any{
	errorDocument{}, infoDocument{}, lsDocument{}, tensorRow{}, partRow{}, blobRow{}, catDocument{}, statsDocument{},
	hashDocument{}, fileHash{}, verifyDocument{}, diffDocument{}, duDocument{}, graphDocument{}, convertDocument{},
	writtenDocument{}, splitDocument{}, extractDocument{}, recoverDocument{}, cleanDocument{}, detectDocument{},
	versionDocument{}, checkedDirectory{}, inspect.Figures{}, catHead{},
}

// jsonKeys calls use with the JSON key of every field of a type, and of those in it.
func jsonKeys(ty reflect.Type, seen map[reflect.Type]bool, use func(string)) {
	switch ty.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		jsonKeys(ty.Elem(), seen, use)
	case reflect.Struct:
		if seen[ty] {
			return
		}
		seen[ty] = true
		for i := range ty.NumField() {
			f := ty.Field(i)
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if key != "" && key != "-" {
				use(key)
			}
			jsonKeys(f.Type, seen, use)
		}
	}
}

func TestEveryJSONFieldIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	keys := 0
	for _, d := range documents {
		jsonKeys(reflect.TypeOf(d), map[reflect.Type]bool{}, func(key string) {
			if keys++; !strings.Contains(string(text), "`"+key+"`") {
				t.Errorf("docs/json.md does not have `%s` of %T", key, d)
			}
		})
	}
	if keys < 150 {
		t.Errorf("%d fields", keys)
	}
}

func TestEveryCommandHasAnExample(t *testing.T) {
	a := newApp(t.Context(), nil, nil, nil, func(string) string { return "" })
	for _, c := range newRoot(a).Commands() {
		if c.Runnable() && (c.Example == "" || !strings.Contains(c.Example, "tensorfile")) {
			t.Errorf("%s has no example", c.Name())
		}
	}
	if _, _, err := (&cobra.Command{}).Find(nil); err != nil {
		t.Error(err)
	}
}

// Tables fit 80 columns, whatever the names.
func TestTablesFitTheTerminal(t *testing.T) {
	long := strings.Repeat("model.layers.", 12) + "weight"
	dir := t.TempDir()
	var ts []*tensor.Tensor
	for _, name := range []string{"w", long + "1", long + "2", strings.Repeat("日本", 60)} {
		ts = append(ts, tensor.New(name, tensor.Shape{2, 3}, make([]float32, 6)))
	}
	file := created(t, dir, "x.safetensors", st(safetensorsOptions), ts...)
	other := created(t, dir, "y.safetensors", st(safetensorsOptions), ts[:1]...)
	for _, args := range [][]string{{"ls", file}, {"du", file}, {"stats", file}, {"ls", "--fold", file}, {"version"}, {"diff", "--stat", file, other}} {
		var out strings.Builder
		a := newApp(t.Context(), nil, &out, &out, func(string) string { return "" })
		a.columns = 80
		root := newRoot(a)
		root.SetArgs(args)
		root.SetOut(a.out)
		cmd, err := root.ExecuteC()
		a.finish(cmd, err)
		a.flush()
		if args[0] == "diff" {
			continue // its lines are not tables
		}
		for line := range strings.Lines(out.String()) {
			if n := columns([]byte(strings.TrimSuffix(line, "\n"))); n > 80 {
				t.Errorf("%q: %d columns: %s", args, n, line)
			}
		}
		if args[0] == "ls" && len(args) == 2 && (!strings.Contains(out.String(), "weight1") || !strings.Contains(out.String(), "…")) {
			t.Errorf("%s", out.String())
		}
	}
}
