package remote

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/bridge/safetensors"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// model returns n tensors of size bytes each, named as those of a language model are.
func model(n, size int) (ts []*tensor.Tensor) {
	for i := range n {
		data := bytes.Repeat([]byte{byte(i)}, size)
		ts = append(ts, tensor.New(fmt.Sprintf("model.layers.%d.self_attn.q_proj.weight", i), tensor.Shape{int64(size)}, data))
	}
	return ts
}

// One request lists a model of 146 tensors, and another one brings a tensor: with what the reader of each format asks for.
func TestTwoRequestsForATensor(t *testing.T) {
	const size = 300_000
	ts := model(146, size)
	for name, c := range map[string]struct {
		write         func(name string) error
		list, request int64 // at most
	}{
		"model.zt (1.0)": {func(name string) error { return ztensor.WriteFile(name, slices.Values(ts), nil) }, 1, 1},
		"model.zt (1.2)": {func(name string) error {
			return ztensor.WriteFile(name, slices.Values(ts), &ztensor.WriterOptions{Version: "1.2"})
		}, 1, 1},
		"model.ptd":         {func(name string) error { return ptd.WriteFile(name, slices.Values(ts), nil) }, 1, 1},
		"model.safetensors": {func(name string) error { return safetensors.WriteFile(name, slices.Values(ts), nil) }, 1, 1},
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
			n := 0
			for x := range f.Tensors() {
				n += len(x.Shape)
			}
			listed := r.Stats()
			if n != len(ts) || listed.Requests > c.list || listed.Bytes > window+4096 {
				t.Errorf("%d tensors listed with %+v: %s", n, listed, s.ranges())
			}
			got, err := tensor.Load[uint8](f.Tensor(ts[77].Name))
			if err != nil || len(got) != size || got[0] != 77 {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			st := r.Stats()
			if st.Requests-listed.Requests > c.request || st.Bytes-listed.Bytes > size+window {
				t.Errorf("loaded with %+v after %+v: %s", st, listed, s.ranges())
			}
			t.Logf("listed with %+v, then loaded: %+v", listed, st)
		})
	}
}

func TestListingOfManyTensors(t *testing.T) {
	ts := model(5000, 64)
	for name, c := range map[string]struct {
		write func(name string) error
		most  int64
	}{
		"f.zt":          {func(name string) error { return ztensor.WriteFile(name, slices.Values(ts), nil) }, 2},
		"f.ptd":         {func(name string) error { return ptd.WriteFile(name, slices.Values(ts), nil) }, 2},
		"f.safetensors": {func(name string) error { return safetensors.WriteFile(name, slices.Values(ts), nil) }, 2},
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
