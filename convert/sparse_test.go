package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A scattered is a sparse matrix whose values are computed, so that none of it has to be
// held. Among the places of each row, or of the whole matrix where it is a coo, stride
// makes an order that is theirs only if it is 1.
type scattered struct {
	csr        bool
	rows, cols uint64 // powers of two
	nnz        uint64 // of a csr the same number in each row
	stride     uint64 // odd
}

// place is where value i belongs, element by element.
func (s *scattered) place(i uint64) uint64 {
	if !s.csr {
		return i * s.stride & (s.rows*s.cols - 1)
	}
	per := s.nnz / s.rows
	return i/per*s.cols + i%per*s.stride&(s.cols-1)
}

// element is what the dense tensor has at e.
func (s *scattered) element(e uint64) uint32 {
	inverse := s.stride // modulo 2^64, and so modulo every power of two
	for range 6 {
		inverse *= 2 - s.stride*inverse
	}
	at, n, width := e, s.nnz, s.rows*s.cols
	if s.csr {
		at, n, width = e%s.cols, s.nnz/s.rows, s.cols
	}
	if at*inverse&(width-1) >= n {
		return 0
	}
	return uint32(e)*2654435761 | 1
}

// part writes the part of that role piece by piece.
func (s *scattered) part(w io.Writer, role string) error {
	n, value := s.nnz, func(b []byte, i uint64) []byte {
		return binary.LittleEndian.AppendUint64(b, s.place(i)%s.cols)
	}
	switch role {
	case "values":
		value = func(b []byte, i uint64) []byte {
			return binary.LittleEndian.AppendUint32(b, s.element(s.place(i)))
		}
	case "indptr":
		n, value = s.rows+1,
			func(b []byte, i uint64) []byte {
				return binary.LittleEndian.AppendUint64(b,
					i*(s.nnz/s.rows))
			}
	case "coords":
		n, value = 2*s.nnz, func(b []byte, i uint64) []byte {
			if i < s.nnz {
				return binary.LittleEndian.AppendUint64(b, s.place(i)/s.cols)
			}
			return binary.LittleEndian.AppendUint64(b, s.place(i-s.nnz)%s.cols)
		}
	}
	var b []byte
	for i := range n {
		if b = value(b, i); len(b) >= 1<<16 || i == n-1 {
			if _, err := w.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	return nil
}

// file writes the matrix as version 1.2 of zTensor, or 1.1, which does not say how long
// compressed parts become. Compressed parts ask for a window of 8 MiB each.
func (s *scattered) file(t testing.TB, name, version string, compressed bool) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	end := func() int64 {
		t.Helper()
		at, err := f.Seek(0, io.SeekCurrent)
		check(err)
		return at
	}
	_, err = f.WriteString("ZTEN1000")
	check(err)
	components := map[string]any{}
	layout, roles := "sparse_coo", []string{"values", "coords"}
	if s.csr {
		layout, roles = "sparse_csr", []string{"values", "indices", "indptr"}
	}
	for _, role := range roles {
		at := (end() + 63) / 64 * 64
		_, err := f.Seek(at, io.SeekStart)
		check(err)
		c := map[string]any{"dtype": "u64", "offset": at}
		if role == "values" {
			c["dtype"] = "f32"
		}
		if compressed {
			z, err := zstd.NewWriter(f, zstd.WithWindowSize(8<<20),
				zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
			check(err)
			counted := &counter{w: z}
			check(errors.Join(s.part(counted, role), z.Close()))
			if c["encoding"] = "zstd"; version == "1.2" {
				c["uncompressed_length"] = counted.n
			}
		} else {
			check(s.part(f, role))
		}
		c["length"] = end() - at
		components[role] = c
	}
	manifest, err := cbor.Marshal(map[string]any{"version": version + ".0",
		"objects": map[string]any{
			"x": map[string]any{"format": layout, "shape": []uint64{s.rows, s.cols},
				"components": components}}})
	check(err)
	_, err = f.Write(append(binary.LittleEndian.AppendUint64(manifest, uint64(len(manifest))),
		"ZTEN1000"...))
	check(err)
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return c.w.Write(p)
}

// A comparing holds what is written behind a header against the dense matrix.
type comparing struct {
	s    *scattered
	skip int64
	at   uint64
	rest []byte
	err  error
}

func (c *comparing) Write(p []byte) (int, error) {
	n := len(p)
	k := min(int64(n), c.skip)
	c.skip -= k
	p = p[k:]
	if len(c.rest) > 0 {
		p = append(c.rest, p...)
	}
	for ; len(p) >= 4; p = p[4:] {
		if have, want := binary.LittleEndian.Uint32(p),
			c.s.element(c.at); have != want && c.err == nil {
			c.err = fmt.Errorf("element %d is %08x, not %08x", c.at, have, want)
		}
		c.at++
	}
	c.rest = append([]byte(nil), p...)
	return n, nil
}

func (c *comparing) done() error {
	if c.err == nil && c.at != c.s.rows*c.s.cols {
		c.err = fmt.Errorf("%d elements of %d", c.at, c.s.rows*c.s.cols)
	}
	return c.err
}

// Sparse tensors take memory for their indices, and for values that are not in order:
// made dense, and from each generation of zTensor to the other.
func TestScatteredSparseTensorsTakeMemoryOfTheirIndices(t *testing.T) {
	if testing.Short() {
		t.Skip("millions of elements")
	}
	large := os.Getenv("TENSORFILE_LARGE") != ""
	n, ways := uint64(1<<19), 1
	if large {
		n, ways = 8<<20, 2
	} else {
		t.Log("10 MiB, and not every way; TENSORFILE_LARGE=1 makes it all ways of 160 MiB")
	}
	for _, c := range []struct {
		name       string
		s          scattered
		version    string
		compressed bool
		always     bool // also where there is little time
	}{
		{"coo", scattered{rows: 1 << 10, cols: 2 * n >> 10, nnz: n, stride: 1}, "1.2", false,
			false},
		{"coo, compressed", scattered{rows: 1 << 10, cols: 2 * n >> 10, nnz: n, stride: 1}, "1.2",
			true, false},
		{"coo, unordered", scattered{rows: 1 << 10, cols: 2 * n >> 10, nnz: n, stride: 0x9e3779b1},
			"1.2", false, false},
		{"coo, unordered, compressed",
			scattered{rows: 1 << 10, cols: 2 * n >> 10, nnz: n, stride: 0x9e3779b1}, "1.1", true,
			true},
		{"csr, compressed", scattered{csr: true, rows: 1 << 10, cols: 2 * n >> 10, nnz: n,
			stride: 1}, "1.2", true, false},
		{"csr of many rows, compressed", scattered{csr: true, rows: n, cols: 4, nnz: n, stride: 1},
			"1.2", true, true},
		{"csr, unordered", scattered{csr: true, rows: 1 << 10, cols: 2 * n >> 10, nnz: n,
			stride: 0x9e3779b1}, "1.2", false, false},
		{"csr, unordered, compressed",
			scattered{csr: true, rows: 1 << 10, cols: 2 * n >> 10, nnz: n, stride: 0x9e3779b1},
			"1.2", true, false},
		{"csr of one row, unordered",
			scattered{csr: true, rows: 1, cols: 2 * n, nnz: n, stride: 0x9e3779b1}, "1.2", true,
			true},
	} {
		if !large && !c.always {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			first, second := filepath.Join(dir, "one.zt"), filepath.Join(dir, "two.zt")
			c.s.file(t, first, c.version, c.compressed)
			convert := func(from string, noMap bool, to form, o *Options, begin func() io.Writer) {
				t.Helper()
				src, err := tensorfile.Open(from, &tensorfile.Options{NoMap: noMap})
				if err != nil {
					t.Fatal(err)
				}
				defer src.Close()
				var p *Plan
				limit := int64(64<<20 + 48*n)
				planned := readtest.PeakHeap(func() {
					p, err = NewPlan(t.Context(), src, to.format, o)
				})
				if err != nil {
					t.Fatal(err)
				}
				if z, ok := o.Writer.(*ztensor.WriterOptions); ok && z.Level > 0 {
					limit = math.MaxInt64 // compressing takes more
				}
				peak := readtest.PeakHeap(func() { err = p.Write(t.Context(), begin()) })
				if err != nil || peak > limit || planned > limit {
					t.Errorf("%s to %v, mapped %v: %.1f MiB, %.1f to plan: %v",
						filepath.Base(from), to, !noMap, float64(peak)/(1<<20),
						float64(planned)/(1<<20), err)
				}
				t.Logf("%s to %v, mapped %v: %.1f MiB, %.1f to plan", filepath.Base(from), to,
					!noMap, float64(peak)/(1<<20), float64(planned)/(1<<20))
			}
			dense := func(from string, noMap bool) {
				t.Helper()
				var same *comparing
				convert(from, noMap, form{tensorfile.NPY, ""}, &Options{Allow: LossAll},
					func() io.Writer {
						same = &comparing{s: &c.s, skip: 128} // the header of a .npy
						return same
					})
				if err := same.done(); err != nil {
					t.Errorf("%s: %v", filepath.Base(from), err)
				}
			}
			sparse := func(from, to, version string, noMap bool, level int) {
				t.Helper()
				f, err := os.Create(to)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				o := &Options{Writer: &ztensor.WriterOptions{Version: version, Level: level}}
				convert(from, noMap, form{tensorfile.ZTensor, version}, o, func() io.Writer {
					if err := errors.Join(f.Truncate(0), rewind(f)); err != nil {
						t.Fatal(err)
					}
					return f
				})
			}
			for _, noMap := range []bool{true, false}[:ways] {
				dense(first, noMap)
				sparse(first, second, "2", noMap, 0)
				dense(second, noMap)
			}
			sparse(first, second, "2", false, 1)
			for _, noMap := range []bool{true, false}[:ways] {
				dense(second, noMap)
				sparse(second, first, "1.0", noMap, 0)
				dense(first, noMap)
			}
		})
	}
}

// The end comes soon wherever it comes: while parts are decoded, checked, and written.
func TestConversionOfSparseTensorsEndsWithItsContext(t *testing.T) {
	name := filepath.Join(t.TempDir(), "one.zt")
	for _, s := range []scattered{
		{rows: 1 << 9, cols: 1 << 10, nnz: 1 << 18, stride: 0x9e3779b1},
		{csr: true, rows: 2, cols: 1 << 18, nnz: 1 << 18, stride: 0x9e3779b1},
	} {
		s.file(t, name, "1.2", true)
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range []form{{tensorfile.NPY, ""}, {tensorfile.ZTensor, "2"}} {
			total := 0 // read by Write
			for step := range 8 {
				if testing.Short() && (step > 0 && step != 3 && step != 7 ||
					s.csr != (to.format == tensorfile.NPY)) {
					continue // of one target for each layout
				}
				r := &cancellingReader{r: bytes.NewReader(file), left: math.MaxInt,
					cancel: func() {}}
				src, err := tensorfile.NewReader(r, int64(len(file)), nil)
				if err != nil {
					t.Fatal(err)
				}
				p := planOf(t, src, to)
				ctx, cancel := context.WithCancel(t.Context())
				c := &cancelling{left: math.MaxInt, cancel: cancel}
				if step == 0 {
					r.left = math.MaxInt
					if err := p.Write(ctx, c); err != nil {
						t.Fatal(err)
					}
					total = math.MaxInt - r.left
					continue
				}
				if r.left = total * step / 7; step == 7 {
					r.left, c.left = math.MaxInt, 1<<18 // while it is merged
				}
				r.cancel = cancel
				if step == 6 { // behind the last byte that is read
					r.left = total - 1
				}
				err = p.Write(ctx, c)
				const slack = 4 << 20 // bytes that may be read or written after the cancellation
				if !errors.Is(err, context.Canceled) && step < 6 || r.left < -slack ||
					c.left < -slack {
					t.Errorf("%v to %v, %d of 7: %v, %d bytes read after it and %d written", s, to,
						step, err, -r.left, -c.left)
				}
				cancel()
			}
		}
	}
}

// A plan that reads, which it does of sparse tensors, ends too.
func TestPlanOfSparseTensorsEndsWithItsContext(t *testing.T) {
	name := filepath.Join(t.TempDir(), "one.zt")
	s := scattered{rows: 1 << 9, cols: 1 << 10, nnz: 1 << 18, stride: 0x9e3779b1}
	s.file(t, name, "1.2", false)
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	// opened; while coordinates of each dimension are read
	for _, after := range []int{-1, 1 << 20, 3 << 20} {
		ctx, cancel := context.WithCancel(t.Context())
		r := &cancellingReader{r: bytes.NewReader(file), left: math.MaxInt, cancel: cancel}
		src, err := tensorfile.NewReader(r, int64(len(file)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.left = after; after < 0 {
			cancel()
		}
		if _, err := NewPlan(ctx, src, tensorfile.ZTensor, version2.options()); !errors.Is(err,
			context.Canceled) || r.left < -1<<20 {
			t.Errorf("%d: %v, %d bytes read after the end", after, err, -r.left)
		}
		cancel()
	}
}

// An error of a source names the tensor once, whichever writer meets it, and so does a
// loss.
func TestErrorsNameATensorOnce(t *testing.T) {
	u64 := func(v ...uint64) tensor.Blob {
		return tensor.New("", tensor.Shape{int64(len(v))}, v).Data
	}
	coo := func(at ...uint64) *tensor.Tensor {
		return &tensor.Tensor{Name: "the one", DType: tensor.F32, Shape: tensor.Shape{9},
			Scheme: "sparse_coo", Parts: []tensor.Part{
				{Role: "values", DType: tensor.F32,
					Data: tensor.New("", tensor.Shape{2}, []float32{1, 2}).Data},
				{Role: "coords", DType: tensor.U64, Data: u64(at...)}}}
	}
	for what, x := range map[string]*tensor.Tensor{"twice": coo(3, 3), "damaged": coo(3, 4),
		"dense": tensor.New("the one", tensor.Shape{2}, []float32{1, 2})} {
		var file bytes.Buffer
		zw := ztensor.NewWriter(&file, &ztensor.WriterOptions{Version: "1.0", Level: 1})
		if err := errors.Join(zw.Add(x), zw.Close()); err != nil {
			t.Fatal(err)
		}
		b := file.Bytes()
		src := open(t, b)
		if what != "twice" {
			for _, p := range append(src.Tensor("the one").Parts,
				tensor.Part{Data: src.Tensor("the one").Data}) {
				if st, ok := p.Data.Stored(); ok {
					b[st.Offset] ^= 1
				}
			}
		}
		for _, to := range forms() {
			p := planOf(t, src, to)
			for _, l := range p.Losses() {
				if l.Field != `tensors["the one"]` || strings.Contains(l.Reason, "the one") {
					t.Errorf("%s to %v: a loss: %v", what, to, l)
				}
			}
			err := p.Write(t.Context(), io.Discard)
			if err != nil &&
				strings.Count(err.Error(), "the one") != 1 &&
				!errors.Is(err, errors.ErrUnsupported) { // nothing is left to write
				t.Errorf("%s to %v: the message does not name the tensor once: %v", what, to, err)
			}
			if what != "twice" && !errors.Is(err, tensor.ErrMalformed) {
				t.Errorf("%s to %v: %v", what, to, err)
			}
		}
	}
}

// A target that is slow is not waited for in memory, where digests are made of what is
// not mapped.
func TestSlowTargetsTakeBoundedMemory(t *testing.T) {
	readtest.Measure(t)
	name := filepath.Join(t.TempDir(), "w.zt")
	var all []*tensor.Tensor
	for i := range 3 {
		all = append(all, tensor.New(fmt.Sprint(i), tensor.Shape{5 << 20}, make([]float32, 5<<20)))
	}
	if err := ztensor.WriteFile(t.Context(), name, tensor.Of(all...), nil); err != nil {
		t.Fatal(err)
	}
	src, err := tensorfile.Open(name, &tensorfile.Options{NoMap: true})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	p, err := NewPlan(t.Context(), src, tensorfile.ZTensor,
		&Options{Writer: &ztensor.WriterOptions{Version: "1.0", Digest: ztensor.CRC32C}})
	if err != nil {
		t.Fatal(err)
	}
	peak := readtest.PeakHeap(func() { err = p.Write(t.Context(), slow{}) })
	if err != nil || peak > 16<<20 {
		t.Errorf("%.1f MiB, %v", float64(peak)/(1<<20), err)
	}
	t.Logf("%.1f MiB", float64(peak)/(1<<20))
}

// And where the target is compressed, whatever comes out: weights, of which most remains,
// and what repeats.
func TestCompressedTargetsTakeBoundedMemory(t *testing.T) {
	readtest.Measure(t)
	name := filepath.Join(t.TempDir(), "w.zt")
	func() {
		rng := rand.New(rand.NewPCG(1, 2))
		weights, rows := make([]float32, 5<<20), make([]float32, 5<<20)
		for i := range weights {
			weights[i], rows[i] = float32(rng.NormFloat64()), float32(i/1000)
		}
		shape := tensor.Shape{5 << 20}
		all := []*tensor.Tensor{tensor.New("weights", shape, weights),
			tensor.New("rows", shape, rows), tensor.New("weights too", shape, weights)}
		if err := ztensor.WriteFile(t.Context(), name, tensor.Of(all...), nil); err != nil {
			t.Fatal(err)
		}
	}()
	for _, unmapped := range []bool{false, true} {
		for _, version := range []string{"1.0", "2"} {
			for _, level := range []int{1, 3} {
				src, err := tensorfile.Open(name, &tensorfile.Options{NoMap: unmapped})
				if err != nil {
					t.Fatal(err)
				}
				p, err := NewPlan(t.Context(), src, tensorfile.ZTensor,
					&Options{Writer: &ztensor.WriterOptions{Version: version, Level: level}})
				if err != nil {
					t.Fatal(err)
				}
				peak := readtest.PeakHeap(func() { err = p.Write(t.Context(), io.Discard) })
				src.Close()
				if err != nil || peak > 64<<20 {
					t.Errorf("unmapped %v, to %s at level %d: %.1f MiB, %v", unmapped, version,
						level, float64(peak)/(1<<20), err)
				}
				t.Logf("unmapped %v, to %s at level %d: %.1f MiB", unmapped, version, level,
					float64(peak)/(1<<20))
			}
		}
	}
}

func rewind(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return err
}

type slow struct{}

func (slow) Write(p []byte) (int, error) {
	time.Sleep(time.Duration(len(p)) * 5 * time.Millisecond / (1 << 20))
	return len(p), nil
}

// Tensors that are made sparse have the dtype that Map returned; one that stays sparse
// keeps its own.
func TestTensorsMadeSparseHaveTheDTypeOfMap(t *testing.T) {
	x := tensor.New("x", tensor.Shape{2, 3}, []float32{0, 1, 0, 2, 0, 0})
	half := dtypes(map[tensor.DType]tensor.DType{tensor.F32: tensor.F16})
	end, p := run(t, tensorfile.FromTensors([]*tensor.Tensor{x}, nil),
		form{tensorfile.ZTensor, "2"}, &Options{Sparse: "sparse_csr", Map: half,
			Writer: &ztensor.WriterOptions{Version: "2"}})
	if y := first(t, end); y.Dense() || y.Part("values").DType != tensor.F16 ||
		len(requests(p)) != 1 {
		t.Errorf("%v, %v", y, p.Losses())
	}
	csr, err := sparse.Sparsify(t.Context(), x, sparse.CSR, nil)
	if err != nil {
		t.Fatal(err)
	}
	var oe *OptionError
	if _, err := NewPlan(t.Context(), tensorfile.FromTensors([]*tensor.Tensor{csr}, nil),
		tensorfile.ZTensor, &Options{Map: half}); !errors.As(err, &oe) || oe.Option != "Map" {
		t.Errorf("sparse: %v", err)
	}
}
