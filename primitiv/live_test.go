package primitiv_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/tensor"
)

// interop/primitiv.sh runs the rest, with TENSORFILE_PRIMITIVREF: content is
// random, another one in every run.

// loads has the reference load a file of ours, and returns what it then has, and what
// it saves.
func loads(t testing.TB, data []byte) (dump string, saved []byte) {
	t.Helper()
	in, out := filepath.Join(t.TempDir(), "in"), filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(in, data, 0o666); err != nil {
		t.Fatal(err)
	}
	dump = run(t, nil, reference(t), "dump", in)
	run(t, nil, reference(t), "copy", in, out)
	saved, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(dump, "\n"), saved
}

func random() *rand.Rand { return rand.New(rand.NewPCG(20, 1)) }

// noise is a column-major tensor of random bits.
func noise(r *rand.Rand, shape ...int64) *tensor.Tensor {
	n, _ := tensor.Shape(shape).Elements()
	x := make([]float32, n)
	for i := range x {
		x[i] = math.Float32frombits(r.Uint32())
	}
	v := tensor.New("", shape, x)
	v.Order = tensor.ColumnMajor(len(shape))
	return v
}

func noisyModel(r *rand.Rand, n, mostStats int) parameters {
	var m parameters
	for i := range n {
		path := []string{fmt.Sprint("p", i)}
		for range r.IntN(4) {
			name := make([]byte, r.IntN(12))
			if r.IntN(20) == 0 {
				name = make([]byte, r.IntN(300))
			}
			for j := range name {
				name[j] = byte(r.Uint32())
			}
			path = append([]string{"m" + string(name)}, path...)
		}
		shape := make([]int64, r.IntN(8))
		for j := range shape {
			shape[j] = 1 + r.Int64N(3)
		}
		if r.IntN(50) == 0 {
			shape = []int64{1 + r.Int64N(300), 1 + r.Int64N(300)}
		}
		p := primitiv.Parameter{Path: path, Value: noise(r, shape...)}
		for j := range r.IntN(mostStats + 1) {
			s := primitiv.Statistic{Name: strings.Repeat("s", r.IntN(40)) + fmt.Sprint(j),
				Tensor: noise(r, 2, 1+r.Int64N(9))}
			if r.IntN(2) == 0 {
				s.Batch = uint32(s.Tensor.Shape[1])
			}
			p.Stats = append(p.Stats, s)
		}
		m = append(m, p)
	}
	r.Shuffle(len(m), func(i, j int) { m[i], m[j] = m[j], m[i] })
	return m
}

func writeOptimizer(t testing.TB, name string, o *primitiv.Optimizer) {
	t.Helper()
	w, err := primitiv.Create(name, &primitiv.WriterOptions{Kind: primitiv.KindOptimizer})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.SetOptimizer(o), w.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestReferenceLargeModelIsReadAndWrittenByteForByte(t *testing.T) {
	ref, dir := reference(t), t.TempDir()
	run(t, nil, ref, "large", dir, fmt.Sprint(random().Uint32()))
	name := filepath.Join(dir, "large.primitiv")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSuffix(run(t, nil, ref, "dump", name), "\n")
	api.Each(t, data, func(t *testing.T, r *primitiv.Reader) {
		if dump(t, r) != want {
			t.Error("we read other values")
		}
		if r.Tensor("decoder.large").Size() != 12012000 ||
			r.Tensor("encoder.exact").Size() != 1<<20 {
			t.Error("sizes")
		}
		if !bytes.Equal(copyOf(t, r, primitiv.WriterOptions{}), data) {
			t.Error("we write other bytes")
		}
	})
	t.Logf("%d bytes, %d tensors", len(data), open(t, data).Len())
}

func TestReferenceLoadsWhatWeWriteAndSavesTheSameBytes(t *testing.T) {
	reference(t)
	r := random()
	for range 5 {
		// with more statistics their order is the library's hash table's
		data := written(t, noisyModel(r, 60, 1), nil)
		have, saved := loads(t, data)
		if have != dump(t, open(t, data)) {
			t.Error("the reference has other values")
		}
		if !bytes.Equal(saved, data) {
			t.Error("the reference writes other bytes")
		}
		data = written(t, noisyModel(r, 60, 6), nil)
		if have, saved = loads(t, data); have != dump(t, open(t, data)) ||
			have != dump(t, open(t, saved)) || len(saved) != len(data) {
			t.Error("with statistics: the reference has other values")
		}
	}
	var b bytes.Buffer
	w := primitiv.NewWriter(&b, &primitiv.WriterOptions{Kind: primitiv.KindParameter})
	p := noisyModel(r, 1, 1)[0]
	if err := w.AddParameter(&p); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if have, saved := loads(t, b.Bytes()); have != dump(t, open(t, b.Bytes())) ||
		!bytes.Equal(saved, b.Bytes()) {
		t.Error("a parameter file")
	}
}

func TestReferenceLoadsEditedFiles(t *testing.T) {
	reference(t)
	r := random()
	m := noisyModel(r, 20, 2)
	m[3].Path, m[5].Path = []string{"first", "w"}, []string{"second", "w"}
	data := edited(t, open(t, written(t, m, nil)), func(e *primitiv.Edit) error {
		return errors.Join(e.Rename("first.w", "second.w"), e.Rename("second.w", "a.b.c"),
			e.Rename("first.w", "x.w"),
			e.Rename("first.w", "renamed"), e.Remove("second.w"))
	})
	if have, _ := loads(t, data); have != dump(t, open(t, data)) ||
		strings.Count(have, "parameter ") != 19 {
		t.Error("the reference has other values")
	}
	files, _ := goldens(t)
	for _, name := range []string{"SGD", "MomentumSGD", "AdaGrad", "RMSProp", "AdaDelta", "Adam"} {
		o := open(t, files["optimizer-"+name+"-default.primitiv"]).Optimizer()
		if err := errors.Join(o.Set(primitiv.Epoch, fmt.Sprint(r.Uint32())),
			o.Set("Optimizer.lr_scale", "nan"),
			o.Set("mine", fmt.Sprint(r.Float32()))); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), name)
		writeOptimizer(t, file, o)
		data, _ := os.ReadFile(file)
		if have, _ := loads(t, data); have != dump(t, open(t, data)) {
			t.Errorf("%s: the reference has other settings", name)
		}
	}
}
