package repotest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/remote"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// The functions up to the mark are the Go code of README.md, word for word:
// TestReadmeShowsTheseFunctions holds them equal, and the examples below run them.

func list(name string) error {
	f, err := tensorfile.Open(name, nil) // by content, not by name
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Println(f.Format(), f.Len())
	for t := range f.Tensors() {
		fmt.Println(t.Name, t.DType, t.Shape, t.Size())
	}
	return nil
}

func weights(f *tensorfile.File, name string) ([]int64, error) {
	w := f.Tensor(name)                   // nil if absent
	xs, err := tensor.View[int64](w)      // borrows: valid until f.Close
	if errors.Is(err, tensor.ErrNoView) { // compressed, misaligned, other byte order, not mapped
		xs, err = tensor.Load[int64](w) // copies
	}
	return xs, err
}

func scan(ctx context.Context, upload io.ReaderAt, size int64) error {
	f, err := tensorfile.NewReader(upload, size, &tensorfile.Options{
		Strict: true,
		Limits: tensor.Limits{MaxTensors: 1e6},
	})
	if err != nil {
		return err // a *tensor.FormatError: format, byte offset, field
	}
	defer f.Close()
	report, err := f.Verify(ctx, nil) // reads everything
	for _, finding := range report.Findings {
		fmt.Println(finding.Class, finding.Offset, finding.Field)
	}
	return err
}

func rows(ctx context.Context, w *tensor.Tensor) ([]float32, *inspect.Summary, error) {
	// Slice reads nothing yet.
	part, err := tensor.Slice(w, tensor.Range{Start: 10, Stop: 20}, tensor.All)
	if err != nil {
		return nil, nil, err
	}
	xs, err := tensor.Convert[float32](part) // reads ten rows
	if err != nil {
		return nil, nil, err
	}
	opts := &inspect.StatsOptions{Quantiles: []float64{0.01, 0.5, 0.99}}
	stats, err := inspect.Stats(ctx, w, opts)
	return xs, stats, err
}

func changed(ctx context.Context, base, tuned *tensorfile.File) error {
	d, err := inspect.Diff(ctx, base, tuned, &inspect.DiffOptions{Tolerance: 1e-6, Figures: true})
	if err != nil {
		return err
	}
	for _, t := range d.Largest(10) {
		fmt.Println(t.Name, t.Different, t.RMS, t.Cosine)
	}
	return nil
}

func save(name string, src io.Reader) error {
	w, err := ztensor.Create(name, nil)
	if err != nil {
		return err
	}
	defer w.Abort() // does nothing after Close
	if err := w.Add(tensor.New("bias", tensor.Shape{4}, []float32{1, 2, 3, 4})); err != nil {
		return err
	}
	part, err := w.Create("embedding", tensor.F16, tensor.Shape{1024, 64}) // comes piece by piece
	if err != nil {
		return err
	}
	if _, err := io.Copy(part, src); err != nil {
		return err
	}
	if err := part.Close(); err != nil {
		return err
	}
	return w.Close() // the file appears whole, or not at all
}

func toPTD(ctx context.Context, f *tensorfile.File, out string) error {
	opts := &convert.Options{Allow: convert.LossAttributes}
	plan, err := convert.NewPlan(ctx, f, tensorfile.PTD, opts)
	if err != nil {
		return err
	}
	for _, loss := range plan.Losses() {
		fmt.Println(loss) // known before a byte is written
	}
	return plan.WriteFile(ctx, out) // streams, and checks the source's digests on the way
}

func listRemote(ctx context.Context, address string) error {
	r, err := remote.Open(ctx, address, nil) // https, by ranges
	if err != nil {
		return err
	}
	defer r.Close()
	f, err := tensorfile.NewReader(r, r.Size(), nil)
	if err != nil {
		return err
	}
	fmt.Println(f.Format(), f.Len()) // one or two small requests
	return nil
}

func program(name string) error {
	r, err := pte.Open(name, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	for m := range r.Program().Methods() {
		fmt.Println(m.Name(), m.Inputs(), m.Outputs(), m.Operators())
	}
	return nil
}

// end of README.md's code

func Example_list() {
	if err := list("testdata/safetensors/rank8.safetensors"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// safetensors 1
	// r uint16 [1, 2, 1, 2, 1, 2, 1, 2] 32
}

func Example_weights() {
	f, err := tensorfile.Open("testdata/ztensor/crate-1.2.3-digests.zt", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	xs, err := weights(f, "int64 crc32c")
	fmt.Println(len(xs), err)
	// Output: 7 <nil>
}

func Example_scan() {
	b, err := os.ReadFile("testdata/ztensor/crate-1.2.3-digests.zt")
	if err != nil {
		fmt.Println(err)
		return
	}
	b[70] ^= 1
	fmt.Println(scan(context.Background(), bytes.NewReader(b), int64(len(b))) != nil)
	// Output:
	// checksum 64 objects["float32 crc32c"].components["data"].digest
	// true
}

func Example_changed() {
	tensors := func(v float32) *tensorfile.File {
		return tensorfile.FromTensors([]*tensor.Tensor{
			tensor.New("w", tensor.Shape{2}, []float32{1, v}),
			tensor.New("same", tensor.Shape{1}, []float32{1}),
		}, nil)
	}
	if err := changed(context.Background(), tensors(0), tensors(1)); err != nil {
		fmt.Println(err)
	}
	// Output: w 1 0.7071067811865476 0.7071067811865475
}

func Example_rows() {
	data := make([]tensor.BFloat16, 30*4)
	for i := range data {
		data[i] = tensor.NewBFloat16(float32(i))
	}
	xs, stats, err := rows(context.Background(), tensor.New("w", tensor.Shape{30, 4}, data))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(xs), xs[0], stats.Max, stats.Quantiles[1].Value)
	// Output: 40 40 119 59
}

func Example_save() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "out.zt")
	if err := save(name, bytes.NewReader(make([]byte, 2*1024*64))); err != nil {
		fmt.Println(err)
	}
	f, err := tensorfile.Open(name, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	fmt.Println(f.Summary())
	fmt.Println(toPTD(context.Background(), f, filepath.Join(dir, "out.ptd")))
	r, err := ptd.Open(filepath.Join(dir, "out.ptd"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	fmt.Println(r.Len())
	// Output:
	// ztensor 2: 2 tensors, 65540 parameters, 131088 bytes, float16 131072, float32 16
	// <nil>
	// 2
}

func Example_listRemote() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := os.ReadFile("testdata/ztensor/crate-1.2.3-digests.zt")
		http.ServeContent(w, r, "model.zt", time.Time{}, bytes.NewReader(b))
	}))
	defer server.Close()
	if err := listRemote(context.Background(), server.URL+"/model.zt"); err != nil {
		fmt.Println(err)
	}
	// Output: ztensor 8
}

func Example_program() {
	if err := program("testdata/pte/export-1.5.1-linear.pte"); err != nil {
		fmt.Println(err)
	}
	// Output: forward [float32[4, 3]] [float32[4, 2]] [aten::permute_copy.out aten::addmm.out]
}

func TestReadmeShowsTheseFunctions(t *testing.T) {
	testPageShows(t, "README.md", "internal/repotest/readme_test.go")
}

func TestEmbeddingGuideShowsTheseFunctions(t *testing.T) {
	testPageShows(t, "docs/embedding.md", "internal/repotest/embedding_test.go")
}

// testPageShows compares the Go code of a page with the functions of a file up to its
// mark, in both directions.
func testPageShows(t *testing.T, page, source string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	code, _, ok := strings.Cut(string(file), "// end of "+page+"'s code")
	if !ok {
		t.Fatalf("%s has no mark", source)
	}
	var shown []string
	for _, block := range strings.Split(string(text), "```go\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for _, f := range strings.SplitAfter(block, "\n}\n") {
			if f = strings.TrimSpace(f); f != "" {
				shown = append(shown, f)
			}
		}
	}
	for _, f := range shown {
		if !strings.Contains(code, "\n"+f+"\n") {
			t.Errorf("%s has code that is not tested:\n%s", page, f)
		}
	}
	if n := strings.Count(code, "\nfunc "); n != len(shown) {
		t.Errorf("%s shows %d of %d functions", page, len(shown), n)
	}
}

// The tables of formats in README.md and docs/formats.md are those of Caps:
// UPDATE=1 writes them.
func TestTablesOfFormats(t *testing.T) {
	yes := func(b bool) string { return map[bool]string{true: "yes", false: "–"}[b] }
	versions := func(list []string) string {
		switch {
		case len(list) == 0:
			return "–"
		case list[0] == "":
			return "yes"
		case len(list) > 6:
			return list[0] + " to " + list[len(list)-1]
		}
		return strings.Join(list, ", ")
	}
	var short, long strings.Builder
	short.WriteString("| format | reads | writes | programs | sparse | blobs | free attributes |\n" +
		"| --- | --- | --- | --- | --- | --- | --- |\n")
	known := []tensorfile.Format{tensorfile.Safetensors, tensorfile.GGUF, tensorfile.Torch,
		tensorfile.ONNX, tensorfile.NPY, tensorfile.NPZ, tensorfile.PTE, tensorfile.PTD,
		tensorfile.PTN, tensorfile.RTen, tensorfile.ZTensor,
		tensorfile.Primitiv} // those first that more people know
	if got := slices.Sorted(slices.Values(known)); !slices.Equal(got, tensorfile.Formats()) {
		t.Fatalf("the table has %v", known)
	}
	for _, f := range known {
		c := f.Caps()
		fmt.Fprintf(&short, "| %s `%s` | %s | %s | %s | %s | %s | %s |\n", f.Title(), f.Ext(),
			versions(f.Reads()), versions(f.Writes()), yes(c.Program),
			yes(c.Sparse), yes(c.Blobs), yes(c.Attributes))
	}
	long.WriteString("| format | dtypes | orders | names | rank | dimensions | elements | zero dimensions | extra parts |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	limit := func(n int64) string {
		if n == 0 {
			return "–"
		}
		return fmt.Sprint(n)
	}
	for _, f := range tensorfile.Formats() {
		all := f.Writes()
		if f != tensorfile.ZTensor || len(all) == 0 {
			all = []string{""}
		}
		for _, v := range all {
			c := f.CapsOf(v)
			if c.DTypes == nil {
				continue
			}
			names := make([]string, len(c.DTypes))
			for i, d := range c.DTypes {
				names[i] = d.String()
			}
			slices.Sort(names)
			fmt.Fprintf(&long, "| %s | %s | %v | %v | %s | %s | %s | %s | %s |\n",
				strings.TrimSpace(f.String()+" "+v), strings.Join(names, ", "), c.Orders, c.Names,
				limit(int64(c.MaxRank)), limit(c.MaxDim), limit(c.MaxElements),
				yes(c.ZeroDims), yes(c.Extras))
		}
	}
	pages := map[string]string{"README.md": short.String(), "docs/formats.md": long.String()}
	for name, table := range pages {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		const begin, end = "<!-- table of formats -->\n", "<!-- end of table -->"
		before, rest, ok1 := strings.Cut(string(b), begin)
		old, after, ok2 := strings.Cut(rest, end)
		if !ok1 || !ok2 {
			t.Errorf("%s has no table of formats", name)
			continue
		}
		if old == table {
			continue
		}
		if os.Getenv("UPDATE") == "" {
			t.Errorf("%s is not what Caps say: UPDATE=1 go test . renews it", name)
			continue
		}
		if err := os.WriteFile(name, []byte(before+begin+table+end+after), 0o666); err != nil {
			t.Error(err)
		}
	}
}
