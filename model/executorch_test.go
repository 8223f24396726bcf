package model

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/tensor"
)

// programOf is a program that has float32 tensors of shape [2, 3] in another file.
func programOf(t *testing.T, names ...string) string {
	t.Helper()
	b := pte.NewBuilder()
	m := b.Method("forward")
	for _, n := range names {
		m.Declare(pte.RoleExternal, n, tensor.F32, tensor.Shape{2, 3})
	}
	m.Return(m.Constant(tensor.New("one", tensor.Shape{1}, []float32{1})))
	var out bytes.Buffer
	if err := b.Write(t.Context(), &out, nil); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func ptdOf(t *testing.T, all ...*tensor.Tensor) string {
	t.Helper()
	var out bytes.Buffer
	w := ptd.NewWriter(&out, nil)
	if err := w.AddAll(t.Context(), tensor.Of(all...)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestProgramsNameTheirMissingExternalTensors(t *testing.T) {
	weight := func(name string) *tensor.Tensor {
		return tensor.New(name, tensor.Shape{2, 3}, make([]float32, 6))
	}
	columns := weight("b")
	columns.Order = tensor.Order{1, 0}
	program, both := programOf(t, "a", "b"), ptdOf(t, weight("a"), weight("b"))
	for _, c := range []struct {
		name  string
		files map[string]any
		want  []string // code, tensor and message
	}{
		{"all are there", map[string]any{"m.pte": program, "m.ptd": both}, nil},
		{"in two files, of another name",
			map[string]any{"m.pte": program, "x.ptd": ptdOf(t, weight("b")),
				"y.ptd": ptdOf(t, weight("a"))}, nil},
		{"two programs and their files, which have the same names",
			map[string]any{"m.pte": program, "m.ptd": both, "n.pte": programOf(t, "a"),
				"n.ptd": ptdOf(t, tensor.New("a", tensor.Shape{5}, make([]int8, 5)))}, nil},
		{"no program", map[string]any{"m.ptd": both}, nil},
		{"no external tensors", map[string]any{"m.pte": programOf(t)}, nil},
		{"no file", map[string]any{"m.pte": program}, []string{
			`missing-weights : no .ptd next to it has its external tensors, such as "a", ` +
				"float32[2, 3]"}},
		{"one is missing", map[string]any{"m.pte": program, "m.ptd": ptdOf(t, weight("a"))},
			[]string{`missing-weights b: no external tensor "b", float32[2, 3], in "m.ptd"`}},
		{"one is missing in two files",
			map[string]any{"m.pte": program, "m.ptd": ptdOf(t, weight("a")),
				"n.ptd": ptdOf(t, weight("c"))},
			[]string{`missing-weights b: no external tensor "b", float32[2, 3], in "m.ptd", ` +
				`"n.ptd"`,
				`unused-weights : no program next to it has 1 of its keys, such as "c"`}},
		{"more than a program has", map[string]any{"m.pte": programOf(t, "a"), "m.ptd": both},
			[]string{`unused-weights : no program next to it has 1 of its keys, such as "b"`}},
		{"more than a damaged program", map[string]any{"m.pte": "\xff\xff\xff\x7f" + program[4:],
			"m.ptd": both},
			[]string{"malformed "}},
		{"another dtype", map[string]any{"m.pte": program, "k.ptd": ptdOf(t, weight("a")),
			"m.ptd": ptdOf(t, tensor.New("b", tensor.Shape{2, 3}, make([]int32, 6)))},
			[]string{`weights-mismatch b: external tensor "b" is int32[2, 3], order [], not ` +
				`float32[2, 3], order [], in "m.ptd"`}},
		{"another shape", map[string]any{"m.pte": program, "m.ptd": ptdOf(t, weight("a"),
			tensor.New("b", tensor.Shape{3, 2}, make([]float32, 6)))},
			[]string{`weights-mismatch b: external tensor "b" is float32[3, 2], order [], not ` +
				`float32[2, 3], order [], in "m.ptd"`}},
		{"another order", map[string]any{"m.pte": program,
			"m.ptd": ptdOf(t, weight("a"), columns)},
			[]string{`weights-mismatch b: external tensor "b" is float32[2, 3], order [1 0], not ` +
				`float32[2, 3], order [], in "m.ptd"`}},
		{"a blob", map[string]any{"m.pte": program, "m.ptd": ptdOf(t, weight("a"),
			tensor.New("b", nil, []float32{1}))},
			[]string{`weights-mismatch b: external tensor "b" is float32[], order [], not ` +
				`float32[2, 3], order [], in "m.ptd"`}},
		{"a file that is cut", map[string]any{"m.pte": program, "m.ptd": both[:len(both)-8]},
			[]string{"truncated "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := fixture(c.files)
			m, err := OpenFS(fsys, ".", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			var got []string
			for _, f := range m.Findings() {
				got = append(got, string(f.Code)+" "+f.Tensor+": "+f.Err.Error())
			}
			if len(got) != len(c.want) {
				t.Fatalf("%q", got)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], strings.TrimSuffix(c.want[i], " ")) {
					t.Errorf("%s, want %s", got[i], c.want[i])
				}
			}
			programs := 0
			for name := range c.files {
				programs += strings.Count(name, ".pte")
			}
			sets := 0
			for s := range m.Sets() {
				sets++
				files := 1 + len(c.files) - programs
				if s.Format.String() == "pte" && len(s.Files) != files {
					t.Errorf("%s: %q", s.Name, s.Files)
				}
			}
			if sets != max(programs, 1) {
				t.Errorf("%d sets", sets)
			}
		})
	}
}

// The tensors of these are all there, and every command opens them.
func TestWholeIgnoresFindingsThatAreNoDamage(t *testing.T) {
	m, err := OpenFS(fixture(map[string]any{"m.pte": programOf(t, "a")}), ".", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if s, err := m.Whole(); err != nil || s.Tensors != 2 {
		t.Errorf("%+v, %v", s, err)
	}
}
