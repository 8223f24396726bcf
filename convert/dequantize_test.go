package convert

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
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// references returns the files that reference packages quantised, and what they say of
// each weight (testdata/quant).
func references(t *testing.T) map[string]map[string]reference {
	t.Helper()
	b, err := os.ReadFile("../testdata/quant/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string]reference
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

type reference struct {
	Shape        tensor.Shape
	Float32      string // SHA-256 of the elements
	BFloat16     string // where there is no Float32
	UnsignedZero bool   `json:"unsigned_zero"`
}

func openReference(t *testing.T, name string) (*tensorfile.File, *quant.Config) {
	t.Helper()
	path := filepath.Join("../testdata/quant", name)
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

// checkReference compares a tensor with what a reference package makes of its parts.
func checkReference(t *testing.T, x *tensor.Tensor, want reference) {
	t.Helper()
	v, err := tensor.Convert[float32](x)
	if err != nil {
		t.Fatal(err)
	}
	for i := range v {
		if v[i] == 0 && want.UnsignedZero {
			v[i] = 0
		}
	}
	d, sum := tensor.F32, want.Float32
	if sum == "" {
		d, sum = tensor.BF16, want.BFloat16
	}
	as, err := tensor.As(tensor.New(x.Name, x.Shape, v), d)
	if err != nil {
		t.Fatal(err)
	}
	b, err := as.Data.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if h := sha256.Sum256(b); hex.EncodeToString(h[:]) != sum {
		t.Errorf("%s: %x, not %s", x.Name, h, sum)
	}
}

func TestDequantizedModelsHaveTheValuesOfTheReferences(t *testing.T) {
	all := references(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f, cfg := openReference(t, name)
		for _, target := range []tensorfile.Format{tensorfile.Safetensors, tensorfile.ZTensor,
			tensorfile.GGUF, tensorfile.NPZ, tensorfile.PTD} {
			t.Run(name+" to "+target.String(), func(t *testing.T) {
				out := converted(t, f, target, &Options{Dequantize: tensor.F32, Config: cfg,
					Allow: LossAttributes | LossWiden | LossNarrow | LossShape | LossOverflow})
				for name, want := range all[name] {
					x := out.Tensor(name)
					if x == nil || !x.Shape.Equal(want.Shape) {
						t.Fatalf("%s: %v", name, x)
					}
					checkReference(t, x, want)
				}
				for _, w := range quant.Find(out, nil).Weights {
					if w.Scheme != "" || w.Auxiliary || w.DType.Bits() < 16 {
						t.Errorf("%s is %s %v", w.Name, w.Scheme, w.DType)
					}
				}
			})
		}
	}
}

// converted converts a file and opens the result.
func converted(t *testing.T, f *tensorfile.File, target tensorfile.Format,
	o *Options) *tensorfile.File {
	t.Helper()
	p, err := NewPlan(t.Context(), f, target, o)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := p.Write(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	out, err := tensorfile.OpenBytes([]byte(b.String()), nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A cast, whether requested or made by the target, names each weight that it would take
// past its scale, and that Dequantize prevents it.
func TestCastsNameTheScalesTheyPass(t *testing.T) {
	all := references(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			f, cfg := openReference(t, name)
			p, err := NewPlan(t.Context(), f, tensorfile.Safetensors, &Options{Config: cfg,
				Map: func(t *tensor.Tensor) (string, tensor.DType, bool) {
					return t.Name, tensor.F64, true
				}})
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, l := range p.Losses() {
				if l.Kind == LossScale && l.Option == "Dequantize" && !l.Requested {
					n++
				}
			}
			if n != len(all[name]) && name != "gguf-scale" { // whose floats keep their scale
				t.Errorf("%d losses of a scale, %d weights: %v", n, len(all[name]), p.Losses())
			}
		})
	}
}

// A scale without its weight is a loss of a conversion that makes numbers, and of no
// other.
func TestScaleWithoutItsWeightIsALoss(t *testing.T) {
	cfg, err := quant.ParseConfig([]byte(`{"quantization_config": {"quant_method": "fp8"}}`))
	if err != nil {
		t.Fatal(err)
	}
	f := tensorfile.FromTensors([]*tensor.Tensor{
		tensor.New("a.weight", tensor.Shape{2, 2}, make([]float32, 4)),
		tensor.New("a.weight_scale_inv", tensor.Shape{1, 1}, make([]float32, 1))}, nil)
	for d, want := range map[tensor.DType]int{tensor.Unknown: 0, tensor.F32: 1, tensor.BF16: 1} {
		p, err := NewPlan(t.Context(), f, tensorfile.Safetensors, &Options{Config: cfg,
			Dequantize: d})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, l := range p.Losses() {
			if l.Kind == LossScale && strings.Contains(l.Field, "a.weight_scale_inv") {
				n++
			}
		}
		if n != want {
			t.Errorf("%v: %v", d, p.Losses())
		}
	}
}
