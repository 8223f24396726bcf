package torch

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// Files modelled on what users reported: how many tensors they have, some of their names,
// and the codes of what Verify finds, none of which is an error.
func TestFilesAsUsersReportThemAreRead(t *testing.T) {
	for _, c := range []struct {
		file     string
		tensors  int
		names    string
		findings string
	}{
		{"cases/torchao_int8.bin", 7, "0.weight.qdata 0.weight.scale 0.weight.zero_point 1.bias",
			""},
		{"cases/dtensor_rank0.pt", 3, "w._local_tensor b", ""},
		{"cases/misc.pt", 5, "W w list.0.x list.1.0 dd.k.0", "unknown-class collections.deque"},
		{"cases/module.pt", 7, "0.weight 1.running_mean",
			""},
		{"cases/train.pt", 21, "model.0.weight optimizer.state.3.exp_avg rng np_rng.1",
			"unknown-class argparse.Namespace"},
		{"cases/lightning.ckpt", 20, "state_dict.model.0.weight optimizer_states.0.state.0.step",
			""},
		{"checkpoint-500/optimizer.pt", 6, "state.0.exp_avg", ""},
		{"checkpoint-500/rng_state.pth", 2, "cpu numpy.1", ""},
		{"checkpoint-500/scheduler.pt", 0, "", ""},
		{"checkpoint-500/training_args.bin", 0, "", "unknown-class argparse.Namespace"},
	} {
		t.Run(c.file, func(t *testing.T) {
			r, err := Open("../testdata/torch/"+c.file, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			names, _ := rowsOf(t, r)
			if len(names) != c.tensors {
				t.Errorf("%d tensors: %q", len(names), names)
			}
			for _, want := range strings.Fields(c.names) {
				if !slices.Contains(names, want) {
					t.Errorf("%s is not in %q", want, names)
				}
			}
			report, err := r.Verify(t.Context(), nil)
			if err != nil {
				t.Error(err)
			}
			var got []string
			for _, f := range report.Findings {
				_, text, _ := strings.Cut(f.Err.Error(), f.Code+": ")
				class, _, _ := strings.Cut(text, " ")
				got = append(got, f.Code+" "+class)
			}
			if strings.Join(got, " ") != c.findings {
				t.Errorf("findings %q, want %q", got, c.findings)
			}
		})
	}
	// The class of a subclass is an attribute.
	r, err := Open("../testdata/torch/cases/torchao_int8.bin", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, attributes := rowsOf(t, r); attributes["0.weight.class"] !=
		"torchao.quantization.Int8Tensor" {
		t.Error(attributes)
	}
}

func TestSparseLayoutsAreRead(t *testing.T) {
	long := func(key string, shape ...int64) string {
		n, strides := int64(1), make([]int64, len(shape))
		for i := len(shape) - 1; i >= 0; i-- {
			strides[i] = n
			n *= shape[i]
		}
		return tensorOf(storageOf("LongStorage", key, 2), 0, shape, strides)
	}
	for _, c := range []struct {
		layout                  string
		indptr, indices, values []int64
		shape                   []int64
		want                    string // "": malformed
	}{
		{"csr", []int64{2}, []int64{2}, []int64{2}, []int64{1, 4}, "sparse_csr"},
		{"bsr", []int64{2}, []int64{1}, []int64{1, 2, 1}, []int64{2, 4}, "sparse_bsr"},
		{"bsc", []int64{2}, []int64{1}, []int64{1, 1, 2}, []int64{2, 4}, "sparse_bsc"},
		{"csc", []int64{1, 2}, []int64{1, 1}, []int64{1, 1}, []int64{1, 1, 1},
			"batched_sparse_csc"},
		{"bsr", []int64{1, 2}, []int64{1, 1}, []int64{1, 1, 1, 2}, []int64{1, 1, 2},
			"batched_sparse_bsr"},
		{"csr", []int64{2}, []int64{1}, []int64{1, 2}, []int64{1, 1, 2}, "hybrid_csr"},
		{"bsr", []int64{2}, []int64{1}, []int64{1, 1, 1, 2}, []int64{1, 1, 2}, "hybrid_bsr"},
		{"bsr", []int64{2}, []int64{1}, []int64{1, 2}, []int64{2, 4}, ""},
		{"csr", []int64{2}, []int64{2}, []int64{2}, []int64{1, 4, 1}, ""},
		{"csr", []int64{2}, []int64{1, 2}, []int64{1, 2}, []int64{1, 4}, ""},
		{"csr", nil, []int64{2}, []int64{2}, []int64{1, 4}, ""},
	} {
		b := archive(call(name("torch._utils", "_rebuild_sparse_tensor"),
			str("torch.sparse_"+c.layout), tup(long("0", c.indptr...), long("0", c.indices...),
				long("0", c.values...), ints(c.shape...))))
		r, err := OpenBytes(b, nil)
		switch {
		case c.want == "" && errors.Is(err, tensor.ErrMalformed):
		case err != nil:
			t.Errorf("%+v: %v", c, err)
		case r.Tensor("tensor").Scheme != c.want:
			t.Errorf("%+v: %s", c, r.Tensor("tensor").Scheme)
		}
	}
}

// A tensor that torch conjugates or negates has values; the same at any place, and in any
// order.
func TestNegatedAndConjugatedTensorsHaveTheirValues(t *testing.T) {
	tensorWith := func(class string, n int64, marks ...string) string {
		metadata := "}("
		for _, m := range marks {
			metadata += str(m) + "\x88"
		}
		return call(rebuild, storageOf(class, "0", n), integer(0), ints(n), ints(1), "\x89", "N",
			metadata+"u")
	}
	const plus = "0123456789abcdef"
	const minus = "\xb0\xb1\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9\xe1\xe2\xe3\xe4\xe5\xe6"
	mix := func(at ...int) string { // the bytes there from minus
		b := []byte(plus)
		for _, i := range at {
			b[i] = minus[i]
		}
		return string(b)
	}
	for _, c := range []struct {
		class string
		n     int64
		marks []string
		want  string
	}{
		{"FloatStorage", 4, []string{"neg"}, mix(3, 7, 11, 15)},
		{"HalfStorage", 8, []string{"neg"}, mix(1, 3, 5, 7, 9, 11, 13, 15)},
		{"DoubleStorage", 2, []string{"neg"}, mix(7, 15)},
		{"ComplexFloatStorage", 2, []string{"conj"}, mix(7, 15)},
		{"ComplexFloatStorage", 2, []string{"neg"}, mix(3, 7, 11, 15)},
		{"ComplexFloatStorage", 2, []string{"neg", "conj"}, mix(3, 11)},
		{"ComplexDoubleStorage", 1, []string{"conj"}, mix(15)},
		{"FloatStorage", 4, []string{"conj"}, plus}, // of real numbers: themselves
		{"ShortStorage", 8, []string{"neg"},
			"\xd0\xce\xce\xcc\xcc\xca\xca\xc8\xc8\xc6\x9f\x9d\x9d\x9b\x9b\x99"},
	} {
		r, err := OpenBytes(archive(tensorWith(c.class, c.n, c.marks...)), nil)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		x := r.Tensor("tensor")
		if got, err := x.Data.ReadAll(); err != nil || string(got) != c.want || !x.Dense() ||
			x.Check() != nil {
			t.Errorf("%+v: %q, want %q; %v, %v", c, got, c.want, err, x.Check())
		}
		p := make([]byte, 3)
		for off := range len(c.want) - len(p) + 1 {
			if _, err := x.Data.ReadAt(p, int64(off)); err != nil ||
				string(p) != c.want[off:off+len(p)] {
				t.Errorf("%+v: %q at %d, %v", c, p, off, err)
			}
		}
	}
	_, err := OpenBytes(archive(tensorWith("BoolStorage", 16, "neg")), nil)
	if !errors.Is(err, tensor.ErrMalformed) {
		t.Errorf("negated bools: %v", err)
	}
}

// Arrays of protocol 5, and where they are.
func TestNumPyBuffersAreRead(t *testing.T) {
	dtype := func(order string) string {
		return call(name("numpy", "dtype"), str("i2"), "\x89", "\x88") + tup("K\x03", str(order),
			"N", "N", "N", "J\xff\xff\xff\xff", "J\xff\xff\xff\xff", "K\x00") + "b"
	}
	buffer := func(order string, axes ...string) string {
		return call(name("numpy._core.numeric", "_frombuffer"), append([]string{
			"\x96\x0c\x00\x00\x00\x00\x00\x00\x00abcdefghijkl", dtype("<"), ints(2, 3),
			str(order)}, axes...)...)
	}
	for _, c := range []struct {
		pickle string
		shape  tensor.Shape
		want   string
	}{
		{buffer("C"), tensor.Shape{2, 3}, "abcdefghijkl"},
		{buffer("F"), tensor.Shape{2, 3}, "abefijcdghkl"},
		{buffer("K", ints(1, 0)), tensor.Shape{3, 2}, "abghcdijefkl"},
		{buffer("A"), nil, ""},
		{buffer("K"), nil, ""},
		{buffer("K", ints(0, 0)), nil, ""},
		{buffer("K", ints(0, 2)), nil, ""},
		{buffer("K", ints(0)), nil, ""},
		{strings.Replace(buffer("C"), "I3", "I4", 1), nil, ""},
	} {
		r, err := OpenBytes(archive(c.pickle), nil)
		if c.shape == nil {
			if !errors.Is(err, tensor.ErrMalformed) {
				t.Errorf("%q: %v", c.pickle, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.pickle, err)
			continue
		}
		x := r.Tensor("tensor")
		if got, err := x.Data.ReadAll(); err != nil || string(got) != c.want ||
			!x.Shape.Equal(c.shape) {
			t.Errorf("%q: %v %q, %v", c.pickle, x.Shape, got, err)
		}
	}
	// The elements of a big-endian array are not in the file as they are read.
	r, err := OpenBytes(archive(strings.Replace(buffer("C"), str("<"), str(">"), 1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if st, ok := r.Tensor("tensor").Data.Stored(); !ok || st.Offset != -1 ||
		st.Encoding != "big-endian" {
		t.Errorf("%+v, %v", st, ok)
	}
}
