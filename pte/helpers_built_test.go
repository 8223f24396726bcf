package pte

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
)

// built are programs of every kind that a Builder can make, each with what the runtime
// should answer.
var built = []struct {
	name  string
	opts  *WriterOptions
	build func(b *Builder)
	run   func(t *testing.T, file string)
}{
	{"add", nil, func(b *Builder) {
		m := b.Method("forward")
		x := m.Input(tensor.F32, tensor.Shape{2, 3})
		w := m.Constant(tensor.New("w", tensor.Shape{2, 3}, []float32{1, 2, 3, 4, 5, 6}))
		y := m.Tensor(tensor.F32, tensor.Shape{2, 3})
		m.Call("aten::add.out", x, w, m.Value(1), y, y)
		m.Return(y)
	}, func(t *testing.T, file string) {
		a, b := runProgram(t, file, "forward", floatInput("2,3", 10, 20, 30, 40, 50, 60))
		wantFloats(t, a[0], 11, 22, 33, 44, 55, 66)
		wantFloats(t, b[0], 11, 22, 33, 44, 55, 66)
	}},
	{"linear", &WriterOptions{SegmentAlignment: 4096, Alignment: 256}, func(b *Builder) {
		m := b.Method("forward")
		w := m.Constant(tensor.New("w", tensor.Shape{2, 3}, []float32{1, 2, 3, 4, 5, 6}))
		bias := m.Constant(tensor.New("b", tensor.Shape{2}, []float32{0.5, -0.5}))
		x := m.Input(tensor.F32, tensor.Shape{1, 3})
		y := m.Tensor(tensor.F32, tensor.Shape{1, 2})
		z := m.Tensor(tensor.F32, tensor.Shape{1, 2})
		m.Call("aten::linear.out", x, w, bias, y, y)
		m.Call("aten::relu.out", y, z, z)
		m.Return(z)
	}, func(t *testing.T, file string) {
		a, _ := runProgram(t, file, "forward", floatInput("1,3", 1, 1, -1))
		wantFloats(t, a[0], 0.5, 2.5)
	}},
	{"convolution", nil, func(b *Builder) {
		m := b.Method("forward")
		x := m.Input(tensor.F32, tensor.Shape{1, 1, 3, 3})
		w := m.Constant(tensor.New("w", tensor.Shape{1, 1, 2, 2}, []float32{1, 0, 0, 1}))
		y := m.Tensor(tensor.F32, tensor.Shape{1, 1, 2, 2})
		one, zero := m.Value([]int64{1, 1}), m.Value([]int64{0, 0})
		m.Call("aten::convolution.out", x, w, m.Value(nil), one, zero, one, m.Value(false), zero,
			m.Value(1), y, y)
		m.Return(y)
	}, func(t *testing.T, file string) {
		a, _ := runProgram(t, file, "forward", floatInput("1,1,3,3", 1, 2, 3, 4, 5, 6, 7, 8, 9))
		wantFloats(t, a[0], 6, 8, 12, 14)
	}},
	{"methods and metadata", nil, func(b *Builder) {
		for i, name := range []string{"encode", "decode"} {
			m := b.Method(name)
			x := m.Input(tensor.F32, tensor.Shape{2})
			// equal bytes, other memory: stored once
			w := m.Constant(tensor.New("w", tensor.Shape{2}, []float32{3, 4}))
			y := m.Tensor(tensor.F32, tensor.Shape{2})
			m.Call([]string{"aten::mul.out", "aten::div.out"}[i], x, w, y, y)
			m.Return(y)
			m.Structure("T2#1#0(T1#1($),D0())", "$")
		}
		b.Metadata("get_vocab_size", 32000)
		b.Metadata("get_eos_ids", int64(1), 2)
		b.Metadata("use_kv_cache", true)
		b.Metadata("get_scale", 0.125)
		b.Metadata("get_name", "tiny")
		b.Metadata("get_rope", tensor.New("", tensor.Shape{2}, []float32{7, 8}))
	}, func(t *testing.T, file string) {
		a, _ := runProgram(t, file, "encode", floatInput("2", 1, 2))
		wantFloats(t, a[0], 3, 8)
		a, _ = runProgram(t, file, "decode", floatInput("2", 6, 2))
		wantFloats(t, a[0], 2, 0.5)
		if a, _ = runProgram(t, file, "get_vocab_size"); a[0].Value != 32000.0 {
			t.Errorf("get_vocab_size: %+v", a)
		}
		if a, _ = runProgram(t, file, "get_eos_ids"); len(a) != 2 || a[1].Value != 2.0 {
			t.Errorf("get_eos_ids: %+v", a)
		}
		if a, _ = runProgram(t, file, "get_name"); a[0].Value != "tiny" {
			t.Errorf("get_name: %+v", a)
		}
		a, _ = runProgram(t, file, "get_rope")
		wantFloats(t, a[0], 7, 8)
	}},
	{"branches", nil, func(b *Builder) {
		m := b.Method("forward")
		x := m.Input(tensor.F32, tensor.Shape{2})
		positive := m.Tensor(tensor.Bool, tensor.Shape{2})
		sum, product, y := m.Tensor(tensor.F32, tensor.Shape{2}),
			m.Tensor(tensor.F32, tensor.Shape{2}), m.Tensor(tensor.F32, tensor.Shape{2})
		other, end := m.Label(), m.Label()
		m.Call("aten::gt.Scalar_out", x, m.Value(float64(0)), positive, positive)
		m.JumpFalse(positive, other)
		m.Call("aten::add.out", x, x, m.Value(1), sum, sum)
		m.Move(sum, y)
		m.JumpFalse(m.Value(false), end)
		m.Mark(other)
		m.Call("aten::mul.out", x, x, product, product)
		m.Move(product, y)
		m.Mark(end)
		m.Return(y)
	}, func(t *testing.T, file string) {
		a, _ := runProgram(t, file, "forward", floatInput("2", 2, 3))
		wantFloats(t, a[0], 4, 6)
		a, _ = runProgram(t, file, "forward", floatInput("2", -2, 3))
		wantFloats(t, a[0], 4, 9)
	}},
	// y = x; 5 times: t = y + one; y = t * two; the temporary must not lie on what the
	// loop reads
	{"loop", nil, func(b *Builder) {
		m := b.Method("forward")
		x := m.Input(tensor.F32, tensor.Shape{4})
		one := m.Constant(tensor.New("", tensor.Shape{4}, []float32{1, 1, 1, 1}))
		// made before the loop, used only at its beginning
		twos := m.Tensor(tensor.F32, tensor.Shape{4})
		y := m.Tensor(tensor.F32, tensor.Shape{4})
		tmp := m.Tensor(tensor.F32, tensor.Shape{4})
		alpha, n, step, limit := m.Value(1), m.Value(0), m.Value(1), m.Value(5)
		done := m.Value(false)
		m.Call("aten::add.out", one, one, alpha, twos, twos)
		m.Call("aten::mul.out", x, one, y, y)
		head := m.Label()
		m.Mark(head)
		m.Call("aten::mul.out", y, twos, tmp, tmp)
		m.Call("aten::add.out", tmp, one, alpha, y, y)
		m.Call("executorch_prim::add.Scalar", n, step, n)
		m.Call("executorch_prim::eq.Scalar", n, limit, done)
		m.JumpFalse(done, head)
		m.Call("executorch_prim::sub.Scalar", n, limit, n)
		z := m.Tensor(tensor.F32, tensor.Shape{4})
		m.Call("aten::mul.out", y, one, z, z)
		m.Return(z)
	}, func(t *testing.T, file string) {
		a, b := runProgram(t, file, "forward", floatInput("4", 0, 1, 2, 3))
		wantFloats(t, a[0], 31, 63, 95, 127)
		wantFloats(t, b[0], 31, 63, 95, 127)
	}},
	{"dynamic", nil, func(b *Builder) {
		m := b.Method("forward")
		x := m.Input(tensor.F32, tensor.Shape{8, 2}).Bound()
		y := m.Tensor(tensor.F32, tensor.Shape{8, 2}).Bound()
		m.Call("aten::mul.out", x, x, y, y)
		m.Return(y)
	}, func(t *testing.T, file string) {
		a, _ := runProgram(t, file, "forward", floatInput("3,2", 1, 2, 3, 4, 5, 6))
		wantFloats(t, a[0], 1, 4, 9, 16, 25, 36)
	}},
	{"state", nil, func(b *Builder) {
		m := b.Method("forward")
		count := m.State(tensor.New("count", tensor.Shape{2}, []float32{10, 20}))
		m.Declare(RoleState, "cache", tensor.F32, tensor.Shape{3})
		one := m.Constant(tensor.New("", tensor.Shape{2}, []float32{1, 2}))
		sum, y := m.Tensor(tensor.F32, tensor.Shape{2}), m.Tensor(tensor.F32, tensor.Shape{2})
		alpha, never, none := m.Value(1), m.Value(false), m.Value(nil)
		m.Call("aten::add.out", count, one, alpha, sum, sum)
		m.Call("aten::copy_", count, sum, never, count)
		m.Call("aten::clone.out", sum, none, y, y)
		m.Return(y)
	}, func(t *testing.T, file string) {
		a, b := runProgram(t, file, "forward")
		wantFloats(t, a[0], 11, 22)
		wantFloats(t, b[0], 12, 24)
	}},
	{"lists", nil, func(b *Builder) {
		m := b.Method("forward")
		x := m.Input(tensor.F32, tensor.Shape{2})
		m.Accept(m.Value(7))
		c := m.Constant(tensor.New("", tensor.Shape{2}, []float32{5, 6}))
		y := m.Tensor(tensor.F32, tensor.Shape{4})
		m.Call("aten::cat.out", m.TensorList(x, c), m.Value(0), y, y)
		m.OptionalTensorList(x, Ref{}, m.Value(nil))
		m.Value([]float64{1.5, -2})
		m.Value([]bool{true, false})
		m.Value("héllo")
		m.Return(y, m.Value(2.5))
	}, func(t *testing.T, file string) {
		a, _ := runProgram(t, file, "forward", floatInput("2", 1, 2), "int=7")
		wantFloats(t, a[0], 1, 2, 5, 6)
	}},
	{"by hand", nil, func(b *Builder) {
		m := b.Method("forward")
		x := m.Input(tensor.F32, tensor.Shape{2}).Place(2, 1<<12)
		y := m.Tensor(tensor.F32, tensor.Shape{2}).Place(1, 0)
		z := m.Declare(RoleCaller, "", tensor.F32, tensor.Shape{2})
		m.Call("aten::mul.out", x, x, y, y)
		m.Call("aten::add.out", x, y, m.Value(2), z, z)
		m.Return(z)
	}, func(t *testing.T, file string) {
		a, _ := runProgram(t, file, "forward", floatInput("2", 1, 2))
		wantFloats(t, a[0], 3, 10)
	}},
	{"channels last", nil, func(b *Builder) {
		m := b.Method("forward")
		order := tensor.Order{0, 2, 3, 1}
		c := tensor.New("", tensor.Shape{1, 2, 1, 2}, []float32{1, 10, 2, 20}) // in storage order
		c.Order = order
		x := m.Input(tensor.F32, tensor.Shape{1, 2, 1, 2}).Order(order)
		y := m.Tensor(tensor.F32, tensor.Shape{1, 2, 1, 2}).Order(order)
		m.Call("aten::add.out", x, m.Constant(c), m.Value(1), y, y)
		m.Return(y)
	}, func(t *testing.T, file string) {
		a, _ := runProgram(t, file, "forward", floatInput("1,2,1,2", 1, 2, 3, 4))
		wantFloats(t, a[0], 2, 12, 5, 24)
	}},
	{"named data", &WriterOptions{SegmentAlignment: 12}, func(b *Builder) {
		b.Metadata("version", 1)
		blob := tensor.BlobOf(bytes.Repeat([]byte("abc"), 100))
		b.Named("first", blob, 3)
		b.Named("second", tensor.BlobOf([]byte("xyz")), 4096)
		b.Named("again", blob, 64)
		b.Named("empty", tensor.Blob{}, 0)
	}, nil},
	{"external", nil, func(b *Builder) {
		m := b.Method("forward")
		x := m.Input(tensor.F32, tensor.Shape{2})
		y, z := m.Tensor(tensor.F32, tensor.Shape{2}), m.Tensor(tensor.F32, tensor.Shape{2})
		w := m.Declare(RoleExternal, "w", tensor.F32, tensor.Shape{2})
		count := m.Declare(RoleExternalState, "count", tensor.F32, tensor.Shape{2})
		one, never := m.Value(1), m.Value(false)
		m.Call("aten::mul.out", x, w, y, y)
		m.Call("aten::add.out", y, count, one, z, z)
		m.Call("aten::copy_", count, z, never, count)
		m.Return(z)
	}, func(t *testing.T, file string) {
		data := filepath.Join(t.TempDir(), "weights.ptd")
		weights := map[string]*tensor.Tensor{
			"w":     tensor.New("w", tensor.Shape{2}, []float32{2, 3}),
			"count": tensor.New("count", tensor.Shape{2}, []float32{100, 200}),
		}
		if err := ptd.Save(data, weights); err != nil {
			t.Fatal(err)
		}
		a, b := runProgram(t, file, "forward", "-d", data, floatInput("2", 10, 20))
		wantFloats(t, a[0], 120, 260)
		wantFloats(t, b[0], 140, 320)
	}},
	// flat is where x2 is, which must not be used again before flat was
	{"a view", nil, func(b *Builder) {
		m := b.Method("forward")
		x := m.Input(tensor.F32, tensor.Shape{2, 2})
		x2 := m.Tensor(tensor.F32, tensor.Shape{2, 2})
		flat := m.Declare(RoleCaller, "", tensor.F32, tensor.Shape{4})
		other, y := m.Tensor(tensor.F32, tensor.Shape{4}), m.Tensor(tensor.F32, tensor.Shape{4})
		c := m.Constant(tensor.New("", tensor.Shape{4}, []float32{1, 1, 1, 1}))
		one := m.Value(1)
		m.Alias(x2, flat)
		m.Call("aten::mul.out", x, x, x2, x2)
		m.Call("executorch_prim::et_view.default", x2, m.Value([]int64{4}), flat)
		m.Call("aten::add.out", c, c, one, other, other)
		m.Call("aten::add.out", flat, other, one, y, y)
		m.Return(y)
	}, func(t *testing.T, file string) {
		a, b := runProgram(t, file, "forward", floatInput("2,2", 1, 2, 3, 4))
		wantFloats(t, a[0], 3, 6, 11, 18)
		wantFloats(t, b[0], 3, 6, 11, 18)
	}},
	{"nothing stored", nil, func(b *Builder) { b.Metadata("answer", 42) },
		func(t *testing.T, file string) {
			if a, _ := runProgram(t, file, "answer"); a[0].Value != 42.0 {
				t.Errorf("%+v", a)
			}
		}},
	{"nothing but empty tensors stored", nil, func(b *Builder) {
		m := b.Method("forward")
		x := m.Input(tensor.F32, tensor.Shape{0, 3})
		w := m.Constant(tensor.New("", tensor.Shape{0, 3}, []float32{}))
		m.State(tensor.New("s", tensor.Shape{0}, []float32{}))
		m.Declare(RoleState, "room", tensor.F32, tensor.Shape{1}) // gives it a memory
		y := m.Tensor(tensor.F32, tensor.Shape{0, 3})
		m.Call("aten::add.out", x, w, m.Value(1), y, y)
		m.Return(y)
	}, func(t *testing.T, file string) {
		a, _ := runProgram(t, file, "forward", floatInput("0,3"))
		wantFloats(t, a[0])
	}},
	{"planner", nil, func(b *Builder) { // a long chain: memory is used again
		m := b.Method("forward")
		x := m.Input(tensor.F32, tensor.Shape{16})
		one := m.Value(1)
		for range 50 {
			y := m.Tensor(tensor.F32, tensor.Shape{16})
			m.Call("aten::add.out", x, x, one, y, y)
			z := m.Tensor(tensor.F32, tensor.Shape{16})
			m.Call("aten::sub.out", y, x, one, z, z)
			x = z
		}
		m.Return(x)
	}, func(t *testing.T, file string) {
		in := make([]float32, 16)
		for i := range in {
			in[i] = float32(i)
		}
		a, b := runProgram(t, file, "forward", floatInput("16", in...))
		wantFloats(t, a[0], in...)
		wantFloats(t, b[0], in...)
	}},
}
