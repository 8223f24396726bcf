package quant_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// An expectation is what a reference package says of a weight: interop/quant/make.py.
type expectation struct {
	Scheme   string
	Shape    tensor.Shape
	DType    string
	Float32  string // SHA-256 of the elements
	BFloat16 string
	Float16  string
	// UnsignedZero says that -0 counts as 0.
	UnsignedZero bool `json:"unsigned_zero"`
}

func expectations(t testing.TB) map[string]map[string]expectation {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(references(), "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string]expectation
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// open opens a file of testdata with its configuration, if it has one.
func open(t testing.TB, name string) (*tensorfile.File, *quant.Config) {
	t.Helper()
	path := filepath.Join(references(), name)
	var f *tensorfile.File
	err := os.ErrNotExist
	for _, ext := range []string{".safetensors", ".gguf", ".bin"} {
		if os.IsNotExist(err) {
			f, err = tensorfile.Open(path+ext, nil)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	b, err := os.ReadFile(path + ".json")
	if err != nil {
		return f, nil
	}
	cfg, err := quant.ParseConfig(b)
	if err != nil {
		t.Fatal(err)
	}
	return f, cfg
}

// sum returns the SHA-256 of the elements as T, in the order of files.
func sum[T tensor.Element](t testing.TB, w *tensor.Tensor, unsignedZero bool) string {
	t.Helper()
	v, err := tensor.Convert[float32](w)
	if err != nil {
		t.Fatal(err)
	}
	for i := range v {
		if v[i] == 0 && unsignedZero {
			v[i] = 0
		}
	}
	as, err := tensor.Convert[T](tensor.New("", w.Shape, v))
	if err != nil {
		t.Fatal(err)
	}
	b := le.Bytes(as)
	le.ToHost(b, tensor.DTypeOf[T]().Align())
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func TestValuesAreThoseOfTheReferences(t *testing.T) {
	all := expectations(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			f, cfg := open(t, name)
			set := quant.Find(f, cfg)
			for _, x := range set.Findings {
				t.Errorf("finding %s %s: %v", x.Code, x.Tensor, x.Err)
			}
			found := 0
			for _, w := range set.Weights {
				want, ok := all[name][w.Name]
				if !ok {
					if w.Scheme != "" {
						t.Errorf("%s is %s", w.Name, w.Scheme)
					}
					continue
				}
				found++
				if w.Err != nil {
					t.Error(w.Err)
					continue
				}
				n, _ := want.Shape.Elements()
				if w.Scheme != want.Scheme || !w.Tensor.Shape.Equal(want.Shape) ||
					w.Parameters() != n {
					t.Errorf("%s is %s of %v, not %s of %v", w.Name, w.Scheme, w.Tensor.Shape,
						want.Scheme, want.Shape)
					continue
				}
				if want.DType != "" && w.DType.String() != want.DType {
					t.Errorf("%s was %v, not %s", w.Name, w.DType, want.DType)
				}
				if want.Float32 != "" && sum[float32](t, w.Tensor,
					want.UnsignedZero) != want.Float32 {
					t.Errorf("%s has other values", w.Name)
				}
				if want.BFloat16 != "" && sum[tensor.BFloat16](t, w.Tensor,
					want.UnsignedZero) != want.BFloat16 {
					t.Errorf("%s has other values as bfloat16", w.Name)
				}
				if want.Float16 != "" && sum[tensor.Float16](t, w.Tensor,
					want.UnsignedZero) != want.Float16 {
					t.Errorf("%s has other values as float16", w.Name)
				}
			}
			if found != len(all[name]) {
				t.Errorf("%d weights of %d", found, len(all[name]))
			}
			if strings.HasPrefix(name, "plain") && len(set.Findings) > 0 {
				t.Error("findings of a plain file")
			}
		})
	}
}
