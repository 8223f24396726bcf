package pte

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// bundles are some with all that a bundle can have, and the program of each.
func bundles(t testing.TB) (all []*Bundle, programs [][]byte) {
	add := func(b *Bundle, program []byte) {
		all, programs = append(all, b), append(programs, program)
	}
	r := openFile(t, "../testdata/pte/export-1.5.1-bundled.bpte")
	add(r.Bundle(), program(t, r))
	b := NewBuilder()
	m := b.Method("größe")
	x := m.Input(tensor.F32, tensor.Shape{1, 2, 1, 2}).Order(tensor.Order{0, 2, 3, 1}).Bound()
	k, flag, d := m.Value(7), m.Value(false), m.Value(float64(0))
	m.Accept(k)
	m.Accept(flag)
	m.Accept(d)
	y := m.Tensor(tensor.F32, tensor.Shape{1, 2, 1, 2}).Order(tensor.Order{0, 2, 3, 1}).Bound()
	m.Call("aten::add.out", x, x, m.Value(1), y, y)
	m.Return(y, k, flag, d)
	b.Method("nothing").Return()
	b.Named("page", tensor.BlobOf(make([]byte, 5000)), 4096)
	var w bytes.Buffer
	if err := b.Write(t.Context(), &w, nil); err != nil {
		t.Fatal(err)
	}
	in := tensor.New("", tensor.Shape{1, 2, 1, 2}, []float32{1, float32(math.Inf(1)), -3, 4})
	in.Order = tensor.Order{0, 2, 3, 1}
	out := tensor.New("", tensor.Shape{1, 2, 1, 1}, []float32{2, 4})
	add(&Bundle{Suites: []TestSuite{
		{"größe", []TestCase{{[]any{in, 7, true, math.Copysign(0, -1)},
			[]any{out, int64(math.MinInt64), false, -0.0625}},
			{[]any{out, -1, false, 0.0}, []any{in, 0, true, math.MaxFloat64}}}},
		{"nothing", []TestCase{{}}}, {"nothing", nil},
	}}, w.Bytes())
	add(new(Bundle), base(t, "export-1.5.1-xnnpack.pte"))
	return all, programs
}

func bundle(t testing.TB, b *Bundle, program []byte) []byte {
	t.Helper()
	var w bytes.Buffer
	if err := b.Write(t.Context(), &w, program); err != nil {
		t.Fatal(err)
	}
	return w.Bytes()
}

func TestBundlesAreWritten(t *testing.T) {
	all, inside := bundles(t)
	for i, b := range all {
		data := bundle(t, b, inside[i])
		r, err := OpenBytes(data, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Verify(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(program(t, r), inside[i]) {
			t.Errorf("bundle %d: another program", i)
		}
		if at, size := r.Range(); at%32 != 0 || r.Bundle().Version != 2 ||
			size != int64(len(inside[i])) || r.Size() != int64(len(data)) {
			t.Errorf("bundle %d: version %d, the program at %d", i, r.Bundle().Version, at)
		}
		if got, want := plain(t, suites(t, r.Bundle())),
			plain(t, suites(t, b)); !reflect.DeepEqual(got, want) {
			t.Errorf("bundle %d: got %v, want %v", i, got, want)
		}
		if again := bundle(t, r.Bundle(), program(t, r)); !bytes.Equal(again, data) {
			t.Errorf("bundle %d: other bytes when it is written again", i)
		}
	}
}

// The test cases around the same program in a new guise.
func TestBundleKeepsItsTestCasesAroundAnotherProgram(t *testing.T) {
	r := openFile(t, "../testdata/pte/export-1.5.1-bundled.bpte")
	e := NewEdit(r)
	e.Unwrap()
	other := program(t, rewrittenWith(t, e, &WriterOptions{SegmentAlignment: 4096}))
	if bytes.Equal(other, program(t, r)) {
		t.Fatal("the same program")
	}
	got, err := OpenBytes(bundle(t, r.Bundle(), other), nil)
	if err != nil {
		t.Fatal(err)
	}
	sameFacts(t, r, got, "run")
	if !reflect.DeepEqual(plain(t, suites(t, got.Bundle())), plain(t, suites(t, r.Bundle()))) ||
		!bytes.Equal(program(t, got), other) {
		t.Error("other test cases, or another program")
	}
}

func TestBundlesThatDoNotFitAreRefused(t *testing.T) {
	r := openFile(t, "../testdata/pte/export-1.5.1-bundled.bpte")
	p := program(t, r)
	good := func() TestCase { return r.Bundle().Suites[0].Cases[0] }
	method := r.Bundle().Suites[0].Method
	short := *good().Inputs[0].(*tensor.Tensor)
	short.Data = tensor.BlobOf([]byte{1})
	other := tensor.New("", good().Inputs[0].(*tensor.Tensor).Shape, []int8{1})
	for name, c := range map[string]struct {
		method string
		change func(*TestCase)
	}{
		"no such method": {"backward", func(*TestCase) {}},
		"an input less":  {method, func(c *TestCase) { c.Inputs = c.Inputs[1:] }},
		"an output more": {method,
			func(c *TestCase) {
				c.Outputs = append(c.Outputs[:len(c.Outputs):len(c.Outputs)],
					1)
			}},
		"an integer": {method,
			func(c *TestCase) { c.Inputs = append([]any{int64(1)}, c.Inputs[1:]...) }},
		"nothing": {method,
			func(c *TestCase) { c.Inputs = append([]any{nil}, c.Inputs[1:]...) }},
		"another kind": {method,
			func(c *TestCase) { c.Inputs = append([]any{"text"}, c.Inputs[1:]...) }},
		"too few bytes": {method,
			func(c *TestCase) { c.Inputs = append([]any{&short}, c.Inputs[1:]...) }},
		"another dtype": {method,
			func(c *TestCase) { c.Inputs = append([]any{other}, c.Inputs[1:]...) }},
	} {
		x := good()
		c.change(&x)
		b := &Bundle{Suites: []TestSuite{{c.method, []TestCase{x}}}}
		err := b.Write(t.Context(), io.Discard, p)
		if !errors.Is(err, tensor.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	whole := bundle(t, r.Bundle(), p)
	err := r.Bundle().Write(t.Context(), io.Discard, whole)
	if !errors.Is(err, tensor.ErrMalformed) {
		t.Errorf("a bundle inside a bundle: %v", err)
	}
	for n := range 4 {
		var w bytes.Buffer
		if err := r.Bundle().Write(t.Context(), &w, p[:n]); err == nil || w.Len() > 0 {
			t.Error("no program, and no error")
		}
	}
}

// TestBundleFactsEqualTheReference has ExecuTorch's own flatc and schema read what is
// written, its deserializer the program inside, and its runtime run it.
func TestBundleFactsEqualTheReference(t *testing.T) {
	command := os.Getenv("TENSORFILE_PTE_EXPECT")
	if command == "" {
		t.Skip("TENSORFILE_PTE_EXPECT names no command: run by interop/pte.sh")
	}
	all, inside := bundles(t)
	for i, b := range all {
		t.Run(string(rune('1'+i)), func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "b.bpte")
			if err := os.WriteFile(name, bundle(t, b, inside[i]), 0o666); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("sh", "-c", command+" "+name).Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var want map[string]any
			d := json.NewDecoder(bytes.NewReader(out))
			d.UseNumber()
			if err := d.Decode(&want); err != nil {
				t.Fatal(err)
			}
			got := plain(t, describe(t, openFile(t, name))).(map[string]any)
			for k := range got {
				if !reflect.DeepEqual(got[k], want[k]) {
					t.Errorf("%s: got %v, want %v", k, got[k], want[k])
				}
			}
		})
	}
}

// The place of what is wrong counts from the start of the file.
func TestErrorsInABundleCountFromTheStartOfTheFile(t *testing.T) {
	b := base(t, "export-1.5.1-bundled.bpte")
	at := bytes.Index(b, []byte("ET12"))
	for _, id := range []string{"ET13", "FT01"} {
		copy(b[at:], id)
		_, err := OpenBytes(b, nil)
		var e *tensor.FormatError
		if !errors.As(err, &e) || e.Field != "file_identifier" || e.Offset != int64(at) {
			t.Errorf("%s at %d: %v", id, at, err)
		}
	}
}
