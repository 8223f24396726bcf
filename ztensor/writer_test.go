package ztensor

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/v1"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Files by upstream's packages are written byte for byte.
func TestWriterMakesUpstreamsBytes(t *testing.T) {
	head := append([]byte(v1.Magic1), make([]byte, 56)...)
	for _, c := range []struct{ version, tail string }{
		{"1.0", "0000803f00000040a46776657273696f6e63312e306967656e657261746f72737a54656e736f722d527573742076302e312e306a61747472696275746573a06774656e736f7273a16177a465647479706567666c6f61743332657368617065810266666f726d61746564656e73656a636f6d706f6e656e7473a16464617461a3666f66667365741840666c656e6774680866646967657374716372633332633a30783238433043394231a200000000000000"},
	} {
		o := &WriterOptions{Version: c.version, Digest: CRC32C}
		if c.version == "1.0" {
			o.Generator = "zTensor-Rust v0.1.0"
		}
		got := write(t, o, func(w *Writer) {
			if err := w.Add(tensor.New("w", tensor.Shape{2}, []float32{1, 2})); err != nil {
				t.Fatal(err)
			}
		})
		if want := append(slices.Clone(head), unhex(t, c.tail)...); !bytes.Equal(got, want) {
			t.Errorf("%s:\n%x\nwant\n%x", c.version, got, want)
		}
	}
}

// Every dense or sparse file of upstream comes out of our writer byte for byte,
// where its components lie in the order in which they can be added.
func TestFilesOfUpstreamSurviveRewriting(t *testing.T) {
	same := 0
	for _, g := range goldens(t, version1...) {
		t.Run(g.name, func(t *testing.T) {
			r, err := OpenBytes(g.data, nil)
			if err != nil {
				t.Fatal(err)
			}
			values := map[string]any{}
			for k, v := range r.AttributeValues() {
				if _, ok := v.Text(); ok {
					values[k] = v
				}
			}
			ordered := slices.SortedStableFunc(r.Tensors(),
				func(a, b *tensor.Tensor) int { return int(first(a) - first(b)) })
			var kept []string
			o := &WriterOptions{Version: "1.0", Attributes: values, Generator: r.Generator()}
			out := write(t, o, func(w *Writer) {
				for _, ten := range ordered {
					if err := w.Add(ten); err != nil {
						if !errors.Is(err, errors.ErrUnsupported) {
							t.Errorf("%q: %v", ten.Name, err)
						}
						continue
					}
					kept = append(kept, ten.Name)
				}
			})
			if bytes.Equal(out, g.data) {
				t.Log("byte for byte")
				same++
			}
			back, err := OpenBytes(out, &ReaderOptions{Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			if report, err := back.Verify(t.Context(),
				&tensor.VerifyOptions{Strict: true}); err != nil {
				t.Errorf("strict: %v", report.Findings)
			}
			if back.Version() != "1.0" || back.Len() != len(kept) {
				t.Errorf("version %s, %d tensors of %d", back.Version(), back.Len(), len(kept))
			}
			for _, name := range kept {
				sameTensor(t, r.Tensor(name), back.Tensor(name))
			}
		})
	}
	if same < 2 {
		t.Errorf("only %d files came out byte for byte", same)
	}
}

func sameTensor(t *testing.T, a, b *tensor.Tensor) {
	t.Helper()
	if a == nil || b == nil || a.Name != b.Name || !a.Shape.Equal(b.Shape) ||
		a.Scheme != b.Scheme || len(a.Parts) != len(b.Parts) {
		t.Errorf("%+v, want %+v", b, a)
		return
	}
	if a.Dense() && a.DType != b.DType {
		t.Errorf("%q: %v, want %v", a.Name, b.DType, a.DType)
	}
	sameBlob(t, a.Name, a.Data, b.Data)
	for _, p := range a.Parts {
		if q := b.Part(p.Role); q == nil {
			t.Errorf("%q has no part %q", a.Name, p.Role)
		} else {
			sameBlob(t, a.Name+"/"+p.Role, p.Data, q.Data)
		}
	}
}

func sameBlob(t *testing.T, name string, a, b tensor.Blob) {
	t.Helper()
	x, err := a.ReadAll()
	y, err2 := b.ReadAll()
	if err != nil || err2 != nil || !bytes.Equal(x, y) {
		t.Errorf("%q: %d bytes, want %d; %v, %v", name, len(y), len(x), err2, err)
	}
}

func TestWhatIsWrittenReadsBack(t *testing.T) {
	for _, o := range variants() {
		var b bytes.Buffer
		w := NewWriter(&b, &o)
		for _, ten := range samples() {
			if err := w.Add(ten); err != nil {
				t.Fatalf("%+v: %v", o, err)
			}
		}
		part, err := w.Create("piecewise", tensor.I16, tensor.Shape{100_000})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(samples()[0]); err == nil {
			t.Error("a tensor was added inside of another")
		}
		var piece []byte
		for i := range 100_000 {
			piece = binary.LittleEndian.AppendUint16(piece, uint16(i))
			if len(piece) < 600 && i < 99_999 {
				continue
			}
			if _, err := part.Write(piece); err != nil {
				t.Fatal(err)
			}
			piece = piece[:0]
		}
		if err := errors.Join(part.Close(), part.Close(), w.Close(), w.Close()); err != nil {
			t.Fatal(err)
		}
		r, err := OpenBytes(b.Bytes(), &ReaderOptions{Strict: true})
		if err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		if report, err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); err != nil {
			t.Errorf("%+v: %v", o, report.Findings)
		}
		for _, ten := range samples() {
			sameTensor(t, ten, r.Tensor(ten.Name))
		}
		if v, err := tensor.Load[int16](r.Tensor("piecewise")); err != nil || len(v) != 100_000 ||
			uint16(v[99_999]) != 34463 {
			t.Errorf("piecewise: %v", err)
		}
		if r.Version() != o.Version || len(r.Warnings()) > 0 {
			t.Errorf("%s: version %s, warnings %v", o.Version, r.Version(), r.Warnings())
		}
	}
}

func TestWritingTwiceGivesTheSameBytes(t *testing.T) {
	for _, o := range variants() {
		one := write(t, &o, func(w *Writer) {
			for _, ten := range samples() {
				w.Add(ten)
			}
		})
		second := write(t, &o, func(w *Writer) { w.AddAll(t.Context(), tensor.Of(samples()...)) })
		if !bytes.Equal(one, second) {
			t.Errorf("%+v: AddAll differs from Add", o)
		}
	}
}

func TestAllCoresGiveTheBytesOfOne(t *testing.T) {
	turns, options := 3, []WriterOptions{{Version: "1.0", Digest: SHA256, Level: 1},
		{Version: "1.0"}, {Version: "1.0", Digest: CRC32C}, {Version: "1.0", Digest: SHA256},
		{Version: "1.0", Level: 3}}
	if testing.Short() {
		turns, options = 1, options[:2]
	}
	var ts []*tensor.Tensor
	for i, size := range []int{0, 2, 100, 5 << 20, 64 << 10, 3 << 20, 2 << 20, 2, 40 << 10,
		1<<20 + 2, 7 << 20} {
		b := noise(size, uint64(i))
		blob := tensor.BlobOf(b)
		if i%3 == 1 { // not in memory
			blob = tensor.BlobFunc(int64(size),
				func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil })
		}
		ts = append(ts, &tensor.Tensor{Name: fmt.Sprint("tensor ", i), DType: tensor.BF16,
			Shape: tensor.Shape{int64(size / 2)}, Data: blob})
	}
	for _, o := range options {
		one := write(t, &o, func(w *Writer) {
			for _, ten := range ts {
				if err := w.Add(ten); err != nil {
					t.Fatal(err)
				}
			}
		})
		for range turns {
			all := write(t, &o, func(w *Writer) {
				if err := w.AddAll(t.Context(), tensor.Of(ts...)); err != nil {
					t.Fatal(err)
				}
			})
			if !bytes.Equal(one, all) {
				t.Fatalf("%+v: AddAll differs from Add", o)
			}
		}
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		single := write(t, &o, func(w *Writer) { w.AddAll(t.Context(), tensor.Of(ts...)) })
		if !bytes.Equal(one, single) {
			t.Fatalf("%+v: one core differs", o)
		}
		runtime.GOMAXPROCS(4)
	}
}

func TestCreateReplacesTheFileAtOnce(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.zt")
	if err := os.WriteFile(name, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	w, err := Create(name, &WriterOptions{Version: "1.0"})
	if err != nil {
		t.Fatal(err)
	}
	w.Add(samples()[0])
	w.Abort()
	if b, _ := os.ReadFile(name); string(b) != "old" {
		t.Error("Abort has touched the file")
	}
	if err := w.Add(samples()[1]); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Add after Abort: %v", err)
	}
	if err := WriteFile(t.Context(), name, tensor.Of(samples()...),
		&WriterOptions{Version: "1.0", Digest: CRC32C}); err != nil {
		t.Fatal(err)
	}
	r, err := Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Len() != len(samples()) {
		t.Errorf("%d tensors", r.Len())
	}
}

// A file that exists is left alone if it is asked for, and progress ends with all bytes.
func TestNoReplaceKeepsTheFileAndProgressReachesTheTotal(t *testing.T) {
	for _, version := range editableVersions {
		name := filepath.Join(t.TempDir(), "x.zt")
		var done, total int64
		o := &WriterOptions{Version: version, NoReplace: true,
			Progress: func(d, n int64) { done, total = d, n }}
		if err := WriteFile(t.Context(), name, tensor.Of(samples()[:3]...), o); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if size := int64(len(before)); done != size || total != size {
			t.Errorf("version %s: progress ends with %d of %d, the file has %d bytes", version,
				done, total, size)
		}
		if err := WriteFile(t.Context(), name, tensor.Of(), o); !errors.Is(err, fs.ErrExist) {
			t.Errorf("version %s: %v", version, err)
		}
		if after, err := os.ReadFile(name); err != nil || !bytes.Equal(before, after) {
			t.Errorf("version %s: the file has changed: %v", version, err)
		}
	}
}

// A tensor that comes piece by piece and is neither closed nor complete leaves no file,
// and no other tensor can be added meanwhile.
func TestATensorThatIsNotClosedLeavesNoFile(t *testing.T) {
	for _, version := range editableVersions {
		name := filepath.Join(t.TempDir(), "x.zt")
		w, err := Create(name, &WriterOptions{Version: version})
		if err != nil {
			t.Fatal(err)
		}
		part, err := w.Create("x", tensor.U8, tensor.Shape{4})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := part.Write([]byte{1, 2}); err != nil {
			t.Fatal(err)
		}
		other := tensor.New("y", tensor.Shape{1}, []uint8{1})
		for what, err := range map[string]error{"Check": w.Check(other), "Add": w.Add(other),
			"AddAll":           w.AddAll(t.Context(), tensor.Of(other)),
			"TensorAttributes": w.TensorAttributes("y", nil)} {
			if err == nil || !strings.Contains(err.Error(), "not closed") {
				t.Errorf("version %s: %s: %v", version, what, err)
			}
		}
		w.Abort()
		if _, err := part.Write([]byte{3}); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("version %s: Write after Abort: %v", version, err)
		}
		if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("version %s: there is a file: %v", version, err)
		}
	}
}
