package rten

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestHeadersAndOtherFilesAreRefused(t *testing.T) {
	good := golden(t, "convert-0.22.0-basic")
	for _, n := range []int{0, 1, 3, 4, 7, 8, 11, 15, 16, 31} {
		refuse(t, fmt.Sprintf("%d bytes", n), good[:n], io.ErrUnexpectedEOF)
		refuse(t, fmt.Sprintf("%d zero bytes", n), make([]byte, n),
			map[bool]error{true: io.ErrUnexpectedEOF, false: tensor.ErrMalformed}[n < 4])
	}
	refuse(t, "a header alone", good[:32], io.ErrUnexpectedEOF)
	with := func(at int, b ...byte) []byte {
		c := bytes.Clone(good)
		copy(c[at:], b)
		return c
	}
	for _, v := range []byte{0, 1, 3, 255} {
		refuse(t, fmt.Sprintf("version %d", v), with(4, v), errors.ErrUnsupported)
	}
	for _, magic := range []string{"rten", "RTEM", "PK\x03\x04", "GGUF", "ZTEN", "\x7fELF",
		"{\"a\""} {
		refuse(t, ""+magic, with(0, []byte(magic)...), tensor.ErrMalformed)
	}
	for _, other := range []string{"../testdata/ztensor", "../testdata/pte", "../testdata/ptd",
		"../testdata/primitiv"} {
		_, files := readtest.Files(t, other, func([]byte) bool { return true })
		for _, b := range files {
			if Detect(bytes.NewReader(b), int64(len(b))) {
				t.Errorf("a file of %s is taken for a .rten", other)
			}
		}
	}
	for name, b := range goldens(t) {
		if !Detect(bytes.NewReader(b), int64(len(b))) {
			t.Errorf("%s is not detected", name)
		}
	}
}

func TestUnusedBytesAreFoundIfStrict(t *testing.T) {
	good := golden(t, "convert-0.22.0-basic")
	hidden := append(bytes.Clone(good), "PK\x03\x04 a zip archive"...)
	r := openBytes(t, hidden)
	report, err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true})
	if f := report.Findings; len(f) != 1 || f[0].Offset != int64(len(good)) {
		t.Errorf("trailing bytes: %v", err)
	}
	if _, err := r.Verify(t.Context(), nil); err != nil {
		t.Errorf("a warning is an error: %v", err)
	}
	h, _ := r.Header()
	gap := bytes.Clone(good)
	if end := h.ModelOffset + h.ModelSize; end < h.TensorOffset {
		gap[end] = 1
		if f, _ := openBytes(t, gap).Verify(t.Context(),
			&tensor.VerifyOptions{Strict: true}); len(f.Findings) != 1 ||
			f.Findings[0].Offset != end {
			t.Errorf("bytes in the padding: %v", f)
		}
	}
	refuse(t, "leading bytes", append([]byte{0}, good...), tensor.ErrMalformed)
	zeros := append(bytes.Clone(good), make([]byte, 1<<20)...)
	if _, err := openBytes(t, zeros).Verify(t.Context(),
		&tensor.VerifyOptions{Strict: true}); err == nil {
		t.Error("a hole of 1 MiB is no finding")
	}
}

func TestHeaderFieldsOutsideTheFileAreRefused(t *testing.T) {
	good := golden(t, "convert-0.22.0-basic")
	size := uint64(len(good))
	for field, at := range map[string]int{"model_data_offset": 8, "model_data_len": 16,
		"tensor_data_offset": 24} {
		for _, v := range []uint64{0, 1, 31, size + 1, 1<<31 - 1, 1 << 31, 1 << 32, math.MaxInt64,
			1 << 63, math.MaxUint64 - 31, math.MaxUint64} {
			c := bytes.Clone(good)
			binary.LittleEndian.PutUint64(c[at:], v)
			t.Run(fmt.Sprintf("%s %d", field, v), func(t *testing.T) {
				api.Same(t, c, func(*Reader) string { t.Error("accepted"); return "" })
				var fe *tensor.FormatError
				if _, err := OpenBytes(c, nil); !errors.As(err, &fe) ||
					field != "model_data_len" && fe.Field != "header."+field {
					t.Errorf("%v", err)
				}
			})
		}
	}
	for _, c := range []struct {
		name   string
		offset uint64
		dims   []uint32
		class  error
	}{
		{"one byte past the end", 61, []uint32{1}, io.ErrUnexpectedEOF},
		{"an empty one past the end", 65, []uint32{0}, io.ErrUnexpectedEOF},
		{"2^63", 1 << 63, []uint32{1}, tensor.ErrMalformed},
		{"2^64-1", math.MaxUint64, []uint32{1}, tensor.ErrMalformed},
		{"the sum wraps", math.MaxInt64, []uint32{1}, io.ErrUnexpectedEOF},
		{"the sum wraps with nothing", math.MaxInt64, []uint32{0}, io.ErrUnexpectedEOF},
	} {
		refuse(t, ""+c.name,
			made(64, func(b *raw) []fb.Offset {
				return []fb.Offset{b.outside("w", c.offset, c.dims...)}
			}), c.class)
	}
	r := openBytes(t, made(64, func(b *raw) []fb.Offset {
		return []fb.Offset{b.outside("last", 60, 1), b.outside("nothing", 64, 0),
			b.outside("odd", 1, 3)}
	}))
	for x := range r.Tensors() {
		if _, err := x.Data.ReadAll(); err != nil {
			t.Errorf("%s: %v", x.Name, err)
		}
	}
	if v, err := tensor.Load[float32](r.Tensor("odd")); err != nil || len(v) != 3 {
		t.Errorf("an unaligned tensor: %v", err)
	}
	if _, err := tensor.View[float32](r.Tensor("odd")); !errors.Is(err, tensor.ErrNoView) {
		t.Errorf("a view of an unaligned tensor: %v", err)
	}
}
