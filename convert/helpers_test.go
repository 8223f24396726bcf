package convert

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/npy"
	"github.com/tensorfile/tensorfile/npz"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// The helpers of tests in several files. More are in helpers_contents_test.go: random
// files of every format.

// A form is a format in one of the versions that are written.
type form struct {
	format  tensorfile.Format
	version string
}

func (f form) String() string { return strings.TrimSuffix(f.format.String()+"@"+f.version, "@") }

func (f form) caps() tensorfile.Caps { return f.format.CapsOf(f.version) }

func (f form) options() *Options {
	if f.format == tensorfile.ZTensor {
		return &Options{Writer: &ztensor.WriterOptions{Version: f.version}}
	}
	return &Options{}
}

// forms are all formats and versions that are written from tensors.
func forms() []form {
	var all []form
	for _, f := range tensorfile.Formats() {
		if len(f.Caps().DTypes) == 0 {
			continue
		}
		if f != tensorfile.ZTensor {
			all = append(all, form{f, ""})
			continue
		}
		for _, v := range f.Writes() {
			all = append(all, form{f, v})
		}
	}
	return all
}

// write makes a file of the form with the writer of its own package.
func write(t testing.TB, f form, ts []*tensor.Tensor,
	attributes map[string]string) *tensorfile.File {
	t.Helper()
	var out bytes.Buffer
	var err error
	switch f.format {
	case tensorfile.ZTensor:
		o := &ztensor.WriterOptions{Version: f.version, Digest: ztensor.CRC32C,
			Attributes: map[string]any{}}
		if f.version == "2" {
			o.Digest = ztensor.NoDigest
		}
		for k, v := range attributes {
			o.Attributes[k] = v
		}
		w := ztensor.NewWriter(&out, o)
		if err = w.AddAll(t.Context(), tensor.Of(ts...)); err == nil {
			err = w.Close()
		}
	case tensorfile.PTD:
		w := ptd.NewWriter(&out, nil)
		if err = w.AddAll(t.Context(), tensor.Of(ts...)); err == nil {
			err = w.Close()
		}
	case tensorfile.Safetensors:
		w := safetensors.NewWriter(&out,
			&safetensors.WriterOptions{Attributes: attributes, KeepOrder: true})
		if err = w.AddAll(t.Context(), tensor.Of(ts...)); err == nil {
			err = w.Close()
		}
	case tensorfile.GGUF:
		o := &gguf.WriterOptions{}
		for _, k := range slices.Sorted(maps.Keys(attributes)) {
			o.Metadata = append(o.Metadata, entryOfGGUF(t, k, attributes[k]))
		}
		w := gguf.NewWriter(&out, o)
		if err = w.AddAll(t.Context(), tensor.Of(ts...)); err == nil {
			err = w.Close()
		}
	case tensorfile.NPZ:
		w := npz.NewWriter(&out, nil)
		if err = w.AddAll(t.Context(), tensor.Of(ts...)); err == nil {
			err = w.Close()
		}
	case tensorfile.NPY:
		w := npy.NewWriter(&out, nil)
		if err = w.Add(ts[0]); err == nil {
			err = w.Close()
		}
	case tensorfile.Primitiv:
		w := primitiv.NewWriter(&out, &primitiv.WriterOptions{Reorder: true})
		if err = w.AddAll(t.Context(), tensor.Of(ts...)); err == nil {
			err = w.Close()
		}
	case tensorfile.RTen:
		g := rten.NewGraphBuilder()
		for _, x := range ts {
			g.Constant(x)
		}
		err = g.Write(t.Context(), &out, nil)
	default:
		t.Fatalf("no writer of %v", f)
	}
	if err != nil {
		t.Fatalf("writing %v: %v", f, err)
	}
	return open(t, out.Bytes())
}

func entryOfGGUF(t testing.TB, key string, x any) gguf.KeyValue {
	t.Helper()
	v, err := gguf.NewValue(x)
	if err != nil {
		t.Fatal(err)
	}
	return gguf.KeyValue{Key: key, Value: v}
}

func open(t testing.TB, b []byte) *tensorfile.File {
	t.Helper()
	f, err := tensorfile.OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// planOf is a plan that may lose what to cannot hold.
func planOf(t testing.TB, src *tensorfile.File, to form) *Plan {
	t.Helper()
	o := to.options()
	o.Allow = LossAll
	p, err := NewPlan(t.Context(), src, to.format, o)
	if err != nil {
		t.Fatalf("to %v: %v", to, err)
	}
	return p
}

func run(t testing.TB, src *tensorfile.File, to form, o *Options) (*tensorfile.File, *Plan) {
	t.Helper()
	p, err := NewPlan(t.Context(), src, to.format, o)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := p.Write(t.Context(), &out); err != nil {
		t.Fatalf("to %v: %v", to, err)
	}
	end := open(t, out.Bytes())
	if p.Target() != end.Format() {
		t.Errorf("a plan for %v wrote %v", p.Target(), end.Format())
	}
	planned := map[string]*tensor.Tensor{}
	for x := range p.Tensors() {
		planned[x.Name] = x
	}
	for x := range end.Tensors() {
		w := planned[x.Name]
		// which has no names, or not this one
		if end.Format() == tensorfile.NPY || w == nil && planned[""] != nil {
			for _, w = range planned {
			}
		}
		// which drops ones at the end
		sameShape := w != nil &&
			(slices.Equal(w.Shape, x.Shape) || end.Format() == tensorfile.Primitiv)
		if !sameShape || w.DType != x.DType || w.Parts == nil && w.Data.Size() != x.Data.Size() {
			t.Errorf("to %v: %v was written, the plan was %v", to, x, w)
		}
	}
	return end, p
}

// sample is a tensor of that type with distinct bytes that are valid values.
func sample(d tensor.DType, shape tensor.Shape) *tensor.Tensor {
	n, _ := shape.Elements()
	size, _ := d.Bytes(n)
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i*37 + 11)
		if d == tensor.Bool {
			b[i] = byte(i*37) >> 3 & 1
		}
	}
	return &tensor.Tensor{Name: "layer.weight", DType: d, Shape: shape, Data: tensor.BlobOf(b)}
}

// only selects tensors.
func only(keep func(*tensor.Tensor) bool) func(*tensor.Tensor) (string, tensor.DType, bool) {
	return func(x *tensor.Tensor) (string, tensor.DType, bool) {
		return x.Name, tensor.Unknown, keep(x)
	}
}

// dtypes maps dtypes.
func dtypes(to map[tensor.DType]tensor.DType) func(*tensor.Tensor) (string, tensor.DType, bool) {
	return func(x *tensor.Tensor) (string, tensor.DType, bool) { return x.Name, to[x.DType], true }
}

func first(t testing.TB, f *tensorfile.File) *tensor.Tensor {
	t.Helper()
	for x := range f.Tensors() {
		return x
	}
	t.Fatal("no tensor")
	return nil
}

func rowMajor(t testing.TB, x *tensor.Tensor) []byte {
	t.Helper()
	if !x.Order.RowMajor() {
		r, err := tensor.Reordered(x, nil)
		if err != nil {
			t.Fatal(err)
		}
		x = r
	}
	b, err := x.Data.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func openFile(t *testing.T, name string) *tensorfile.File {
	t.Helper()
	f, err := tensorfile.Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// randomTensor returns a tensor that the form can hold.
func randomTensor(r *rand.Rand, f form, name string) *tensor.Tensor {
	types := f.caps().DTypes
	if f.format == tensorfile.PTE {
		types = tensorfile.PTD.Caps().DTypes
	}
	for {
		shape := make(tensor.Shape, r.IntN(5))
		for i := range shape {
			shape[i] = []int64{1, 1, 2, 3, 5, 8, 0}[r.IntN(7)]
		}
		d := types[r.IntN(len(types))]
		n, _ := shape.Elements()
		if n == 0 && !f.caps().ZeroDims && f.format != tensorfile.PTE ||
			d.Size() == 0 && n%8 != 0 {
			continue
		}
		x := sample(d, shape)
		b, _ := x.Data.ReadAll()
		if d.IsInt() {
			r.Shuffle(len(b), func(i, j int) { b[i], b[j] = b[j], b[i] })
			if w := d.Size(); r.IntN(2) == 0 { // small values, which narrower integers hold
				for i := range b {
					if i%w > 0 {
						b[i] = 0
					}
				}
			}
		}
		x.Name, x.Data = name, tensor.BlobOf(b)
		if order := r.Perm(len(shape)); d.Size() > 0 && f.caps().Orders.Hold(order, len(shape)) {
			x.Order = order
		}
		return x
	}
}

// randomName returns a name, which may be one that some formats cannot represent.
func randomName(r *rand.Rand, f form, i int) string {
	name := fmt.Sprintf("t%d", i)
	switch r.IntN(8) {
	case 0:
		name = "a." + name + ".é"
	case 1:
		name = name + "..x"
	case 2:
		if nameFor(f.format, f.version, name+"\x00b") == name+"\x00b" {
			name += "\x00b"
		}
	case 4:
		if long := name + strings.Repeat("é", 30); nameFor(f.format, f.version, long) == long &&
			f.format != tensorfile.Primitiv {
			name = long
		}
	case 3:
		if i == 0 && nameFor(f.format, f.version, "__metadata__") == "__metadata__" &&
			f.caps().Names != tensorfile.Paths {
			name = "__metadata__"
		}
	}
	if good := nameFor(f.format, f.version, name); good != name {
		return fmt.Sprintf("t%d", i)
	}
	return name
}

func requests(p *Plan) (narrow []Loss) {
	for _, l := range p.Losses() {
		if l.Kind == LossNarrow && l.Requested {
			narrow = append(narrow, l)
		}
	}
	return narrow
}

// cancelling is a writer that cancels after so many bytes.
type cancelling struct {
	left   int
	cancel func()
}

func (c *cancelling) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		c.cancel()
	}
	return len(p), nil
}

// cancellingReader cancels after so many bytes.
type cancellingReader struct {
	r      io.ReaderAt
	left   int
	cancel func()
}

func (c *cancellingReader) ReadAt(p []byte, off int64) (int, error) {
	if c.left -= len(p); c.left < 0 {
		c.cancel()
	}
	return c.r.ReadAt(p, off)
}

var version2 = form{tensorfile.ZTensor, "2"}

// version12 makes a file of zTensor 1.2, which is only read, with a tensor w of one
// float32 and these attributes of the file and of w.
func version12(t *testing.T, attributes, own map[string]any) *tensorfile.File {
	t.Helper()
	b := append([]byte("ZTEN1000"), make([]byte, 60)...)
	manifest, err := cbor.Marshal(map[string]any{"version": "1.2.0", "attributes": attributes,
		"objects": map[string]any{"w": map[string]any{"format": "dense", "shape": []int{1},
			"attributes": own, "components": map[string]any{"data": map[string]any{
				"dtype": "f32", "offset": 64, "length": 4}}}}})
	if err != nil {
		t.Fatal(err)
	}
	b = binary.LittleEndian.AppendUint64(append(b, manifest...), uint64(len(manifest)))
	return open(t, append(b, "ZTEN1000"...))
}
