package ztensor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/dtype"
	"github.com/tensorfile/tensorfile/ztensor/internal/v1"
)

// T13: 1.1 and 1.2 have uint64 indices. Others are read, though not by a strict
// reader: upstream takes them for uint64 whatever they say.
func TestNarrowIndicesAreReadUnlessStrict(t *testing.T) {
	index := func(offset, length int, dtype string) map[string]any {
		return map[string]any{"dtype": dtype, "offset": offset, "length": length}
	}
	for _, c := range []struct {
		scheme, dtype string
		strict        bool
		parts         map[string]any
	}{
		{"sparse_coo", "u64", true, map[string]any{"coords": index(64, 0, "u64")}},
		{"sparse_coo", "u8", false, map[string]any{"coords": index(64, 0, "u8")}},
		{"sparse_csr", "u32", false,
			map[string]any{"indices": index(64, 0, "u64"), "indptr": index(64, 8, "u32")}},
		{"sparse_csr", "i64", false,
			map[string]any{"indices": index(64, 0, "i64"), "indptr": index(64, 8, "u64")}},
		{"of_another_kind", "u8", true,
			map[string]any{"indices": index(64, 8, "u8"), "coords": index(64, 8, "u8")}},
	} {
		b := good12(func(t, _ map[string]any) {
			c.parts["values"] = index(64, 0, "f32")
			t["shape"], t["format"], t["components"] = []int{1, 3}, c.scheme, c.parts
		})
		if _, err := OpenBytes(b, nil); err != nil {
			t.Errorf("%s of %s: %v", c.scheme, c.dtype, err)
		}
		if _, err := OpenBytes(b, &ReaderOptions{Strict: true}); (err == nil) != c.strict ||
			err != nil && !strings.HasSuffix(tensor.FindingOf(err).Field, ".dtype") {
			t.Errorf("%s of %s, strict: %v", c.scheme, c.dtype, err)
		}
	}
}

func TestSparseIndicesAreChecked(t *testing.T) {
	with := func(change func(t *tensor.Tensor)) *tensor.Tensor {
		t := csr("s", []uint64{0, 2, 2, 3}, []uint64{0, 3, 1}, 4)
		change(t)
		return t
	}
	part := func(role string, v any, d tensor.DType) func(t *tensor.Tensor) {
		return func(t *tensor.Tensor) {
			var b bytes.Buffer
			binary.Write(&b, binary.LittleEndian, v)
			*t.Part(role) = tensor.Part{Role: role, DType: d, Data: tensor.BlobOf(b.Bytes())}
		}
	}
	coo := func(shape tensor.Shape, coords any) *tensor.Tensor {
		t := with(func(t *tensor.Tensor) { t.Scheme, t.Shape = sparse.COO, shape })
		t.Parts = append(t.Parts[:1:1], tensor.Part{Role: "coords"})
		part("coords", coords, tensor.U64)(t)
		return t
	}
	for _, c := range []struct {
		name string
		t    *tensor.Tensor
		want error
	}{
		{"csr", with(func(t *tensor.Tensor) {}), nil},
		{"csr, unsorted", with(part("indices", []uint64{3, 0, 1}, tensor.U64)), nil},
		{"csr of int32 indices", with(part("indices", []int32{0, 3, 1}, tensor.I32)), nil},
		{"csr of uint8 indptr", with(part("indptr", []uint8{0, 2, 2, 3}, tensor.U8)), nil},
		{"indptr that falls", with(part("indptr", []uint64{0, 3, 2, 3}, tensor.U64)),
			tensor.ErrMalformed},
		{"indptr that begins with 1", with(part("indptr", []uint64{1, 2, 2, 3}, tensor.U64)),
			tensor.ErrMalformed},
		{"indptr that ends early", with(part("indptr", []uint64{0, 2, 2, 2}, tensor.U64)),
			tensor.ErrMalformed},
		{"indptr that ends late", with(part("indptr", []uint64{0, 2, 2, 4}, tensor.U64)),
			tensor.ErrMalformed},
		{"indptr of 2⁶⁴−1", with(part("indptr", []uint64{0, 2, 2, math.MaxUint64}, tensor.U64)),
			tensor.ErrMalformed},
		{"indptr too short", with(part("indptr", []uint64{0, 2, 3}, tensor.U64)),
			tensor.ErrMalformed},
		{"indptr too long", with(part("indptr", []uint64{0, 2, 2, 3, 3}, tensor.U64)),
			tensor.ErrMalformed},
		{"indptr of nothing", with(part("indptr", []uint64{}, tensor.U64)), tensor.ErrMalformed},
		{"a column too far", with(part("indices", []uint64{0, 4, 1}, tensor.U64)),
			tensor.ErrMalformed},
		{"a column of 2⁶⁴−1", with(part("indices", []uint64{0, math.MaxUint64, 1}, tensor.U64)),
			tensor.ErrMalformed},
		{"a negative column", with(part("indices", []int64{0, -1, 1}, tensor.I64)),
			tensor.ErrMalformed},
		{"indices that are one too few", with(part("indices", []uint64{0, 3}, tensor.U64)),
			tensor.ErrMalformed},
		{"indices that are one too many", with(part("indices", []uint64{0, 3, 1, 1}, tensor.U64)),
			tensor.ErrMalformed},
		{"half an index", with(part("indices", []byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3},
			tensor.U64)), tensor.ErrMalformed},
		{"indices of floats", with(part("indices", []float64{0, 3, 1}, tensor.F64)),
			tensor.ErrDType},
		{"values that are one too few", with(part("values", []float32{1, 2}, tensor.F32)),
			tensor.ErrMalformed},
		{"values that are one too many", with(part("values", []float32{1, 2, 3, 4}, tensor.F32)),
			tensor.ErrMalformed},
		{"half a value", with(part("values", []byte{1, 2, 3, 4, 5}, tensor.F32)),
			tensor.ErrMalformed},
		{"one dimension", with(func(t *tensor.Tensor) { t.Shape = tensor.Shape{3} }),
			tensor.ErrMalformed},
		{"three dimensions", with(func(t *tensor.Tensor) { t.Shape = tensor.Shape{3, 4, 1} }),
			tensor.ErrMalformed},
		{"no indptr", with(func(t *tensor.Tensor) { t.Parts = t.Parts[:2] }), tensor.ErrMalformed},
		{"no values", with(func(t *tensor.Tensor) { t.Parts = t.Parts[1:] }), tensor.ErrMalformed},
		{"2⁶² rows", with(func(t *tensor.Tensor) { t.Shape = tensor.Shape{1 << 62, 1} }),
			tensor.ErrMalformed},
		{"coo", coo(tensor.Shape{3, 4}, []uint64{0, 1, 2, 3, 3, 3}), nil},
		{"coo of one dimension", coo(tensor.Shape{9}, []uint64{0, 8, 4}), nil},
		{"coo too far", coo(tensor.Shape{3, 4}, []uint64{0, 1, 3, 3, 3, 3}), tensor.ErrMalformed},
		{"coo too far in the second dimension",
			coo(tensor.Shape{3, 4}, []uint64{0, 1, 2, 3, 4, 3}), tensor.ErrMalformed},
		{"coo one too few", coo(tensor.Shape{3, 4}, []uint64{0, 1, 2, 3, 3}), tensor.ErrMalformed},
		{"coo one too many", coo(tensor.Shape{3, 4}, []uint64{0, 1, 2, 3, 3, 3, 3}),
			tensor.ErrMalformed},
		{"coo of 2⁶⁴−1", coo(tensor.Shape{3, 4}, []uint64{0, 1, math.MaxUint64, 3, 3, 3}),
			tensor.ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			check := func(how string, err error) {
				t.Helper()
				if c.want == nil && err != nil || !errors.Is(err, c.want) {
					t.Errorf("%s: %v, want %v", how, err, c.want)
				}
			}
			check("Check", sparse.Check(t.Context(), c.t, nil))
			_, err := sparse.Densify(t.Context(), c.t, nil)
			check("Densify", err)
			check("Add", NewWriter(io.Discard, &WriterOptions{Version: "1.0"}).Add(c.t))
			// The same out of a file, which opens in any case, also where a warning about
			// the spelling of a digest comes first.
			for how, digest := range map[string]string{"Verify": "",
				"Verify of digests in lower case": "crc32c:0x%08x"} {
				b := append([]byte(v1.Magic1), make([]byte, 56)...)
				components := map[string]any{}
				for _, p := range c.t.Parts {
					data, _ := p.Data.ReadAll()
					b = append(b, make([]byte, (64-len(b)%64)%64)...)
					word := dtype.StorageName(p.DType, true)
					x := component12(word, len(b), len(data))
					if digest != "" {
						x["digest"] = fmt.Sprintf(digest,
							crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
					}
					components[p.Role] = x
					b = append(b, data...)
				}
				shape := make([]any, len(c.t.Shape))
				for i, d := range c.t.Shape {
					shape[i] = d
				}
				r, err := OpenBytes(footed(b,
					manifest12(map[string]any{"s": object12(c.t.Scheme, shape, components)}),
					true), nil)
				if err != nil {
					t.Fatal(err)
				}
				_, err = r.Verify(t.Context(), nil)
				check(how, err)
			}
		})
	}
}

// A structural fault, which is listed, fails only when it is used.
func TestStructuralTensorsFailWhenUsed(t *testing.T) {
	for _, c := range []struct {
		name string
		data []byte
		load error // of Load[float32]; nil: any error will do, but there has to be one
		find tensor.Class
	}{
		{"an unknown dtype", good10(setT("dtype", "float31")), tensor.ErrDType,
			tensor.ClassUnsupported},
		{"an unknown dtype in 1.2", good12(set("dtype", "f31")), tensor.ErrDType,
			tensor.ClassUnsupported},
		{"an unknown logical type", good12(set("type", "posit32")), tensor.ErrDType,
			tensor.ClassUnsupported},
		{"a logical type on another storage", good12(set("type", "f8_e5m2")), tensor.ErrDType,
			tensor.ClassUnsupported},
		{"an unknown encoding", good12(set("encoding", "lz4")), errors.ErrUnsupported,
			tensor.ClassUnsupported},
		{"no data", good12(func(t, c map[string]any) {
			t["components"] = map[string]any{"other": c}
		}), tensor.ErrDType, tensor.ClassMalformed},
		{"no components", good10(setT("components", map[string]any{})), tensor.ErrMalformed,
			tensor.ClassMalformed},
		{"too few bytes", good10(set("length", 4)), tensor.ErrMalformed, tensor.ClassMalformed},
		{"too many bytes", good10(setT("shape", []any{1})), tensor.ErrMalformed,
			tensor.ClassMalformed},
		{"another uncompressed_length", good12(set("uncompressed_length", 9)), tensor.ErrMalformed,
			tensor.ClassMalformed},
		{"csr without its parts", good12(setT("format", "sparse_csr")), errors.ErrUnsupported,
			tensor.ClassMalformed},
		{"another format", good12(setT("format", "my/own")), errors.ErrUnsupported, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := OpenBytes(c.data, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r.Len() != 1 {
				t.Fatal("not listed")
			}
			if _, err := tensor.Load[float32](r.Tensor("w")); !errors.Is(err, c.load) {
				t.Errorf("Load: %v, want %v", err, c.load)
			}
			report, _ := r.Verify(t.Context(), nil)
			findings := slices.DeleteFunc(report.Findings,
				func(f tensor.Finding) bool { return f.Severity == tensor.SeverityWarning })
			if c.find == "" && len(findings) > 0 ||
				c.find != "" && (len(findings) == 0 || findings[0].Class != c.find) {
				t.Errorf("Verify: %v, want %q", findings, c.find)
			}
		})
	}
}
