package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// The helpers of tests in several files. helpers_seeds_test.go has the files that
// are damaged.

// run is the whole program.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer,
	getenv func(string) string) int {
	return (*Options)(nil).run(ctx, args, stdin, stdout, stderr, getenv)
}

// command runs the program and returns its exit status and all that it printed.
func command(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	return run(t.Context(), args, strings.NewReader(""), &out, &out, os.Getenv), out.String()
}

// checkCommand requires an exit status, and a text in what the program prints.
func checkCommand(t *testing.T, status int, want string, args ...string) {
	t.Helper()
	if s, out := command(t, args...); s != status || !strings.Contains(out, want) {
		t.Errorf("%q: exit status %d, want %d and %q:\n%s", args, s, status, want, out)
	}
}

// decode parses a JSON object whose numbers keep their digits.
func decode(t *testing.T, b []byte) map[string]any {
	t.Helper()
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return v
}

// columnsOf is an environment that says how wide output is.
func columnsOf(n int) func(string) string {
	return func(name string) string { return map[string]string{"COLUMNS": fmt.Sprint(n)}[name] }
}

// A writer is what every format's writer has.
type writer interface {
	Add(*tensor.Tensor) error
	Close() error
}

// created writes tensors into a file of dir.
func created(t *testing.T, dir, name string, make func(w io.Writer) writer,
	ts ...*tensor.Tensor) string {
	t.Helper()
	var out bytes.Buffer
	w := make(&out)
	var err error
	for _, x := range ts {
		err = errors.Join(err, w.Add(x))
	}
	name = filepath.Join(dir, name)
	if err = errors.Join(err, w.Close(), os.WriteFile(name, out.Bytes(), 0o666)); err != nil {
		t.Fatal(err)
	}
	return name
}

// zt makes writers of zTensor, for created.
func zt(o ztensor.WriterOptions) func(io.Writer) writer {
	return func(w io.Writer) writer { return ztensor.NewWriter(w, &o) }
}

// safetensorsOptions are the options of most writers of st: none.
var safetensorsOptions = safetensors.WriterOptions{}

// st makes writers of safetensors, for created.
func st(o safetensors.WriterOptions) func(io.Writer) writer {
	return func(w io.Writer) writer { return safetensors.NewWriter(w, &o) }
}

// models writes m.safetensors, m.ptd and m.zt into the new directories a and b, with the
// same names and sizes. Every byte of the tensors is 1 in a, and 2 in b.
func models(t *testing.T, dir string) {
	t.Helper()
	for name, value := range map[string]byte{"a": 1, "b": 2} {
		sub := filepath.Join(dir, name)
		if err := os.Mkdir(sub, 0o777); err != nil {
			t.Fatal(err)
		}
		var ts []*tensor.Tensor
		for i := range 8 {
			ts = append(ts, tensor.New(fmt.Sprintf("t%d", i), tensor.Shape{100_000},
				slices.Repeat([]byte{value}, 100_000)))
		}
		if err := safetensors.WriteFile(t.Context(), filepath.Join(sub, "m.safetensors"),
			tensor.Of(ts...), nil); err != nil {
			t.Fatal(err)
		}
		if err := ptd.WriteFile(t.Context(), filepath.Join(sub, "m.ptd"), tensor.Of(ts...),
			nil); err != nil {
			t.Fatal(err)
		}
		if err := ztensor.WriteFile(t.Context(), filepath.Join(sub, "m.zt"), tensor.Of(ts...),
			nil); err != nil {
			t.Fatal(err)
		}
	}
}

// value returns the one byte that all tensors of a file consist of; 0 if it does not
// open because its set is not finished.
func value(t *testing.T, name string) byte {
	t.Helper()
	f, err := tensorfile.Open(name, nil)
	if err != nil {
		if tensor.ClassOf(err) != tensor.ClassUnfinished || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
		return 0
	}
	defer f.Close()
	all := []byte{}
	for x := range f.Tensors() {
		b, err := x.Data.ReadAll()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		all = append(all, slices.Min(b), slices.Max(b))
	}
	if len(all) == 0 || slices.Min(all) != slices.Max(all) {
		t.Errorf("%s is torn or mixed: %v", name, all)
		return 0
	}
	return all[0]
}

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

// mutantCommands are all that the program does to files: $IN is what a seed opens,
// $FILE its damaged file, $DIR its directory, $NAME a tensor in it; $SOUND and
// $PROGRAM are other files, and $OUT is a directory to write into.
var mutantCommands = strings.Split(`$IN
info $IN
info $IN $SOUND
ls $IN
ls $IN --fold --parts --sort -bytes
info $IN --types --filter *a*
diff $IN $SOUND --names-only --rename *=x* --rename-regex ^x=y
diff $IN $SOUND --map hf-gguf
list $IN --filter *a*
ls -r $DIR --strict
ls -
ls $PROGRAM -d $IN
verify $IN
verify $IN --depth canonical --strict
verify $IN --no-map
verify -r $DIR --depth structure
hash $IN
hash $IN --content
hash $IN --file
hash $IN --filter *a*
du $IN
du $IN --depth 2 --filter *a*
detect $FILE
detect -r $DIR
stats $IN
stats $IN --bins 3 --quantiles 0.01,0.5 --sort -std
graph $IN
graph $IN --as svg -o $OUT/g.svg --force
graph $IN --as mermaid --max-nodes 100 --only *
graph $IN $OUT/g.svg -n
report $IN $OUT/r.html -n
report $IN -o $OUT/r.html
report $IN -o $OUT/r.html --quick --force
diff $IN $SOUND
diff $SOUND $IN --tolerance 1 --top 2
diff $IN $IN
diff $IN $IN --relative 0.1 --stat --ignore blobs --ignore-dtype --filter *
cat $IN $NAME
cat $IN $NAME --raw
cat $IN $NAME --npy
cat $IN $NAME * -o $OUT/x -n
cat $IN * --dtype float32 --filter *a*
cat $IN $NAME --raw -o $OUT/x --force
cat $IN $NAME[0]
cat $IN $NAME --part values
cat $IN $NAME --all
cat $IN $NAME --dequantize
ls $IN --dequantize
hash $IN --content --dequantize
stats $IN --dequantize --bins 4 --filter *a*
diff $IN $SOUND --dequantize --stat
check $DIR
check $DIR --deep
check $DIR --deep --values
check -r $DIR --strict --sarif $OUT/x.sarif
check $DIR --manifest $FILE
clean $DIR
clean -r $DIR
clean $DIR --yes
clean $DIR --yes -n
recover $FILE -n
recover $FILE
extract $IN -o $OUT/e --dtype float32
extract $IN -o $OUT --force --filter *a*
extract $IN $OUT/e -n
split $IN $OUT/s --max 64 -n
split $IN -o $OUT/s --max 64
split $IN -o $OUT --max 1K --name x --force
merge $IN $SOUND $OUT/m.zt --allow all
merge $IN $SOUND -o $OUT/m.npz --to npz --allow all --force
merge $IN $SOUND $OUT/m.zt --allow all -n --filter *a* --attributes a*
merge $IN $SOUND $OUT/m.gguf --allow all --dequantize
edit $IN $OUT/edited --set a=b
edit $IN $OUT/edited --rename *=x* --rename-regex ^x=y
edit $IN -o $OUT/edited --drop $NAME --force
edit $IN $OUT/edited --unset a --dry-run
edit $IN $OUT/edited --filter *a* --attributes none --force
edit $IN $OUT/edited --modernize
edit $IN $OUT/edited --set-file a=$SOUND --set b:uint32=1
edit $FILE --in-place --header-only --set a=b
edit $FILE --in-place --set a=b
edit $FILE --in-place --drop *a*
convert $IN $OUT/c --to ztensor@1.0 --allow all --digest sha256
convert $IN $OUT/c --to ztensor@2 --allow all
convert $IN $OUT/c --to ztensor@2 --allow all --level 1
convert $IN $OUT/c --to ptd --allow all
convert $IN $OUT/c --to safetensors --allow all
convert $IN $OUT/c --to npz --allow all --compress
convert $IN $OUT/c --to npy --allow all
convert $IN $OUT/c --to gguf --allow all
convert $IN $OUT/c --to rten --allow all
convert $IN $OUT/c --to primitiv --allow all
convert $IN $OUT/c --to gguf --allow all
convert $IN $OUT/c --to safetensors --allow all --dequantize
convert $IN $OUT/c --to pte --allow all --align 64
convert $IN $OUT/c.pte --externalize $OUT/x.ptd --allow all
convert $PROGRAM -o $OUT/c.pte --internalize --force -d $IN
convert $IN $OUT/c --to safetensors --allow all --dtype float32=bfloat16 --dtype int64=int32 --dtype float64=float32
convert $IN $OUT/c --to npz --allow all --dtype float32=float16 --row-major
convert $IN $OUT/c --to ztensor@1.0 --allow all --sparse sparse_coo --filter *a*
convert $IN $OUT/c --to ztensor@2 --allow all --dense --duplicates sum --rename *=x* --rename-regex ^x=y
convert $IN $OUT/c --to ptd --allow all --attributes none --dry-run
verify --jobs 1 --jsonl $IN
verify $IN --sarif $OUT/x.sarif
ls --jobs 1 $IN
convert --jobs 1 --to npz -o $OUT --allow all $IN`, "\n")

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

// childArgs is the environment variable with the arguments of a test program that is
// the command.
const childArgs = "TENSORFILE_CHILD_ARGS"
