package ptn

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/internal/readtest/lifecycle"
	"github.com/tensorfile/tensorfile/schema/ptnfb"
	"github.com/tensorfile/tensorfile/tensor"
)

var api = readtest.API[*Reader]{
	Open: func(name string, noMap bool) (*Reader, error) {
		return Open(name, &ReaderOptions{NoMap: noMap})
	},
	OpenBytes: func(b []byte) (*Reader, error) { return OpenBytes(b, nil) },
	NewReader: func(r io.ReaderAt, size int64) (*Reader, error) { return NewReader(r, size, nil) },
}

func TestSourcesMayFailChangeAndClose(t *testing.T) {
	lifecycle.Test(t, api, "../testdata/ptn/export-1.5.1-tied.ptn",
		"../testdata/ptn/export-1.5.1-dtypes.ptn")
}

func TestDetectKnowsThePrograms(t *testing.T) {
	program := member{programMember, sound().bytes(t)}
	whole := archived(t, program, member{weightsMember, weight()})
	other := member{"readme", make([]byte, 100)}
	for _, c := range []struct {
		name string
		b    []byte
		want bool
	}{
		{"a package", whole, true},
		{"a package that is cut", whole[:len(whole)-30], true},
		{"the header of the first member", whole[:41], true},
		{"less than that", whole[:40], false},
		{"a package with the program last", archived(t, other, program), true},
		{"that cut", archived(t, other, program)[:200], false},
		{"a program in a directory", archived(t, member{"model/" + programMember, program.data}),
			false},
		{"a program by another name", archived(t, member{"Program.ptg", program.data}), false},
		{"a checkpoint", archived(t, program, member{"archive/data.pkl", []byte{0x80}}), false},
		{"an archive", archived(t, other), false},
		{"a program", program.data, true},
		{"the start of one", program.data[:8], true},
		{"less", program.data[:7], false},
		{"nothing", nil, false},
	} {
		if got := Detect(bytes.NewReader(c.b), int64(len(c.b))); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestOpenRefusesWhatNoReaderReads has what no reader of ExecuTorch reads, or not all.
func TestOpenRefusesWhatNoReaderReads(t *testing.T) {
	program, data := member{programMember, sound().bytes(t)}, member{weightsMember, weight()}
	aliases := func(text string) []byte {
		return archived(t, program, data, member{aliasesMember, []byte(text)})
	}
	deflated := func(name string) []byte {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		for _, m := range []member{program, data} {
			h := &zip.FileHeader{Name: m.name}
			if m.name == name {
				h.Method = zip.Deflate
			}
			f, err := w.CreateHeader(h)
			if err == nil {
				_, err = f.Write(m.data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		return b.Bytes()
	}
	changed := func(b []byte, at int, text string) []byte {
		b = bytes.Clone(b)
		copy(b[at:], text)
		return b
	}
	whole := archived(t, program, data)
	central := bytes.LastIndex(whole, []byte("PK\x01\x02"))
	for _, c := range []struct {
		name  string
		b     []byte
		class error
		want  string
	}{
		{"an empty file", nil, tensor.ErrMalformed, "identifier"},
		{"no program", archived(t, data), tensor.ErrMalformed, "it has no program.ptg"},
		{"no members", archived(t), tensor.ErrMalformed, "it has no program.ptg"},
		{"another identifier", archived(t, member{programMember, changed(program.data, 4,
			"NPTH")}),
			tensor.ErrMalformed, "program.ptg at byte 0x29: the identifier is not NPTG"},
		{"an offset outside", archived(t, member{programMember, changed(program.data, 0,
			"\xff\xff")}),
			tensor.ErrMalformed, "at byte 0x29"},
		{"two programs", archived(t, program, program), tensor.ErrMalformed, "duplicate member"},
		{"a compressed program", deflated(programMember), errors.ErrUnsupported, "compressed"},
		{"compressed weights", deflated(weightsMember), errors.ErrUnsupported, "compressed"},
		{"an encrypted member", changed(whole, central+8, "\x01"), errors.ErrUnsupported,
			"encrypted"},
		{"a name that differs", changed(whole, 30, "Program"), tensor.ErrMalformed,
			"another name"},
		{"no end", whole[:central], io.ErrUnexpectedEOF, "no end record"},
		{"weights of no header", archived(t, program, member{weightsMember, []byte("123")}),
			io.ErrUnexpectedEOF, "header"},
		{"weights with a hole", archived(t, program, member{weightsMember, weights(30,
			map[string]any{"a": entry{"U8", []int64{30}, [2]int64{1, 31}}})}),
			tensor.ErrMalformed, "hole"},
		{"bytes after the weights", archived(t, program, member{weightsMember,
			append(weight(), 0)}), tensor.ErrMalformed, "1 bytes after the last tensor"},
		{"aliases without weights", archived(t, program, member{aliasesMember,
			[]byte(`{"a":"b"}`)}), tensor.ErrMalformed, `no tensor "b" is stored`},
		{"no object", aliases(`["a"]`), tensor.ErrMalformed, "aliases.json at byte"},
		{"an owner that is not text", aliases(`{"a":1}`), tensor.ErrMalformed, "aliases.json"},
		{"an owner that is not stored", aliases(`{"a":"b"}`), tensor.ErrMalformed,
			`no tensor "b"`},
		{"an alias of an alias", aliases(`{"a":"fc.weight","b":"a"}`), tensor.ErrMalformed,
			`aliases["b"]`},
		{"an alias of itself", aliases(`{"a":"a"}`), tensor.ErrMalformed, `no tensor "a"`},
		{"an alias that is stored", aliases(`{"fc.weight":"fc.weight"}`), tensor.ErrMalformed,
			"a tensor of that name is stored"},
		{"a reserved alias", aliases(`{"__metadata__":"fc.weight"}`), tensor.ErrMalformed,
			"reserved"},
		{"bytes after the object", aliases(`{} x`), tensor.ErrMalformed, "bytes after the object"},
		{"aliases that are cut", aliases(`{"a":"fc.weight"`), tensor.ErrMalformed, "aliases.json"},
	} {
		r, err := OpenBytes(c.b, nil)
		if !errors.Is(err, c.class) || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: got %v, want %v: %s", c.name, err, c.class, c.want)
		}
		if err == nil {
			r.Close()
		}
	}
}

// TestOpenWarnsOfDeviations has what is read with a warning, and what is no deviation.
func TestOpenWarnsOfDeviations(t *testing.T) {
	program, data := member{programMember, sound().bytes(t)}, member{weightsMember, weight()}
	aliases := func(text string) []byte {
		return archived(t, program, data, member{aliasesMember, []byte(text)})
	}
	for _, c := range []struct {
		name    string
		b       []byte
		len     int
		warning string
	}{
		{"no weights", archived(t, program), 0, ""},
		{"no aliases", aliases("{}"), 1, ""},
		{"two aliases", aliases(" {\n \"a\" : \"fc.weight\", \"\\u00e9\\n\":\"fc.weight\"}\n"), 3,
			""},
		{"an alias twice", aliases(`{"a":"fc.weight","a":"fc.weight"}`), 2, `aliases["a"]`},
		{"another order", archived(t, data, program), 1, ""},
		{"more members", archived(t, member{"../evil", []byte("x")}, program, data), 1, ""},
		{"an empty name", archived(t, program, member{weightsMember, weights(1,
			map[string]any{"": entry{"U8", []int64{1}, [2]int64{0, 1}}})}), 1, ""},
		{"bytes after the end", append(archived(t, program, data), "more"...), 1, "4 bytes after"},
		{"metadata", archived(t, program, member{weightsMember, weights(0,
			map[string]any{"__metadata__": map[string]string{"k": "v"}})}), 0, "__metadata__"},
	} {
		r, err := OpenBytes(c.b, nil)
		if err != nil || r.Len() != c.len {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		w := r.Warnings()
		if (len(w) > 0) != (c.warning != "") || c.warning != "" &&
			!strings.Contains(w[0].Error(), c.warning) {
			t.Errorf("%s: warnings %v", c.name, w)
		}
		_, err = OpenBytes(c.b, &ReaderOptions{Strict: true})
		if (err != nil) != (c.warning != "") {
			t.Errorf("%s: strict: %v", c.name, err)
		}
	}
}

func TestAliasesShareTheirBytes(t *testing.T) {
	r, err := Open("../testdata/ptn/export-1.5.1-tied.ptn", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	owner, alias := r.Tensor("layers.0.weight"), r.Tensor("layers.2.weight")
	a, _ := owner.Data.Stored()
	b, _ := alias.Data.Stored()
	if a != b || !alias.Shape.Equal(tensor.Shape{4, 4}) || alias.DType != tensor.F32 {
		t.Errorf("%+v, its alias %+v", a, b)
	}
	if name, ok := r.Owner("layers.2.weight"); name != "layers.0.weight" || !ok {
		t.Errorf("the owner is %q, %v", name, ok)
	}
	for _, name := range []string{"layers.0.weight", "absent"} {
		if owner, ok := r.Owner(name); ok {
			t.Errorf("%s is an alias of %s", name, owner)
		}
	}
}

func TestAProgramListsItsConstantsOnce(t *testing.T) {
	p, second := sound(), sound().at(methods, 0)
	second[ptnfb.SlotMethodName] = "second"
	grown(second, constants, table{
		ptnfb.SlotNamedTensorRefName: "v", ptnfb.SlotNamedTensorRefDataKey: "fc.bias",
		ptnfb.SlotNamedTensorRefMeta: meta(ptnfb.ScalarTypeUINT16, 7),
	})
	grown(p, methods, second)
	r, err := OpenBytes(p.bytes(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for x := range r.Tensors() {
		got += fmt.Sprintf("%s %v%v %v, ", x.Name, x.DType, x.Shape, x.External)
	}
	if got != "fc.weight float32[2, 3] true, fc.bias uint16[7] true, " {
		t.Error(got)
	}
	p.at(methods, 1, constants, 1, ptnfb.SlotNamedTensorRefMeta, ptnfb.SlotTensorMetaSizes,
		0)[ptnfb.SlotDimMax] = int64(-5)
	p.at(methods, 1, constants, 1, ptnfb.SlotNamedTensorRefMeta, ptnfb.SlotTensorMetaSizes,
		0)[ptnfb.SlotDimMin] = int64(-5)
	if _, err = OpenBytes(p.bytes(t), nil); !errors.Is(err, tensor.ErrMalformed) {
		t.Errorf("a negative dimension: %v", err)
	}
}

func TestSpansNameMembersThatAreIgnored(t *testing.T) {
	b := archived(t, member{programMember, sound().bytes(t)}, member{weightsMember, weight()},
		member{"notes", []byte("1234567")})
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	at, seen := int64(0), ""
	for s := range r.Spans() {
		if s.Offset != at {
			t.Fatalf("a hole at %d", at)
		}
		at += s.Size
		if s.Name != "" {
			seen += fmt.Sprintf(" %v %s %d", s.Kind, s.Name, s.Size)
		}
	}
	if want := " tensor fc.weight 24 unused notes 7"; at != int64(len(b)) || seen != want {
		t.Errorf("%d of %d bytes:%s", at, len(b), seen)
	}
}

func TestLimitsAreKept(t *testing.T) {
	whole, err := os.ReadFile("../testdata/ptn/export-1.5.1-tied.ptn")
	if err != nil {
		t.Fatal(err)
	}
	program := sound().bytes(t)
	for name, l := range map[string]tensor.Limits{
		"tensors": {MaxTensors: 5}, "names": {MaxName: 10}, "rank": {MaxRank: 1},
		"metadata": {MaxMetadata: 300},
	} {
		if _, err := OpenBytes(whole, &ReaderOptions{Limits: l}); !errors.Is(err,
			tensor.ErrLimit) {
			t.Errorf("%s of a package: %v", name, err)
		}
		if name == "tensors" {
			continue
		}
		l.MaxName = min(l.MaxName, 5)
		if _, err := OpenBytes(program, &ReaderOptions{Limits: l}); !errors.Is(err,
			tensor.ErrLimit) {
			t.Errorf("%s of a program: %v", name, err)
		}
	}
}

// TestOpeningTakesMemoryInProportion opens files that are all names.
func TestOpeningTakesMemoryInProportion(t *testing.T) {
	readtest.Measure(t)
	var text strings.Builder
	text.WriteString(`{"0":"fc.weight"`)
	for i := range 200_000 {
		fmt.Fprintf(&text, `,"%x":"fc.weight"`, i+1)
	}
	text.WriteString("}")
	text2 := strings.ReplaceAll(text.String(), "fc.weight", "Z")
	data := weights(1, map[string]any{"Z": entry{"U8", []int64{1}, [2]int64{0, 1}}})
	b := archived(t, member{programMember, sound().bytes(t)}, member{weightsMember, data},
		member{aliasesMember, []byte(text2)})
	peak := readtest.PeakHeap(func() {
		r, err := OpenBytes(b, nil)
		if err != nil || r.Len() != 200_002 {
			t.Fatal(err)
		}
	})
	if most := int64(8*len(text2) + 1<<20); peak > most {
		t.Errorf("%d bytes for %d of metadata", peak, len(text2))
	}
}

// TestDamagedProgramsAreReadOrRefused opens and walks the program of a package with
// every byte of it changed.
func TestDamagedProgramsAreReadOrRefused(t *testing.T) {
	name := "../testdata/ptn/export-1.5.1-linear.ptn"
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	readtest.Damage(t, b, 0, len(b), func(b []byte) error {
		r, err := OpenBytes(b, nil)
		if err != nil {
			var fe *tensor.FormatError
			if !errors.As(err, &fe) || fe.Format != string(errs) {
				t.Errorf("not an error of the format: %v", err)
			}
			return err
		}
		walk(t, r)
		return nil
	})
}

// walk reads everything and returns how many bytes that shows.
func walk(t testing.TB, r *Reader) (shown int64) {
	see := func(s ...string) {
		for _, s := range s {
			shown += int64(len(s)) + 16
		}
	}
	for x := range r.Tensors() {
		b, err := x.Data.ReadAll()
		if _, ok := r.Owner(x.Name); err == nil && !ok {
			shown += int64(len(b))
		}
		see(x.Name, fmt.Sprint(x.Shape))
		if x.Check() != nil && x.DType.Known() {
			t.Errorf("a tensor that does not hold together: %v", x.Check())
		}
	}
	for k, v := range r.Attributes() {
		see(k, v)
	}
	end := int64(0)
	for s := range r.Spans() {
		if s.Offset != end || s.Size <= 0 {
			t.Errorf("a span at %d after %d", s.Offset, end)
		}
		end = s.Offset + s.Size
	}
	var graph func(g *Graph)
	graph = func(g *Graph) {
		see(g.Inputs...)
		see(g.Outputs...)
		for name, info := range g.Values() {
			see(name, info.String())
		}
		for n := range g.Nodes() {
			see(n.Name, n.Operator)
			see(n.Results...)
			for _, a := range n.Arguments {
				see(a.Name, a.Text)
				see(a.References...)
				if a.Graph != nil {
					graph(a.Graph)
				}
			}
		}
	}
	for m := range r.Methods() {
		see(m.Name())
		for c := range m.Constants() {
			see(c.Name, c.Key, c.Kind, c.Info.String())
		}
		for o := range m.Outputs() {
			see(o.Name, o.Kind, o.Target)
		}
		for name, fqn := range m.MutableBuffers() {
			see(name, fqn)
		}
		graph(m.Graph())
	}
	report, _ := r.Verify(t.Context(), nil)
	for _, f := range report.Findings {
		see(f.String())
	}
	return shown
}

// FuzzOpen opens and walks everything.
func FuzzOpen(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, strict := range []bool{false, true} {
			r, err := OpenBytes(b, &ReaderOptions{Strict: strict})
			if err != nil {
				continue
			}
			if shown := walk(t, r); shown > 1<<22+1000*int64(len(b)) {
				t.Errorf("%d bytes show %d", len(b), shown)
			}
		}
	})
}
