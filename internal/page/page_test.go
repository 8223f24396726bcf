package page_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/page"
	"github.com/tensorfile/tensorfile/internal/page/web"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/tensor"
)

func session(t *testing.T, names ...string) *page.Session {
	t.Helper()
	var all []page.Source
	for _, name := range names {
		f, err := tensorfile.Open(filepath.Join("../../testdata", name), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		all = append(all, page.Source{Name: name, File: f})
	}
	return page.NewSession(all...)
}

// call returns the result of a method as the page gets it.
func call[T any](t *testing.T, s *page.Session, method, params string) (out T) {
	t.Helper()
	r, err := s.Call(t.Context(), method, []byte(params), nil)
	if err != nil {
		t.Fatalf("%s %s: %v", method, params, err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEveryFileHasFactsRowsAndFindings(t *testing.T) {
	for _, dir := range []string{"safetensors", "gguf", "npy", "torch", "ptd", "pte", "rten",
		"onnx", "ztensor", "primitiv"} {
		names, err := filepath.Glob("../../testdata/" + dir + "/*")
		if err != nil {
			t.Fatal(err)
		}
		opened := 0
		for i, name := range names {
			f, err := tensorfile.Open(name, nil)
			if err != nil {
				continue // notes and indexes
			}
			if opened++; testing.Short() && i%3 > 0 {
				f.Close()
				continue
			}
			s := page.NewSession(page.Source{Name: name, File: f})
			if facts := call[map[string]any](t, s, "facts", "{}"); facts["title"] == "" {
				t.Errorf("%s has no title", name)
			}
			blobs := 0
			for range f.Blobs() {
				blobs++
			}
			if rows := call[[]any](t, s, "tensors", "{}"); len(rows) != f.Len()+blobs {
				t.Errorf("%s has %d rows, %d tensors and %d blobs", name, len(rows), f.Len(),
					blobs)
			}
			call[map[string]any](t, s, "verify", "{}")
			for i := range f.Len() {
				params := fmt.Appendf(nil, `{"tensor":%d}`, i)
				for _, method := range []string{"values", "picture", "stats"} {
					_, err := s.Call(t.Context(), method, params, nil)
					if err != nil && !isKnown(err) {
						t.Errorf("%s: %s of tensor %d: %v", name, method, i, err)
					}
				}
			}
			f.Close()
		}
		if opened == 0 {
			t.Errorf("no file of %s was opened", dir)
		}
	}
}

// isKnown reports whether elements cannot be shown for a reason that is the tensor's.
func isKnown(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, tensor.ErrDType) ||
		errors.Is(err, tensor.ErrMalformed) || errors.Is(err, tensor.ErrChecksum)
}

func memory(ts ...*tensor.Tensor) *page.Session {
	return page.NewSession(page.Source{Name: "memory", File: tensorfile.FromTensors(ts, nil)})
}

type grid struct {
	Shape      []int64
	Rows, Cols int
	Index      []int64
	Values     [][]string
}

func TestValuesHaveAllDigits(t *testing.T) {
	big := int64(1)<<53 + 1
	s := memory(tensor.New("a", tensor.Shape{2, 2}, []int64{1, big, -big, 4}),
		tensor.New("b", tensor.Shape{}, []float32{0.1}),
		tensor.New("c", tensor.Shape{3}, []float64{math.NaN(), math.Inf(-1), 1e300}),
		tensor.New("d", tensor.Shape{0, 3}, []float32{}),
		tensor.New("e", tensor.Shape{1}, []complex64{complex(1, -2)}))
	for i, want := range []string{`[["1","9007199254740993"],["-9007199254740993","4"]]`,
		`[["0.1"]]`, `[["NaN","-Inf","1e+300"]]`, `[]`, `[["1-2i"]]`} {
		params, _ := json.Marshal(map[string]int{"tensor": i})
		g := call[grid](t, s, "values", string(params))
		if got, _ := json.Marshal(g.Values); string(got) != want {
			t.Errorf("tensor %d: %s, want %s", i, got, want)
		}
	}
}

// A quantised weight has its values, the values of its parts, and statistics.
func TestQuantisedWeightsAreShown(t *testing.T) {
	b, err := os.ReadFile("../../testdata/quant/ct-nvfp4.json")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := quant.ParseConfig(b)
	if err != nil {
		t.Fatal(err)
	}
	f, err := tensorfile.Open("../../testdata/quant/ct-nvfp4.safetensors", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := page.NewSession(page.Source{Name: "a", File: f, Config: cfg})
	type row struct {
		Index      int
		Name, Text string
		Scheme     string
		Shape      []int64
		Of         []int
		Parts      []struct{ Role string }
	}
	stored := call[[]row](t, s, "tensors", "{}")
	weights := call[[]row](t, s, "weights", "{}")
	if len(stored) != 3 || len(weights) != 1 {
		t.Fatalf("%d tensors, %d weights", len(stored), len(weights))
	}
	w := weights[0]
	if w.Index != 3 || w.Name != "m.weight" || w.Scheme != "nvfp4" || len(w.Of) != 3 ||
		stored[w.Of[0]].Name != "m.weight_packed" || len(w.Parts) != 3 {
		t.Errorf("%+v", w)
	}
	type grid struct {
		Shape  []int64
		Values [][]string
	}
	g := call[grid](t, s, "values", `{"tensor": 3}`)
	if g.Shape[1] != 64 || g.Values[0][0] != "-0.043061107" {
		t.Errorf("%v, %s", g.Shape, g.Values[0][0])
	}
	if g := call[grid](t, s, "values", `{"tensor": 3, "part": "codes"}`); g.Shape[1] != 32 {
		t.Errorf("codes of %v", g.Shape)
	}
	if all := call[[]any](t, s, "stats", `{"tensor": 3}`); len(all) != 1 {
		t.Errorf("statistics: %v", all)
	}
	for _, params := range []string{`{"tensor": 4}`, `{"tensor": 3, "part": "bias"}`} {
		if _, err := s.Call(t.Context(), "values", []byte(params), nil); err == nil {
			t.Errorf("%s is no error", params)
		}
	}
}

func TestAWindowStaysInTheTensor(t *testing.T) {
	data := make([]int32, 3*50*40)
	for i := range data {
		data[i] = int32(i)
	}
	s := memory(tensor.New("a", tensor.Shape{3, 50, 40}, data))
	g := call[grid](t, s, "values", `{"index":[1,45,99]}`)
	if len(g.Values) != 5 || len(g.Values[0]) != 1 || g.Values[0][0] != "3839" {
		t.Errorf("%v", g)
	}
	g = call[grid](t, s, "values", `{"index":[-5,2,3],"rows":0,"cols":1}`)
	if len(g.Values) != 3 || len(g.Values[0]) != 32 || g.Values[1][0] != "2083" {
		t.Errorf("%v", g)
	}
}

func TestAPictureMarksWhatIsNotFinite(t *testing.T) {
	s := memory(tensor.New("a", tensor.Shape{4}, []float64{-math.MaxFloat64, 0, math.MaxFloat64,
		math.NaN()}))
	p := call[struct {
		Width, Height int
		Pixels        []byte
	}](t, s, "picture", "{}")
	if p.Width != 4 || p.Height != 1 || !bytes.Equal(p.Pixels, []byte{1, 128, 255, 0}) {
		t.Errorf("%v", p)
	}
}

// A counted file is a header and then zeros, and counts what is read.
type counted struct {
	header string
	read   *int64
}

func (c counted) ReadAt(p []byte, off int64) (int, error) {
	*c.read += int64(len(p))
	clear(p)
	if off < int64(len(c.header)) {
		copy(p, c.header[off:])
	}
	return len(p), nil
}

func TestALargeFileIsReadAsFarAsItIsShown(t *testing.T) {
	const rows, size = 1 << 20, 4 << 30
	header := fmt.Sprintf(`{"a":{"dtype":"F32","shape":[%d,1024],"data_offsets":[0,%d]}}`, rows,
		int64(size))
	header = string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header
	read := int64(0)
	src, err := page.OpenContents(page.Content{ReaderAt: counted{header, &read}, Name: "a",
		Size: int64(len(header)) + size})
	if err != nil {
		t.Fatal(err)
	}
	s := page.NewSession(src)
	call[map[string]any](t, s, "facts", "{}")
	call[[]any](t, s, "tensors", "{}")
	call[grid](t, s, "values", `{"index":[1000000,0]}`)
	if read > 1<<20 {
		t.Errorf("%d bytes are read for facts and values", read)
	}
	read = 0
	p := call[struct {
		Width, Height int
		RowStep       int64 `json:"row_step"`
		ColStep       int64 `json:"col_step"`
		Cut           bool
	}](t, s, "picture", "{}")
	if p.Width != 256 || p.Height != 256 || p.RowStep != 4096 || p.ColStep != 4 ||
		p.Cut || read > 8<<20 {
		t.Errorf("%v, %d bytes", p, read)
	}
}

func TestStatisticsReportProgressAndEnd(t *testing.T) {
	s := memory(tensor.New("a", tensor.Shape{1 << 20}, make([]float32, 1<<20)))
	calls := 0
	_, err := s.Call(t.Context(), "stats", []byte("{}"), func(done, total int64) {
		if calls++; done > total {
			t.Errorf("%d of %d bytes", done, total)
		}
	})
	if err != nil || calls == 0 || calls > 101 {
		t.Errorf("%d calls: %v", calls, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Call(ended, "stats", []byte("{}"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
}

func TestCallsThatAreWrongAreErrors(t *testing.T) {
	s := memory(tensor.New("a", tensor.Shape{1}, []float32{0}))
	for _, c := range [][2]string{{"values", `{"tensor":1}`}, {"values", `{"tensor":-1}`},
		{"facts", `{"file":1}`}, {"facts", `{"file":-1}`}, {"facts", `[`}, {"none", `{}`},
		{"values", `{"part":"x"}`}, {"diff", `{}`}, {"graph", `{}`}} {
		if r, err := s.Call(t.Context(), c[0], []byte(c[1]), nil); err == nil {
			t.Errorf("%v: %v", c, r)
		}
	}
}

func TestTwoFilesAreCompared(t *testing.T) {
	name := "safetensors/many.safetensors"
	type difference struct {
		Equal   bool
		Summary string
	}
	if d := call[difference](t, session(t, name, name), "diff", "{}"); !d.Equal {
		t.Error("a file differs from itself")
	}
	one := func(ts ...*tensor.Tensor) page.Source {
		return page.Source{File: tensorfile.FromTensors(ts, nil)}
	}
	v := func(name string, v ...float32) *tensor.Tensor {
		return tensor.New(name, tensor.Shape{int64(len(v))}, v)
	}
	s := page.NewSession(one(v("same", 1), v("value", 1), v("shape", 1), v("a", 1), v("a2", 1)),
		one(v("same", 1), v("value", 2), v("shape", 1, 2), v("b", 1)))
	file := tensorfile.FromTensors(nil, nil)
	twins := page.NewSession(page.Source{Name: "m.zt", Path: "a/m.zt", File: file},
		page.Source{Name: "m.zt", Path: "b/m.zt", File: file})
	if names := call[[]string](t, twins, "files", "{}"); names[0] != "a/m.zt" ||
		names[1] != "b/m.zt" {
		t.Error("files of one name are called", names)
	}
	d := call[difference](t, s, "diff", "{}")
	if want := "2 of 6 tensors differ, 2 only in a, 1 only in b"; d.Summary != want {
		t.Errorf("%q, want %q", d.Summary, want)
	}
}

// An image is drawn in its colours, whichever dimension has them, unless it is asked for
// without; a kernel of three columns is no image.
func TestAPictureOfAnImageHasItsColours(t *testing.T) {
	values := make([]uint8, 2*4*5*3)
	for i := range values {
		values[i] = uint8(i)
	}
	last := tensor.New("last", tensor.Shape{2, 4, 5, 3}, values)
	first := tensor.New("first", tensor.Shape{3, 4, 10}, values)
	shares := tensor.New("shares", tensor.Shape{3, 4, 5}, make([]float32, 60))
	kernel := tensor.New("kernel", tensor.Shape{2, 4, 5, 3}, values)
	kernel.Shape = tensor.Shape{2, 20, 3, 1}
	kernels := tensor.New("kernels", tensor.Shape{4, 10, 1, 3}, values)
	type picture struct {
		Channels, Width, Height int
		Low, High               float64
		Pixels                  []byte
	}
	s := memory(last, first, shares, kernel, kernels)
	for params, want := range map[string]picture{
		`{"tensor":0}`:               {3, 5, 4, 0, 255, []byte{0, 1, 2}},
		`{"tensor":0,"index":[1]}`:   {3, 5, 4, 0, 255, []byte{60, 61, 62}},
		`{"tensor":1}`:               {3, 10, 4, 0, 255, []byte{0, 40, 80}},
		`{"tensor":2}`:               {3, 5, 4, 0, 1, []byte{0, 0, 0}},
		`{"tensor":0,"plain":true}`:  {1, 3, 5, 0, 14, nil},
		`{"tensor":3}`:               {1, 1, 3, 0, 2, nil},
		`{"tensor":4,"index":[0,1]}`: {1, 3, 1, 3, 5, nil},
	} {
		p := call[picture](t, s, "picture", params)
		if p.Channels != want.Channels || p.Width != want.Width || p.Height != want.Height ||
			p.Low != want.Low || p.High != want.High {
			p.Pixels = nil
			t.Errorf("%s: %+v, want %+v", params, p, want)
			continue
		}
		if len(p.Pixels) != p.Channels*p.Width*p.Height {
			t.Errorf("%s: %d pixels", params, len(p.Pixels))
		}
		for i, v := range want.Pixels {
			if got := p.Pixels[i]; got != 1+byte(254*float64(v)/255) {
				t.Errorf("%s: channel %d is %d of %d", params, i, got, v)
			}
		}
	}
}

type graph struct {
	Groups []struct {
		Nodes  []struct{ Label string }
		Edges  []struct{ From, To int }
		Layout struct{ Nodes []struct{ X, Y float64 } }
		Blocks []int
	}
	Links []struct{ Group, Node, To int }
}

func TestEveryEdgeOfAGraphHasItsNodes(t *testing.T) {
	names, err := filepath.Glob("../../testdata/[pr]te*/*.[pr]te*")
	if err != nil || len(names) < 10 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		f, err := tensorfile.Open(name, nil)
		if err != nil {
			continue
		}
		s := page.NewSession(page.Source{File: f})
		for _, method := range []string{"graph", "blocks"} {
			g := call[graph](t, s, method, "{}")
			for _, gr := range g.Groups {
				if len(gr.Layout.Nodes) != len(gr.Nodes) {
					t.Errorf("%s: %d places of %d nodes", name, len(gr.Layout.Nodes),
						len(gr.Nodes))
				}
				for _, e := range gr.Edges {
					if e.From >= len(gr.Nodes) || e.To >= len(gr.Nodes) {
						t.Errorf("%s: edge %v of %d nodes", name, e, len(gr.Nodes))
					}
				}
			}
			for _, l := range g.Links {
				if l.Node >= len(g.Groups[l.Group].Nodes) {
					t.Errorf("%s: link %v", name, l)
				}
			}
		}
		f.Close()
	}
}

func TestFilesSideBySideAreOneModel(t *testing.T) {
	var all []page.Content
	dir := t.TempDir()
	for i := range 2 {
		n := fmt.Sprintf("model-%05d-of-00002.safetensors", i+1)
		b := safetensorsOf(t, filepath.Join(dir, n), n)
		all = append(all, page.Content{ReaderAt: bytes.NewReader(b), Name: n, Size: int64(len(b))})
	}
	src, err := page.OpenContents(all...)
	if err != nil {
		t.Fatal(err)
	}
	if src.File.Len() != 2 || src.Model == nil {
		t.Errorf("%d tensors", src.File.Len())
	}
	text := func(name, data string) page.Content {
		return page.Content{ReaderAt: strings.NewReader(data), Name: name, Size: int64(len(data))}
	}
	const index = "model.safetensors.index.json"
	src, err = page.OpenContents(append([]page.Content{text("config.json", "{}"), text(index,
		`{"weight_map": {"`+all[0].Name+`": "`+all[0].Name+`", "`+all[1].Name+`": "`+all[1].Name+
			`"}}`)}, all...)...)
	if err != nil || src.Name != index {
		t.Errorf("a directory with an index is titled %q, %v", src.Name, err)
	}
	rows := call[[]struct{ Shard string }](t, page.NewSession(src), "tensors", "{}")
	if len(rows) != 2 || rows[0].Shard != all[0].Name || rows[1].Shard != all[1].Name {
		t.Errorf("%+v", rows)
	}
	src, err = page.OpenContents(text("README.md", "# Two models"),
		page.Content{ReaderAt: all[0].ReaderAt, Name: "a.safetensors", Size: all[0].Size},
		page.Content{ReaderAt: all[1].ReaderAt, Name: "b.safetensors", Size: all[1].Size})
	if err != nil || src.Name != "a.safetensors" {
		t.Errorf("two models and a README: %q, %v", src.Name, err)
	}
	if _, err := page.OpenContents(text("README.md", "#"), text("LICENSE", "MIT")); !errors.Is(err,
		tensorfile.ErrUnknownFormat) {
		t.Errorf("no tensor file: %v", err)
	}
	if _, err := page.OpenContents(all[0]); err != nil {
		t.Errorf("a shard by itself: %v", err)
	}
	if _, err := page.OpenContents(); err == nil {
		t.Error("no files are no error")
	}
}

func safetensorsOf(t *testing.T, path, name string) []byte {
	t.Helper()
	w, err := tensorfile.Create(path, tensorfile.Safetensors, nil)
	if err == nil {
		if err = w.Add(tensor.New(name, tensor.Shape{1}, []float32{1})); err == nil {
			err = w.Close()
		}
	}
	b, e := os.ReadFile(path)
	if err := errors.Join(err, e); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAReportHasNoMarkupOfTheFile(t *testing.T) {
	evil := `</script><script>document.title='owned'</script><!--`
	s := page.NewSession(page.Source{Name: evil, File: tensorfile.FromTensors(
		[]*tensor.Tensor{tensor.New(evil, tensor.Shape{1}, []float32{0})},
		map[string]string{evil: "\u2028" + evil})})
	b, err := s.Report(t.Context(), web.Files, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(b, []byte("owned'</script>")) || bytes.Contains(b, []byte("<!--")) {
		t.Error("a name of the file is markup")
	}
	if n := bytes.Count(b, []byte("</script>")); n != 2 {
		t.Errorf("%d scripts", n)
	}
	if !bytes.Contains(b, []byte(`name="backend" content="report"`)) ||
		!bytes.Contains(b, []byte("default-src 'none'; script-src 'sha256-")) {
		t.Errorf("no policy: %.1500s", b)
	}
}

// TestJoinedModulesDeclareNoNameTwice holds what a report does to the modules: the
// names that they declare differ, and no import or export remains.
func TestJoinedModulesDeclareNoNameTwice(t *testing.T) {
	b, err := memory().Report(t.Context(), web.Files, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	script := string(b)
	script = script[strings.Index(script, `<script type="module">`):]
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(?:async )?(?:function|const|let|class) (\w+)`).
		FindAllStringSubmatch(script, -1) {
		if seen[m[1]] {
			t.Errorf("two modules declare %s", m[1])
		}
		seen[m[1]] = true
	}
	if len(seen) < 40 || regexp.MustCompile(`(?m)^(import|export)\b`).MatchString(script) {
		t.Errorf("%d names, or modules that are not joined", len(seen))
	}
}

// TestThePageIsSmall holds the bound of what a browser loads before the first file.
func TestThePageIsSmall(t *testing.T) {
	const limit = 72 << 10
	size := 0
	names, err := fs.Glob(web.Files, "*")
	if err != nil || len(names) < 10 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		b, err := fs.ReadFile(web.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		size += len(b)
	}
	if size > limit {
		t.Errorf("the page has %d bytes, more than %d", size, limit)
	}
}

func TestPlacesOfAPlanAreInItsBuffers(t *testing.T) {
	s := session(t, "pte/export-1.5.1-cond.pte")
	facts := call[struct {
		Info struct {
			PTE struct {
				Methods []struct {
					Memory struct{ Buffers []int64 }
				}
			}
		}
	}](t, s, "facts", "{}")
	plans := call[[][]struct {
		Buffer, First, Last  int
		Offset, Bytes, Value int64
	}](t, s, "plan", "{}")
	if len(plans) != 1 || len(plans[0]) == 0 {
		t.Fatal(plans)
	}
	for _, p := range plans[0] {
		size := facts.Info.PTE.Methods[0].Memory.Buffers[p.Buffer]
		if p.First > p.Last || p.Bytes > size-p.Offset {
			t.Errorf("%v in a buffer of %d bytes", p, size)
		}
	}
}

// A program and its data, dropped together, are the program with the values of its data.
func TestAProgramIsOpenedWithItsData(t *testing.T) {
	var all []page.Content
	for _, name := range []string{"export-1.5.1-external.pte", "export-1.5.1-external.ptd"} {
		b, err := os.ReadFile("../../testdata/pte/" + name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Content{ReaderAt: bytes.NewReader(b), Name: name,
			Size: int64(len(b))})
	}
	src, err := page.OpenContents(all...)
	if err != nil {
		t.Fatal(err)
	}
	external := 0
	for x := range src.File.Tensors() {
		if x.External {
			external++
			if found := src.External(x.Name); found == nil || !found.Shape.Equal(x.Shape) {
				t.Errorf("%s: %v", x.Name, found)
			}
		}
	}
	if src.File.Format() != tensorfile.PTE || external == 0 {
		t.Errorf("%v with %d external tensors", src.File.Format(), external)
	}
}

// program is an .rten of operators, each a name and its inputs: the results of others by
// number, -1 for the input of the program.
func program(t *testing.T, operators [][]any) *page.Session {
	t.Helper()
	g := rten.NewGraphBuilder()
	x := g.Input("x", tensor.F32, rten.Fixed(4))
	var results []rten.Ref
	for _, op := range operators {
		var in []rten.Ref
		for _, i := range op[1:] {
			if i == -1 {
				in = append(in, x)
			} else {
				in = append(in, results[i.(int)])
			}
		}
		results = append(results, g.Op(op[0].(string), nil, in...))
	}
	g.Output("y", results[len(results)-1])
	name := filepath.Join(t.TempDir(), "program.rten")
	if err := g.WriteFile(t.Context(), name, nil); err != nil {
		t.Fatal(err)
	}
	f, err := tensorfile.Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return page.NewSession(page.Source{File: f})
}

func TestChainsOfBlocksCollapseAndBranchesDoNot(t *testing.T) {
	// chain is blocks of operators in a row, of the given length.
	chain := func(blocks, length int) (ops [][]any) {
		names := []string{"Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Exp", "Sqrt"}
		for i := range blocks * length {
			ops = append(ops, []any{names[i%length], i - 1})
		}
		return ops
	}
	// branches are q, k and v of one input, each a row of the same operators.
	branches := func(before string, length int) (ops [][]any) {
		ops = append(ops, []any{before, -1})
		var ends []any
		for range 3 {
			from := 0
			for i := range length {
				names := []string{"Abs", "Neg", "Exp", "Tanh", "Relu"}
				ops = append(ops, []any{names[i*i%7%5], from})
				from = len(ops) - 1
			}
			ends = append(ends, from)
		}
		return append(ops, append([]any{"Sum"}, ends...))
	}
	// layers are blocks that have branches inside.
	layers := func(n int) (ops [][]any) {
		last := -1
		for range n {
			first := len(ops)
			ops = append(ops, []any{"Sqrt", last}, []any{"Abs", first}, []any{"Neg", first + 1},
				[]any{"Abs", first}, []any{"Neg", first + 3}, []any{"Abs", first},
				[]any{"Neg", first + 5}, []any{"Sum", first + 2, first + 4, first + 6})
			last = len(ops) - 1
		}
		return ops
	}
	for name, c := range map[string]struct {
		ops    [][]any
		blocks int
	}{
		"blocks of five":         {chain(12, 5), 12},
		"blocks of four":         {chain(20, 4), 0},
		"fewer than sixty nodes": {chain(11, 5), 0},
		"branches":               {branches("Sqrt", 20), 0},
		"branches, out of step":  {branches("Relu", 20), 0}, // as each branch ends
		"layers with branches":   {layers(8), 8},
	} {
		g := call[graph](t, program(t, c.ops), "blocks", "{}").Groups[0]
		got := map[int]bool{}
		for _, id := range g.Blocks {
			if id >= 0 {
				got[id] = true
			}
		}
		if len(got) != c.blocks {
			t.Errorf("%s: %d blocks of %d nodes, want %d", name, len(got), len(g.Nodes), c.blocks)
		}
	}
}
