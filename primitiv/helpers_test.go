package primitiv_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/tensor"
)

// The helpers of tests in several files. More are in helpers_malformed_test.go: files
// with defects.

func open(t testing.TB, data []byte) *primitiv.Reader {
	t.Helper()
	r, err := primitiv.OpenBytes(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func parametersOf(r *primitiv.Reader) (m parameters) {
	for p := range r.Parameters() {
		m = append(m, *p)
	}
	return m
}

// goldens returns the files that the reference wrote, by name, and what it read from
// each.
func goldens(t testing.TB) (files map[string][]byte, dumps map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testdata, "dumps.txt"))
	if err != nil {
		t.Fatal(err)
	}
	files, dumps = map[string][]byte{}, map[string]string{}
	for _, part := range strings.Split("\n"+string(text), "\nfile ")[1:] {
		name, dump, _ := strings.Cut(part, "\n")
		if files[name], err = os.ReadFile(filepath.Join(testdata, name)); err != nil {
			t.Fatal(err)
		}
		dumps[name] = strings.TrimSuffix(dump, "\n")
	}
	if len(files) < 30 {
		t.Fatalf("%d files", len(files))
	}
	return files, dumps
}

// dump describes a file as interop/tools/primitivref.cpp does.
func dump(t testing.TB, r *primitiv.Reader) string {
	t.Helper()
	var lines []string
	show := func(what string, x *tensor.Tensor, batch uint32) {
		b, err := x.Data.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		dims := slices.Clone(x.Shape)
		if batch > 1 {
			dims = dims[:len(dims)-1]
		}
		bits := ""
		if len(b) <= 4*16 {
			for ; len(b) > 0; b = b[4:] {
				bits += fmt.Sprintf("%08x", binary.LittleEndian.Uint32(b))
			}
		} else {
			h := fnv.New64a()
			h.Write(b)
			bits = fmt.Sprintf("#%016x", h.Sum64())
		}
		lines = append(lines,
			fmt.Sprintf("%s %sx%d %s", what, strings.ReplaceAll(dims.String(), ", ", ","), batch,
				bits))
	}
	parameters := parametersOf(r)
	slices.SortFunc(parameters,
		func(a, b primitiv.Parameter) int { return slices.Compare(a.Path, b.Path) })
	for _, p := range parameters {
		if r.Kind() == primitiv.KindModel {
			line := "parameter"
			for _, e := range p.Path {
				line += fmt.Sprintf(" %x.", e)
			}
			lines = append(lines, line)
		}
		show("value", p.Value, 1)
		slices.SortFunc(p.Stats,
			func(a, b primitiv.Statistic) int { return strings.Compare(a.Name, b.Name) })
		for _, s := range p.Stats {
			show(fmt.Sprintf("stat %x.", s.Name), s.Tensor, s.Batch)
		}
	}
	if o := r.Optimizer(); o != nil {
		slices.SortFunc(o.Uints,
			func(a, b primitiv.Setting[uint32]) int { return strings.Compare(a.Name, b.Name) })
		for _, s := range o.Uints {
			lines = append(lines, fmt.Sprintf("uint %x. %d", s.Name, s.Value))
		}
		slices.SortFunc(o.Floats,
			func(a, b primitiv.Setting[float32]) int { return strings.Compare(a.Name, b.Name) })
		for _, s := range o.Floats {
			lines = append(lines, fmt.Sprintf("float %x. %08x", s.Name, math.Float32bits(s.Value)))
		}
	}
	return strings.Join(lines, "\n")
}

// copyOf writes the content of r anew.
func copyOf(t testing.TB, r *primitiv.Reader, opts primitiv.WriterOptions) []byte {
	t.Helper()
	var b bytes.Buffer
	opts.Kind = r.Kind()
	w := primitiv.NewWriter(&b, &opts)
	if err := fill(w, r); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// join writes MessagePack by hand: strings as they are, integers as uint 32.
func join(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b = append(b, p...)
		case []byte:
			b = append(b, p...)
		case int:
			b = binary.BigEndian.AppendUint32(append(b, 0xce), uint32(p))
		case uint32:
			b = binary.BigEndian.AppendUint32(append(b, 0xce), p)
		default:
			panic(p)
		}
	}
	return b
}

// head is the beginning of a file of that data type.
func head(dataType uint32) []byte { return join(0, 1, dataType) }

// item is a legal MessagePack item of any type code, with v where a number fits, and s
// where bytes do. Arrays and maps of a fixed number of children have so many of them,
// the others n; child makes the i-th.
func item(code byte, v uint32, s string, n int, child func(i int) []byte) []byte {
	b := []byte{code}
	length := func(width, n int) {
		for width--; width >= 0; width-- {
			b = append(b, byte(uint64(n)>>(8*width)))
		}
	}
	children := func(n int) {
		for i := range n {
			b = append(b, child(i)...)
		}
	}
	switch {
	case code >= 0x80 && code <= 0x9f:
		children(int(code & 15))
	case code >= 0xa0 && code <= 0xbf:
		b = append(b, strings.Repeat("n", int(code&31))...)
	case code >= 0xc4 && code <= 0xc6: // bin
		length(1<<(code-0xc4), len(s))
		b = append(b, s...)
	case code >= 0xc7 && code <= 0xc9: // ext
		length(1<<(code-0xc7), len(s))
		b = append(append(b, 1), s...)
	case code == 0xca:
		b = append(b, 0x3f, 0x80, 0, 0)
	case code == 0xcb:
		b = append(b, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0)
	case code >= 0xcc && code <= 0xcf:
		length(1<<(code-0xcc), int(v))
	case code >= 0xd0 && code <= 0xd3:
		length(1<<(code-0xd0), int(v))
	case code >= 0xd4 && code <= 0xd8: // fixext
		b = append(append(b, 1), strings.Repeat("\x00", 1<<(code-0xd4))...)
	case code >= 0xd9 && code <= 0xdb:
		length(1<<(code-0xd9), len(s))
		b = append(b, s...)
	case code == 0xdc, code == 0xde:
		length(2, n)
		children(n)
	case code == 0xdd, code == 0xdf:
		length(4, n)
		children(n)
	}
	return b
}

func stat(i int) []byte { return join(name(i), tensorOf2) }

func row(i int) []byte { return join("\x91", name(i), tensorOf2, 0) }

func names(r *primitiv.Reader) string {
	var all []string
	for t := range r.Tensors() {
		all = append(all, t.Name+t.Shape.String())
	}
	return strings.Join(all, " ")
}

// edited is the file of r with changes.
func edited(t testing.TB, r *primitiv.Reader, change func(e *primitiv.Edit) error) []byte {
	t.Helper()
	e := primitiv.NewEdit(r)
	if err := change(e); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := e.Write(t.Context(), &b, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// walk opens a file and looks at everything in it.
func walk(r *primitiv.Reader) error {
	for x := range r.Tensors() {
		if err := x.Check(); err != nil {
			return err
		}
		b, err := x.Data.ReadAll()
		if err != nil {
			return err
		}
		if int64(len(b)) != x.Size() {
			return fmt.Errorf("%s: %d bytes", x.Name, len(b))
		}
		if y := r.Tensor(x.Name); y == nil {
			return fmt.Errorf("%s is not found", x.Name)
		}
		if _, ok := primitiv.OriginOf(x); !ok {
			return fmt.Errorf("%s has no origin", x.Name)
		}
	}
	for p := range r.Parameters() {
		if q := r.Parameter(p.Path...); q == nil || q.Value.Name != p.Value.Name {
			return fmt.Errorf("%v is not found", p.Path)
		}
	}
	if o := r.Optimizer(); o != nil {
		o.Name()
	}
	return nil
}

// parameters are the parameters of a model.
type parameters []primitiv.Parameter

func (m parameters) addTo(w *primitiv.Writer) error {
	for i := range m {
		if err := w.AddParameter(&m[i]); err != nil {
			return err
		}
	}
	return w.Close()
}

func (m parameters) Write(w io.Writer, opts *primitiv.WriterOptions) error {
	return m.addTo(primitiv.NewWriter(w, opts))
}

func (m parameters) WriteFile(name string, opts *primitiv.WriterOptions) error {
	w, err := primitiv.Create(name, opts)
	if err != nil {
		return err
	}
	defer w.Abort()
	return m.addTo(w)
}

func written(t testing.TB, m parameters, opts *primitiv.WriterOptions) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := m.Write(&b, opts); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const testdata = "../testdata/primitiv"

var api = readtest.API[*primitiv.Reader]{
	Open: func(name string, noMap bool) (*primitiv.Reader, error) {
		return primitiv.Open(name, &primitiv.ReaderOptions{NoMap: noMap})
	},
	OpenBytes: func(b []byte) (*primitiv.Reader, error) { return primitiv.OpenBytes(b, nil) },
	NewReader: func(r io.ReaderAt, size int64) (*primitiv.Reader, error) {
		return primitiv.NewReader(r, size, nil)
	},
}

// fill gives everything that is in r to w, piece by piece.
func fill(w *primitiv.Writer, r *primitiv.Reader) error {
	switch r.Kind() {
	case primitiv.KindShape:
		return w.SetShape(r.Shape())
	case primitiv.KindOptimizer:
		return w.SetOptimizer(r.Optimizer())
	case primitiv.KindTensor:
		for x := range r.Tensors() {
			return w.Add(x)
		}
	}
	for p := range r.Parameters() {
		if err := w.AddParameter(p); err != nil {
			return err
		}
	}
	return nil
}

// reference is interop/tools/primitivref.cpp, or nothing and the test is skipped.
func reference(t testing.TB) string {
	t.Helper()
	ref := os.Getenv("TENSORFILE_PRIMITIVREF")
	if ref == "" {
		t.Skip("needs TENSORFILE_PRIMITIVREF=$(interop/tools.sh primitivref)")
	}
	return ref
}

func run(t testing.TB, stdin []byte, command string, args ...string) string {
	t.Helper()
	c := exec.Command(command, args...)
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(stdin), &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("%s %s: %v %s", filepath.Base(command), strings.Join(args, " "), err,
			errs.String())
	}
	return out.String()
}

// verdicts asks the reference about each file: A accepted, R refused, X died.
func verdicts(t testing.TB, files [][]byte) string {
	t.Helper()
	var in []byte
	for _, f := range files {
		in = binary.LittleEndian.AppendUint32(in, uint32(len(f)))
		in = append(in, f...)
	}
	v := run(t, in, reference(t), "verdicts")
	if len(v) != len(files) {
		t.Fatalf("%d verdicts on %d files", len(v), len(files))
	}
	return v
}
