//go:build unix

package convert

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// truncateOptions are asked for in turn, so that every way from source to writer is
// taken.
var truncateOptions = []Options{
	{Allow: LossAll},
	{Allow: LossAll, RowMajor: true, Dense: true},
	{Allow: LossAll, Map: dtypes(map[tensor.DType]tensor.DType{tensor.F32: tensor.F16,
		tensor.I32: tensor.I64})},
	{Allow: LossAll, Sparse: "sparse_coo"},
}

// hook is a writer that calls f before the nth Write.
type hook struct {
	n int
	f func()
}

func (h *hook) Write(p []byte) (int, error) {
	if h.n--; h.n == 0 {
		h.f()
	}
	return len(p), nil
}

// convertible are the files of testdata that open.
func convertible(t *testing.T) (names []string, files [][]byte) {
	return readtest.Files(t, filepath.Join("..", "testdata"), func(b []byte) bool {
		f, err := tensorfile.OpenBytes(b, nil)
		if err != nil {
			return false
		}
		return f.Close() == nil
	})
}

// A file that is truncated while it is mapped and read is an error of Write: the process
// survives.
func TestWriteOfATruncatedSourceIsAnError(t *testing.T) {
	names, files := convertible(t)
	dir, failed := t.TempDir(), 0
	for i, b := range files {
		for j, target := range forms() {
			if testing.Short() && (i+2*j)%7 != 0 {
				continue
			}
			at := filepath.Join(dir, strings.Repeat("s", 1+(i+j/2)%2))
			if err := os.WriteFile(at, b, 0o600); err != nil {
				t.Fatal(err)
			}
			opts := truncateOptions[(i+j/3)%len(truncateOptions)]
			if writeTruncated(t, at, target, opts, (i+j)%3, nil) != nil {
				failed++
			}
		}
		if t.Failed() {
			t.Fatal(names[i])
		}
	}
	if failed == 0 {
		t.Error("no Write failed")
	}
}

// writeTruncated converts the file at a name, which is cut off at the nth Write, or
// before all, or by during.
func writeTruncated(t *testing.T, at string, target form, opts Options, n int,
	during func(cut func())) error {
	f, err := tensorfile.Open(at, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if target.format == tensorfile.ZTensor {
		opts.Writer = &ztensor.WriterOptions{Version: target.version, Level: 3 * (len(at) & 1)}
	}
	if asked := opts.Map; asked != nil { // of what the target has
		opts.Map = func(x *tensor.Tensor) (string, tensor.DType, bool) {
			name, d, keep := asked(x)
			if !target.caps().Holds(d) {
				d = tensor.Unknown
			}
			return name, d, keep
		}
	}
	plan, err := NewPlan(t.Context(), f, target.format, &opts)
	if err != nil || plan.Err() != nil {
		if during != nil {
			t.Fatal(target, err)
		}
		return nil // nothing that this target could take
	}
	cut := func() {
		if err := os.Truncate(at, 0); err != nil {
			t.Error(err)
		}
	}
	var out io.Writer = &hook{n, cut}
	switch {
	case during != nil:
		during(cut)
	case n == 0:
		cut()
	}
	return plan.Write(t.Context(), out)
}

// The same at random moments, as often as $TENSORFILE_TRUNCATIONS says, with sources of
// some MiB.
func TestWriteSurvivesASourceTruncatedAtAnyTime(t *testing.T) {
	runs, _ := strconv.Atoi(os.Getenv("TENSORFILE_TRUNCATIONS"))
	runs = max(runs, 4)
	dir := t.TempDir()
	data := make([]float32, 1<<20)
	for i := range data {
		data[i] = float32(i % 1000)
	}
	var sources [][]byte
	all := forms()
	for _, from := range all {
		ts := []*tensor.Tensor{tensor.New("a", tensor.Shape{1 << 10, 1 << 10}, data)}
		f := write(t, from, ts, nil)
		var b bytes.Buffer
		opts := from.options()
		opts.Allow = LossAll
		plan, err := NewPlan(t.Context(), f, from.format, opts)
		if err == nil {
			err = plan.Write(t.Context(), &b)
		}
		if err != nil {
			t.Fatal(from, err)
		}
		sources = append(sources, b.Bytes())
	}
	for i := range runs {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		at := filepath.Join(dir, strconv.Itoa(i))
		if err := os.WriteFile(at, sources[i%len(sources)], 0o600); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		writeTruncated(t, at, all[r.IntN(len(all))], truncateOptions[r.IntN(3)], -1,
			func(cut func()) {
				go func() {
					defer close(done)
					time.Sleep(time.Duration(r.IntN(int(10 * time.Millisecond))))
					cut()
				}()
			})
		<-done
		os.Remove(at)
	}
}
