package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/readtest"
)

// mutantCommands are all that the program does to a file IN, with a sound file SOUND and a
// directory OUT to write into.
var mutantCommands = strings.Split(`ls IN
info IN
verify IN
verify IN --depth canonical --strict
hash IN
du IN
detect IN
stats IN
ls IN --fold --sort -bytes
graph IN
graph IN --as svg -o OUT/g.svg
report IN -o OUT/r.html
diff IN SOUND
diff SOUND IN --tolerance 1
diff IN IN
cat IN NAME
cat IN NAME --raw
cat IN NAME --npy
cat IN NAME[0]
extract IN -o OUT/e
split IN -o OUT/s --max 64
merge IN SOUND OUT/m.zt --allow all
edit IN OUT/edited --set a=b
edit IN OUT/edited --rename *=x*
convert IN OUT/c --to ztensor@1.2 --allow all
convert IN OUT/c --to ztensor@2 --allow all --level 1
convert IN OUT/c --to ptd --allow all
convert IN OUT/c --to safetensors --allow all
convert IN OUT/c --to npz --allow all --compress
convert IN OUT/c --to npy --allow all
convert IN OUT/c --to rten --allow all
convert IN OUT/c --to primitiv --allow all
convert IN OUT/c --to pte --allow all --align 64
convert IN OUT/c --to safetensors --allow all --dtype float32=bfloat16 --dtype int64=int32 --dtype float64=float32
convert IN OUT/c --to npz --allow all --dtype float32=float16 --row-major
convert IN OUT/c --to ztensor@1.2 --allow all --sparse sparse_coo
convert IN OUT/c --to ztensor@2 --allow all --dense --duplicates sum
convert IN OUT/c --to ptd --allow all --dry-run`, "\n")

// Whatever is done to a file, each command ends soon, with a status that is documented and,
// where it is asked, with JSON.
func TestMutants(t *testing.T) {
	names, files := readtest.Files(t, "../../testdata", func(b []byte) bool {
		_, err := tensorfile.Detect(bytes.NewReader(b), int64(len(b)))
		return err == nil
	})
	first := make([]string, len(files)) // the name of a tensor
	for i, b := range files {
		if f, err := tensorfile.OpenBytes(b, nil); err == nil {
			for x := range f.Tensors() {
				first[i] = x.Name
				break
			}
			f.Close()
		}
	}
	sound, err := filepath.Abs("../../testdata/ztensor/crate-1.2.3-dtypes.zt")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	readtest.Mutants(t, names, files, 2000, func(n, i int, b []byte) error {
		if err := errors.Join(os.WriteFile(in, b, 0o600), os.RemoveAll(out), os.Mkdir(out, 0o700)); err != nil {
			t.Fatal(err)
		}
		var args []string
		for _, word := range strings.Fields(mutantCommands[n%len(mutantCommands)]) {
			word = strings.Replace(strings.Replace(word, "SOUND", sound, 1), "OUT", out, 1)
			word = strings.Replace(word, "NAME", first[i], 1)
			if word == "IN" {
				word = in
			}
			args = append(args, word)
		}
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
		var stdout bytes.Buffer
		done := make(chan int, 1)
		go func() {
			err := readtest.Survives(t, func() error {
				done <- run(ctx, args, strings.NewReader(""), &stdout, io.Discard, os.Getenv)
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
		if status != statusOK {
			return errors.New("refused")
		}
		return nil
	})
}
