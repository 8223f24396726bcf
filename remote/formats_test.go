package remote

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/npy"
	"github.com/tensorfile/tensorfile/npz"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// The cost of listing a model of 146 tensors, and then of one of them, with what the
// reader of each format asks for.
func TestListingTakesFewRequestsInEachFormat(t *testing.T) {
	const size = 300_000
	ts := model(146, size)
	floats := make([]*tensor.Tensor, len(ts)) // for those that have no bytes
	for i, x := range ts {
		floats[i] = tensor.New(x.Name, tensor.Shape{size / 4},
			slices.Repeat([]float32{float32(i)}, size/4))
	}
	into := func(version string) func(string) error {
		return func(name string) error {
			return ztensor.WriteFile(t.Context(), name, tensor.Of(ts...),
				&ztensor.WriterOptions{Version: version})
		}
	}
	for name, c := range map[string]struct {
		write func(name string) error
		list  int64 // requests at most, and windows; one more request reads a tensor
	}{
		"model.zt (1.0)": {into("1.0"), 1},
		"model.zt (1.2)": {into("1.0"), 1},
		"model.zt (2)":   {into("2"), 1},
		"model.zt (2, compressed)": {func(name string) error {
			return ztensor.WriteFile(t.Context(), name, tensor.Of(ts...),
				&ztensor.WriterOptions{Version: "2", Level: 3})
		}, 1},
		"model.ptd": {func(name string) error {
			return ptd.WriteFile(t.Context(), name,
				tensor.Of(ts...), nil)
		}, 1},
		"model.safetensors": {func(name string) error {
			return safetensors.WriteFile(t.Context(),
				name, tensor.Of(ts...), nil)
		}, 1},
		"model.npy": {func(name string) error {
			return npy.WriteFile(t.Context(), name,
				tensor.Of(ts[77]), nil)
		}, 1},
		"model.rten": {func(name string) error {
			g := rten.NewGraphBuilder()
			for _, x := range floats {
				g.Constant(x)
			}
			return g.WriteFile(t.Context(), name, nil)
		}, 1},
		"model.pte": {func(name string) error {
			p := pte.NewBuilder()
			m := p.Method("forward")
			for _, x := range floats {
				m.Constant(x)
			}
			m.Return()
			return p.WriteFile(t.Context(), name, nil)
		}, 1},
		// No index, or one without shapes: a look at the beginning of each.
		"model.primitiv": {func(name string) error {
			return primitiv.WriteFile(t.Context(), name,
				tensor.Of(floats...), nil)
		}, 147},
		"model.npz": {func(name string) error {
			return npz.WriteFile(t.Context(), name,
				tensor.Of(ts...), nil)
		}, 147},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			if err := c.write(path); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			s := serve(t, 0)
			s.data = data
			base, _, _ := strings.Cut(name, " ")
			r := s.mustOpen(base, nil)
			f, err := tensorfile.NewReader(r, r.Size(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			n, one := 0, f.Tensor(ts[77].Name)
			for x := range f.Tensors() {
				if n++; one == nil && (n == 78 || base == "model.npy") {
					// those have no such names
					one = x
				}
			}
			listed := r.Stats()
			if want := map[bool]int{true: 1, false: len(ts)}[base == "model.npy"]; n != want ||
				listed.Requests > c.list || listed.Bytes > c.list*window+4096 {
				t.Errorf("%d tensors listed with %+v: %s", n, listed, s.ranges())
			}
			want := []byte(slices.Repeat([]byte{77}, size))
			if one.DType == tensor.F32 {
				want = slices.Repeat([]byte{0, 0, 0x9a, 0x42}, size/4)
			}
			if got, err := one.Data.ReadAll(); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			st := r.Stats()
			if st.Requests-listed.Requests > 1 || st.Bytes-listed.Bytes > size+window {
				t.Errorf("loaded with %+v after %+v: %s", st, listed, s.ranges())
			}
			t.Logf("listed with %+v, then loaded: %+v", listed, st)
		})
	}
	t.Run("gguf", func(t *testing.T) {
		s := serve(t, 0)
		var err error
		if s.data, err = os.ReadFile("../testdata/gguf/many.gguf"); err != nil {
			t.Fatal(err)
		}
		r := s.mustOpen("many.gguf", nil)
		f, err := tensorfile.NewReader(r, r.Size(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if st := r.Stats(); f.Len() < 10 || st.Requests > 1 {
			t.Errorf("%d tensors listed with %+v: %s", f.Len(), st, s.ranges())
		}
	})
}

func TestListingOfManyTensorsTakesTwoRequests(t *testing.T) {
	ts := model(5000, 64)
	for name, c := range map[string]struct {
		write func(name string) error
		most  int64
	}{
		"f.zt": {func(name string) error {
			return ztensor.WriteFile(t.Context(), name,
				tensor.Of(ts...), nil)
		}, 2},
		"f.ptd": {func(name string) error {
			return ptd.WriteFile(t.Context(), name,
				tensor.Of(ts...), nil)
		}, 2},
		"f.safetensors": {func(name string) error {
			return safetensors.WriteFile(t.Context(),
				name, tensor.Of(ts...), nil)
		}, 2},
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := c.write(path); err != nil {
			t.Fatal(err)
		}
		s := serve(t, 0)
		var err error
		if s.data, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		r := s.mustOpen(name, nil)
		f, err := tensorfile.NewReader(r, r.Size(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if st := r.Stats(); f.Len() != len(ts) || st.Requests > c.most {
			t.Errorf("%s: %d tensors listed with %+v: %s", name, f.Len(), st, s.ranges())
		}
		f.Close()
	}
}
