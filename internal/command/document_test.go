package command

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/tensor"
)

// documents are all structs that --json prints.
var documents = []any{
	errorDocument{}, infoDocument{}, lsDocument{}, tensorRow{}, partRow{}, blobRow{},
	catDocument{}, statsDocument{},
	hashDocument{}, fileHash{}, verifyDocument{}, diffDocument{}, duDocument{}, graphDocument{},
	convertDocument{},
	writtenDocument{}, splitDocument{}, extractDocument{}, recoverDocument{}, cleanDocument{},
	detectDocument{},
	versionDocument{}, checkedDirectory{}, listFields{}, inspect.Figures{}, catHead{},
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

// documented are calls of every command; IN is a directory of files, OUT one to write
// into.
var documented = strings.Split(`detect IN/a.safetensors IN/shards
info IN/a.safetensors
info IN/shards
info DATA/pte/export-1.5.1-xnnpack-external.pte
info DATA/pte/export-1.5.1-bundled.bpte
info DATA/ptd/et-1.5.1-blobs.ptd
info DATA/pte/export-1.5.1-native.pte
info DATA/ptn/export-1.5.1-state.ptn
info DATA/ptn/made-000.ptn
info DATA/rten/convert-0.22.0-control.rten
info DATA/ztensor/crate-1.2.3-objects.zt
info DATA/ztensor/crate-2.1.1-canonical.zt
info DATA/primitiv/optimizer-Adam-default.primitiv
info DATA/primitiv/model-nested.primitiv
ls IN/a.safetensors
ls --fold IN/shards
ls DATA/ztensor/crate-1.2.3-objects.zt
ls DATA/pte/export-1.5.1-state.pte
ls DATA/pte/export-1.5.1-external.pte
ls DATA/pte/export-1.5.1-native.pte
ls DATA/ptn/export-1.5.1-tied.ptn
ls DATA/primitiv/parameter-names.primitiv
ls IN/absent
cat IN/a.safetensors w
cat DATA/ptd/et-1.5.1-blobs.ptd BLOB
stats --quantiles 0.5 IN/a.safetensors
stats DATA/ztensor/crate-1.2.3-objects.zt
hash IN/a.safetensors
hash --file IN/a.safetensors
hash --content IN/a.safetensors
hash DATA/ztensor/crate-1.2.3-objects.zt
verify IN/a.safetensors
verify DATA/malformed/ptd/without-the-last-byte.ptd
diff IN/a.safetensors IN/b.safetensors --stat
diff DATA/pte/export-1.5.1-linear.pte DATA/pte/export-1.5.1-lstm.pte
du IN/a.safetensors
du IN/shards
du IN/shards --filter w
graph DATA/pte/export-1.5.1-cond.pte
graph DATA/rten/convert-0.22.0-control.rten
check IN/shards --deep --values
check IN/broken
check -r IN
convert IN/a.safetensors OUT/a.zt
convert DATA/ztensor/crate-1.1.1-attributes.zt OUT/lost.ptd
merge IN/a.safetensors DATA/safetensors/rank8.safetensors OUT/m.safetensors
edit IN/a.safetensors OUT/e.safetensors --set a=b
report IN/a.safetensors OUT/r.html
extract IN/a.safetensors OUT/arrays
extract DATA/npy/words.npz OUT/words
split IN/a.safetensors OUT/shards --max 16
recover DATA/ztensor/crate-2.1.1-canonical.zt
clean IN/broken
version`, "\n")

// Every key of every output is in docs/json.md, under its command or in one of the tables
// that all share.
func TestEveryKeyOfEveryOutputIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	in, out := t.TempDir(), t.TempDir()
	x, y := tensor.New("w", tensor.Shape{2, 3}, make([]float32, 6)), tensor.New("v",
		tensor.Shape{4}, []int32{1, 2, 3, 4})
	z := tensor.New("w", tensor.Shape{2, 3}, []float32{1, 2, 3, 4, 5, 6})
	created(t, in, "a.safetensors", st(safetensorsOptions), x, y)
	created(t, in, "b.safetensors", st(safetensorsOptions), z)
	for _, dir := range []string{"shards", "broken"} {
		args := []string{"split", filepath.Join(in, "a.safetensors"), filepath.Join(in, dir),
			"--max", "16"}
		if status := run(t.Context(), args, nil, io.Discard, os.Stderr,
			os.Getenv); status != statusOK {
			t.Fatalf("exit status %d", status)
		}
	}
	left := filepath.Join(in, "broken", ".x.tensorfile-tmp-0000000000001")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(in, "broken", "a-00001-of-00002.safetensors"),
		20); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, line := range documented {
		line = strings.NewReplacer("IN", in, "OUT", out, "DATA", "../../testdata", "BLOB",
			"much").Replace(line)
		args := strings.Fields(line)
		used[args[0]] = true
		var stdout strings.Builder
		run(t.Context(), append(args, "--json"), nil, &stdout, io.Discard, os.Getenv)
		var document any
		if err := json.Unmarshal([]byte(stdout.String()), &document); err != nil {
			t.Errorf("%s: %v: %s", line, err, stdout.String())
		}
		keysOf(document, func(key string) {
			if !strings.Contains(string(text), "`"+key+"`") &&
				!strings.Contains(string(text), "`{\""+key+"\":") {
				t.Errorf("%s: docs/json.md does not have `%s`", line, key)
			}
		})
	}
	for _, c := range newRoot(newApp(t.Context(), nil, nil, nil,
		func(string) string { return "" })).Commands() {
		if c.Runnable() && !used[c.Name()] && !slices.Contains([]string{"completion", "help",
			"man", "view"}, c.Name()) {
			t.Errorf("nothing holds docs/json.md against %s", c.Name())
		}
	}
}

// keysOf calls use with the keys of objects whose keys are fixed.
func keysOf(v any, use func(key string)) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			keysOf(e, use)
		}
	case map[string]any:
		for key, e := range v {
			use(key)
			switch m, isObject := e.(map[string]any); {
			case isObject && slices.Contains([]string{"attributes", "dtypes", "operators",
				"metadata", "kernels", "settings", "compile_specs"}, key):
				for _, e := range m {
					if key == "dtypes" {
						keysOf(e, use)
					}
				}
			case key == "a" || key == "b": // values of any kind
			default:
				keysOf(e, use)
			}
		}
	}
}

func TestEveryCommandHasAnExample(t *testing.T) {
	a := newApp(t.Context(), nil, nil, nil, func(string) string { return "" })
	for _, c := range newRoot(a).Commands() {
		if c.Runnable() && (c.Example == "" || !strings.Contains(c.Example, "tensorfile")) {
			t.Errorf("%s has no example", c.Name())
		}
	}
}

// Help fits 80 columns.
func TestHelpFitsTheTerminal(t *testing.T) {
	root := newRoot(newApp(t.Context(), nil, nil, nil, func(string) string { return "" }))
	names := [][]string{{"--help"}}
	for _, c := range root.Commands() {
		names = append(names, []string{c.Name(), "--help"})
	}
	for _, args := range names {
		var out strings.Builder
		if status := run(t.Context(), args, nil, &out, &out, os.Getenv); status != statusOK {
			t.Errorf("%q: exit status %d", args, status)
		}
		for line := range strings.Lines(out.String()) {
			if n := columns([]byte(strings.TrimSuffix(line, "\n"))); n > 80 {
				t.Errorf("%q: %d columns: %s", args, n, line)
			}
		}
	}
}

// Tables fit 80 columns, whatever the names.
func TestTablesFitTheTerminal(t *testing.T) {
	long := strings.Repeat("model.layers.", 12) + "weight"
	dir := t.TempDir()
	var ts []*tensor.Tensor
	for _, name := range []string{"w", long + "1", long + "2", strings.Repeat("日本", 60)} {
		ts = append(ts, tensor.New(name, tensor.Shape{2, 3},
			[]float32{-0.0722566, 0.0680111, 1.765912e-05, 0.0198635, -1.23456e-9, -1.98635e-05}))
	}
	file := created(t, dir, "x.safetensors", st(safetensorsOptions), ts...)
	other := created(t, dir, "y.safetensors", st(safetensorsOptions), ts[:1]...)
	for _, args := range [][]string{{"ls", file}, {"du", file}, {"stats", file},
		{"stats", file, "--quantiles", "0,0.5,1"},
		{"ls", "--fold", file}, {"version"}, {"diff", "--stat", file, other}} {
		var out strings.Builder
		a := newApp(t.Context(), nil, &out, &out, columnsOf(80))
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
		if args[0] == "ls" && len(args) == 2 && (!strings.Contains(out.String(), "weight1") ||
			!strings.Contains(out.String(), "…")) {
			t.Errorf("%s", out.String())
		}
	}
}
