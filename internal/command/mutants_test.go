package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/readtest"
)

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

// noFile are the commands that read no tensor file, and view, which serves what report
// has and does not end.
var noFile = []string{"completion", "help", "man", "version", "view"}

// ofLists are the flags of lists, each of whose files is a run of the command without
// them.
var ofLists = []string{"files-from", "jobs", "part", "resume"}

func TestMutantsRunEveryCommandFlagAndTarget(t *testing.T) {
	used := map[string]bool{}
	for _, line := range mutantCommands {
		words := strings.Fields(line)
		for _, word := range words {
			used[words[0]+" "+word] = true
		}
	}
	for _, f := range tensorfile.Formats() {
		to := "--to " + f.String()
		if len(f.Caps().DTypes) > 0 && !strings.Contains(strings.Join(mutantCommands, "\n"), to) {
			t.Errorf("no mutant goes through convert %s", to)
		}
	}
	a := newApp(t.Context(), nil, nil, nil, func(string) string { return "" })
	for _, c := range newRoot(a).Commands() {
		if !c.Runnable() || slices.Contains(noFile, c.Name()) {
			continue
		}
		for _, name := range append(c.Aliases, c.Name()) {
			if !used[name+" "+name] {
				t.Errorf("no mutant goes through %s", name)
			}
		}
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if slices.Contains(ofLists, f.Name) {
				return
			}
			if !used[c.Name()+" --"+f.Name] && !used[c.Name()+" -"+f.Shorthand] {
				t.Errorf("no mutant goes through %s --%s", c.Name(), f.Name)
			}
		})
	}
}

// For any damage to a file, each command ends soon, with a status that is
// documented and, where it is asked, with JSON.
func TestMutantsAreReadOrRefused(t *testing.T) {
	seeds := allSeeds(t)
	var names []string
	var files [][]byte
	for _, s := range seeds {
		names, files = append(names, s.name), append(files, s.data)
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	readtest.Mutants(t, names, files, 2000, func(n, i int, b []byte) error {
		seeds[i].write(t, in, b)
		if err := errors.Join(os.RemoveAll(out), os.Mkdir(out, 0o700)); err != nil {
			t.Fatal(err)
		}
		args := seeds[i].commandLine(t, mutantCommands[n%len(mutantCommands)], in, out)
		asJSON := args[0] != "cat" && n/len(mutantCommands)%3 > 0
		if asJSON {
			args = append(args, "--json")
		}
		ctx, cancel := t.Context(), func() {}
		var stuck <-chan time.Time
		if readtest.Measuring() { // elsewhere the time limit of go test finds what never ends
			ctx, cancel = context.WithTimeout(ctx, time.Minute)
			stuck = time.After(2 * time.Minute)
		}
		defer cancel()
		var stdout, stderr bytes.Buffer
		done := make(chan int, 1)
		go func() {
			err := readtest.Survives(t, func() error {
				done <- run(ctx, args, bytes.NewReader(b), &stdout, &stderr, os.Getenv)
				return nil
			}, "%q", args)
			if err != nil {
				done <- statusUnreadable
			}
		}()
		var status int
		select {
		case status = <-done:
		case <-stuck:
			t.Fatalf("%q does not end, nor with its context", args)
		}
		if ctx.Err() != nil {
			t.Errorf("%q took a minute", args)
		}
		switch status {
		case statusOK, statusFound, statusUnreadable, statusLimit, statusUsage:
		default:
			t.Errorf("%q: exit status %d", args, status)
		}
		if asJSON && status != statusUsage && stdout.Len() > 0 && !json.Valid(stdout.Bytes()) {
			t.Errorf("%q: %s", args, stdout.Bytes())
		}
		if i := strings.IndexFunc(stderr.String(), unsafeOnTerminals); i >= 0 {
			t.Errorf("%q: an escape in a message: %q", args, stderr.String()[i:])
		}
		if i := strings.IndexFunc(stdout.String(), unsafeOnTerminals); i >= 0 && args[0] != "cat" {
			t.Errorf("%q: an escape: %q", args, stdout.String()[i:])
		}
		if status != statusOK {
			return errors.New("refused")
		}
		return nil
	})
}

// unsafeOnTerminals reports control characters, and those that change the direction
// of text.
func unsafeOnTerminals(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 ||
		r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}
