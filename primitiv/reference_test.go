package primitiv_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/tensor"
)

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

func TestFilesOfTheReferenceReadWithEqualValues(t *testing.T) {
	files, dumps := goldens(t)
	for name, data := range files {
		t.Run(name, func(t *testing.T) {
			got := api.Same(t, data, func(r *primitiv.Reader) string {
				if w := r.Warnings(); len(w) > 0 {
					t.Errorf("warnings about a genuine file: %v", w)
				}
				if kind, _, _ := strings.Cut(name, "-"); kind != r.Kind().String() {
					t.Errorf("%v", r.Kind())
				}
				if _, err := r.Verify(t.Context(),
					&tensor.VerifyOptions{Depth: tensor.VerifyCanonical,
						Strict: true}); err != nil {
					t.Error(err)
				}
				return dump(t, r)
			})
			if got != dumps[name] {
				t.Errorf("we read\n%s\nthe reference\n%s", got, dumps[name])
			}
		})
	}
}

func TestFilesOfTheReferenceAreWrittenByteForByte(t *testing.T) {
	files, _ := goldens(t)
	for name, data := range files {
		api.Each(t, data, func(t *testing.T, r *primitiv.Reader) {
			if got := copyOf(t, r, primitiv.WriterOptions{}); !bytes.Equal(got, data) {
				t.Errorf("%s by AddParameter differs", name)
			}
			if r.Len() == 0 {
				return
			}
			var b bytes.Buffer
			w := primitiv.NewWriter(&b, &primitiv.WriterOptions{Kind: r.Kind()})
			if err := w.AddAll(t.Context(), tensor.Each(r.Tensors())); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b.Bytes(), data) {
				t.Errorf("%s by Add differs", name)
			}
		})
	}
}

// column-major: element (i, j, k) of the tensor is 100i + 10j + k.
func TestElementsAreWhereTheReferenceHasThem(t *testing.T) {
	r, err := primitiv.Open(filepath.Join(testdata, "parameter-index.primitiv"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	v := r.Tensor("value")
	if !v.Shape.Equal(tensor.Shape{2, 3, 4}) || !slices.Equal(v.Order, tensor.Order{2, 1, 0}) {
		t.Fatalf("%v %v", v.Shape, v.Order)
	}
	m, err := tensor.Reordered(v, nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err := tensor.Load[float32](m)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		for j := range 3 {
			for k := range 4 {
				if got := x[(i*3+j)*4+k]; got != float32(100*i+10*j+k) {
					t.Errorf("(%d, %d, %d) is %v", i, j, k, got)
				}
			}
		}
	}
}
