package convert

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/ggml"
	"github.com/tensorfile/tensorfile/npz"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// contents are what a file has.
type contents struct {
	tensors    []*tensor.Tensor
	attributes map[string]any
	own        map[string]map[string]any // attributes of tensors
	blobs      map[string][]byte
}

// randomContents returns what a file of the form can have, one tensor or, with many, up
// to four.
func randomContents(r *rand.Rand, f form, many bool) contents {
	c := contents{attributes: map[string]any{}, own: map[string]map[string]any{},
		blobs: map[string][]byte{}}
	n := 1
	if many && f.caps().MaxTensors != 1 {
		n += r.IntN(4)
	}
	taken := map[string]bool{}
	for i := range n {
		name := randomName(r, f, i)
		if taken[name] {
			continue
		}
		taken[name] = true
		x := randomTensor(r, f, name)
		if f.caps().Sparse && r.IntN(3) == 0 {
			x = randomSparse(r, f, name)
		} else if f.caps().Blocks && r.IntN(3) == 0 {
			x = randomBlocks(r, f, name)
		} else if f.caps().Extras && f.version != "1.0" && r.IntN(4) == 0 {
			x.Parts = []tensor.Part{{Role: "scales", DType: tensor.F32,
				Data: tensor.BlobOf(make([]byte, 4*r.IntN(3)))}}
		}
		c.tensors = append(c.tensors, x)
		if kind, ok := format.BlocksOf(x); ok && f.format == tensorfile.ZTensor {
			c.own[name] = map[string]any{"elems_per_block": kind.Elements,
				"block_bytes": kind.Bytes}
		}
		if f.format == tensorfile.ZTensor && f.version != "1.0" && x.Dense() && r.IntN(3) == 0 {
			c.own[name] = randomAttributes(r, f)
		}
	}
	if f.caps().Attributes {
		c.attributes = randomAttributes(r, f)
	}
	if f.caps().Blobs || f.format == tensorfile.NPZ {
		for i := range r.IntN(3) {
			name := fmt.Sprintf("blob%d", i)
			if i == 1 && f.format == tensorfile.NPZ {
				name = c.tensors[0].Name // which is in NAME.npy
			}
			if b := make([]byte, r.IntN(20)); name != "" {
				c.blobs[name] = b
			}
		}
	}
	return c
}

// randomAttributes returns attributes, which have other types than strings where the form
// has them.
func randomAttributes(r *rand.Rand, f form) map[string]any {
	all := map[string]any{}
	typed := f.format == tensorfile.ZTensor && f.version == "2"
	if f.format == tensorfile.GGUF {
		return randomMetadata(r)
	}
	keys := []string{"license", "a b", "é", "", "total_size", "a.b/c", "format", "nul\x00"}
	for range r.IntN(4) {
		values := []any{"text", "", "1", "two\nlines", `{"a":1}`}
		if typed {
			values = append(values, 1, -3, uint64(1<<63), 0.5, true, []any{1, "x"},
				map[string]any{"k": "v", "n": 2})
		}
		key, value := keys[r.IntN(len(keys))], values[r.IntN(len(values))]
		if f.version == "2" && ztensor.NewWriter(io.Discard, &ztensor.WriterOptions{Version: "2"}).
			TensorAttributes("w", map[string]any{key: value}) != nil {
			continue
		}
		all[key] = value
	}
	return all
}

// randomMetadata returns attributes of all types that a .gguf has.
func randomMetadata(r *rand.Rand) map[string]any {
	all := map[string]any{}
	keys := []string{"license", "a b", "é", "total_size", "a.b/c", "format", "split.no", "nul\x00"}
	for range r.IntN(6) {
		values := []any{"text", "", "1", uint8(200), int8(-1), uint16(1), int16(-2), uint32(7),
			int32(-7),
			uint64(1 << 63), int64(-1 << 62), float32(0.1), float32(1e-30), 0.1, 1.0, 1e300,
			math.NaN(), true,
			[]string{"a", ""}, []string{}, []uint8{1, 2}, []int64{1 << 40}, []uint64{1 << 63},
			[]float32{0.1, 2.5},
			[]float64{0.1, 1e300}, []float32{float32(math.Inf(1))}, []bool{true}, []int32{-1},
			[]any{},
			[]any{[]uint8{1}, []string{"x"}}}
		all[keys[r.IntN(len(keys))]] = values[r.IntN(len(values))]
	}
	if r.IntN(4) == 0 {
		all["general.alignment"] = uint32(64)
	}
	return all
}

// randomBlocks returns quantised blocks in the layout of the form.
func randomBlocks(r *rand.Rand, f form, name string) *tensor.Tensor {
	kind, _ := ggml.Named([]string{"Q4_0", "Q8_0", "Q4_K", "Q6_K", "IQ4_NL"}[r.IntN(5)])
	rows := int64(r.IntN(3))
	data := make([]byte, rows*kind.Bytes)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	x := &tensor.Tensor{Name: name, Shape: tensor.Shape{rows, kind.Elements}, Scheme: kind.Name,
		Parts: []tensor.Part{{Role: "blocks", Data: tensor.BlobOf(data)}}}
	if f.format == tensorfile.ZTensor {
		x.Scheme, x.DType = "gguf."+strings.ToLower(kind.Name)+"/1", tensor.U8
		x.Parts[0].Role, x.Parts[0].DType = "data", tensor.U8
		if !ztensor.HasBlocks(x.Scheme) {
			return randomTensor(r, f, name)
		}
	}
	return x
}

// randomSparse returns a sparse matrix, whose entries may be in any order and, where the
// form holds that, more than one for an element.
func randomSparse(r *rand.Rand, f form, name string) *tensor.Tensor {
	types := []tensor.DType{tensor.F32, tensor.F64, tensor.I32, tensor.U8, tensor.BF16}
	d := types[r.IntN(len(types))]
	rows, cols := int64(1+r.IntN(5)), int64(1+r.IntN(5))
	at := make([]uint64, 0, rows*cols)
	for i := range uint64(rows * cols) {
		if r.IntN(3) == 0 {
			at = append(at, i)
		}
	}
	scheme, repeated := []string{"sparse_csr", "sparse_coo"}[r.IntN(2)], false
	if f.version != "2" && scheme == "sparse_coo" && len(at) > 0 {
		r.Shuffle(len(at), func(i, j int) { at[i], at[j] = at[j], at[i] })
		if repeated = r.IntN(4) == 0; repeated {
			at = append(at, at[0])
		}
	}
	n := int64(len(at))
	x := &tensor.Tensor{Name: name, DType: d, Shape: tensor.Shape{rows, cols}, Scheme: scheme}
	x.Parts = []tensor.Part{{Role: "values", DType: d, Data: sample(d, tensor.Shape{n}).Data}}
	add := func(role string, v []uint64) {
		part := tensor.New("", tensor.Shape{int64(len(v))}, v)
		x.Parts = append(x.Parts, tensor.Part{Role: role, DType: tensor.U64, Data: part.Data})
	}
	if scheme == "sparse_coo" {
		coords := make([]uint64, 2*n)
		for i, k := range at {
			coords[i], coords[int(n)+i] = k/uint64(cols), k%uint64(cols)
		}
		add("coords", coords)
		return x
	}
	indices, indptr := make([]uint64, n), make([]uint64, rows+1)
	for i, k := range at {
		indices[i] = k % uint64(cols)
		for row := k/uint64(cols) + 1; row <= uint64(rows); row++ {
			indptr[row]++
		}
	}
	add("indices", indices)
	add("indptr", indptr)
	return x
}

// file writes the contents with the writer of the form's own package.
func (c contents) file(t *testing.T, f form) *tensorfile.File {
	t.Helper()
	var out bytes.Buffer
	var err error
	switch f.format {
	case tensorfile.ZTensor:
		w := ztensor.NewWriter(&out,
			&ztensor.WriterOptions{Version: f.version, Attributes: c.attributes})
		for name, own := range c.own {
			err = errors.Join(err, w.TensorAttributes(name, own))
		}
		err = errors.Join(err, w.AddAll(t.Context(), tensor.Of(c.tensors...)), w.Close())
	case tensorfile.PTD:
		w := ptd.NewWriter(&out, nil)
		err = w.AddAll(t.Context(), tensor.Of(c.tensors...))
		for _, name := range slices.Sorted(maps.Keys(c.blobs)) {
			err = errors.Join(err, w.AddBlob(name, tensor.BlobOf(c.blobs[name])))
		}
		err = errors.Join(err, w.Close())
	case tensorfile.GGUF:
		o := &gguf.WriterOptions{}
		for _, k := range slices.Sorted(maps.Keys(c.attributes)) {
			o.Metadata = append(o.Metadata, entryOfGGUF(t, k, c.attributes[k]))
		}
		w := gguf.NewWriter(&out, o)
		err = errors.Join(w.AddAll(t.Context(), tensor.Of(c.tensors...)), w.Close())
	case tensorfile.NPZ:
		var arrays bytes.Buffer
		w := npz.NewWriter(&arrays, nil)
		err = errors.Join(w.AddAll(t.Context(), tensor.Of(c.tensors...)), w.Close(),
			addMembers(&out, arrays.Bytes(), c.blobs))
	case tensorfile.PTE:
		b := pte.NewBuilder()
		m := b.Method("forward")
		for _, x := range c.tensors {
			m.Constant(x)
		}
		m.Return()
		for _, name := range slices.Sorted(maps.Keys(c.blobs)) {
			b.Named(name, tensor.BlobOf(c.blobs[name]), 16)
		}
		err = b.Write(t.Context(), &out, nil)
	default:
		attributes := map[string]string{}
		for k, v := range c.attributes {
			attributes[k] = v.(string)
		}
		return write(t, f, c.tensors, attributes)
	}
	if err != nil {
		t.Fatalf("writing %v: %v", f, err)
	}
	return open(t, out.Bytes())
}

// addMembers writes a zip archive with further members.
func addMembers(w io.Writer, archive []byte, members map[string][]byte) error {
	old, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return err
	}
	z := zip.NewWriter(w)
	for _, f := range old.File {
		err = errors.Join(err, z.Copy(f))
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		m, e := z.Create(name)
		if e == nil {
			_, e = m.Write(members[name])
		}
		err = errors.Join(err, e)
	}
	return errors.Join(err, z.Close())
}
