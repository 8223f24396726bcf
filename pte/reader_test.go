package pte

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/fb/fbtest"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestEverySourceReadsTheSame(t *testing.T) {
	for _, name := range []string{"export-1.5.1-methods.pte", "export-1.5.1-bundled.bpte",
		"export-1.5.1-xnnpack.pte", "generation-0.2.1-inline-constants.pte"} {
		data := base(t, name)
		r, err := OpenBytes(data, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := plain(t, describe(t, r))
		for _, s := range readtest.Sources(t, data) {
			t.Run(name+"/"+s.Name, func(t *testing.T) {
				var r *Reader
				var err error
				switch {
				case s.Path != "":
					r, err = Open(s.Path, &ReaderOptions{NoMap: s.NoMap})
				case s.Reader != nil:
					r, err = NewReader(s.Reader, s.Size, nil)
				default:
					r, err = OpenBytes(s.Bytes, nil)
				}
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				if s.Reader != nil {
					most, bytes := 2, int64(headBytes)+r.Header().ProgramSize
					if r.Bundle() != nil { // whose flatbuffer is the whole file
						most, bytes = 4, bytes+headBytes+s.Size
					}
					if n := s.Reader.Calls(); n > most || s.Reader.Bytes() > bytes {
						t.Errorf("opening takes %d reads of %d bytes", n, s.Reader.Bytes())
					}
				}
				if got := plain(t, describe(t, r)); !reflect.DeepEqual(got, want) {
					t.Errorf("got %v\nwant %v", got, want)
				}
				for e := range r.Entries() {
					_, aliased := e.Data.Bytes()
					if inMemory := s.Name == "mapped" ||
						s.Name == "bytes"; e.Buffer > 0 && aliased != inMemory {
						t.Errorf("%s without a copy: %v", e.Name, aliased)
					}
				}
				walkAll(t, r)
			})
		}
	}
}

// zeros is a reader of a program with far more behind it than anybody could read.
type huge struct {
	head []byte
	n    int64
}

func (h *huge) ReadAt(p []byte, off int64) (int, error) {
	h.n += int64(len(p))
	return padded(h.head).ReadAt(p, off)
}

func TestListingReadsHeaderAndFlatbufferOnly(t *testing.T) {
	const size = 4 << 30
	b := NewBuilder()
	m := b.Method("forward")
	half := tensor.BlobFunc(size/2,
		func() (io.ReadCloser, error) { return nil, errors.New("read") })
	for range 2 {
		m.Return(m.Constant(&tensor.Tensor{DType: tensor.U8, Shape: tensor.Shape{size / 4, 2},
			Data: half}))
		half = tensor.BlobFunc(size/2, nil)
	}
	o, err := b.output(WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if o.size < size {
		t.Fatalf("%d bytes", o.size)
	}
	src := &huge{head: o.head}
	counter := readtest.Count(src)
	r, err := NewReader(counter, o.size, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range r.Tensors() {
		n++
	}
	for range r.Spans() {
	}
	if n != 2 || counter.Calls() > 2 || counter.Bytes() > int64(len(o.head))+headBytes {
		t.Errorf("%d tensors of %d bytes listed with %d reads of %d bytes, of which the flatbuffer has %d", n, o.size, counter.Calls(), counter.Bytes(), len(o.head))
	}
}

func TestOpeningTakesLittleMemory(t *testing.T) {
	readtest.Measure(t)
	b := NewBuilder()
	m := b.Method("forward")
	one := tensor.BlobOf(make([]byte, 4))
	for range 20_000 {
		m.Constant(&tensor.Tensor{DType: tensor.F32, Shape: tensor.Shape{1, 1}, Data: one})
	}
	var w bytes.Buffer
	if err := b.Write(t.Context(), &w, nil); err != nil {
		t.Fatal(err)
	}
	limit := 1<<20 + 4*int64(w.Len())
	n := readtest.PeakHeap(func() {
		r, err := OpenBytes(w.Bytes(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range r.Tensors() {
		}
	})
	if n > limit {
		t.Errorf("opening and listing %d bytes takes %d, more than %d", w.Len(), n, limit)
	}
}

func TestViewsBorrowAndLoadsCopy(t *testing.T) {
	data := base(t, "lean")
	r, err := OpenBytes(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := r.Tensor("forward/1")
	loaded, err := tensor.Load[float32](w)
	if err != nil || !reflect.DeepEqual(loaded, []float32{1, 2, 3, 4, 5, 6}) {
		t.Fatal(loaded, err)
	}
	if view, err := tensor.View[float32](w); err == nil {
		s, _ := w.Data.Stored()
		data[s.Offset+3] = 0x40 // 1 becomes 2.…
		if view[0] == 1 || loaded[0] != 1 {
			t.Error("a view copies or a load borrows")
		}
	} else if !errors.Is(err, tensor.ErrNoView) {
		t.Error(err)
	}
	if r.Tensor("nothing") != nil || entryOf(r, "") != nil {
		t.Error("a tensor that is not there")
	}
}

func TestEntriesTellWhereATensorIs(t *testing.T) {
	r := openFile(t, "../testdata/pte/export-1.5.1-state-initial.pte")
	var roles []string
	for e := range r.Entries() {
		roles = append(roles, e.Role.String())
		if e.Method.Name() != "forward" || e.Method.Value(e.Value).Kind() != kindTensor {
			t.Errorf("%+v", e)
		}
	}
	if got := strings.Join(roles, " "); got != "state state constant constant" {
		t.Error(got)
	}
	state := openFile(t, "../testdata/pte/export-1.5.1-state.pte")
	e := entryOf(state, "total")
	if e == nil || e.Role != RoleState || e.Buffer != 0 || e.Size() != 8 {
		t.Fatalf("%+v", e)
	}
	if _, err := e.Data.ReadAll(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("state without an initial value is read: %v", err)
	}
}

func TestMetadataIsTyped(t *testing.T) {
	r := openFile(t, "../testdata/pte/export-1.5.1-methods.pte")
	got := map[string]any{}
	for k, v := range r.Program().Metadata() {
		got[k] = v
	}
	if got["get_max_seq_len"] != int64(128) || got["use_kv_cache"] != true ||
		got["get_rope"] != 1.5 || got["get_name"] != "tiny" ||
		!reflect.DeepEqual(got["get_eos_ids"], []any{int64(1), int64(2)}) {
		t.Errorf("%v", got)
	}
	if x, ok := got["get_table"].(*tensor.Tensor); !ok || x.DType != tensor.I32 {
		t.Errorf("%v", got["get_table"])
	}
	attributes := map[string]string{}
	for k, v := range r.Attributes() {
		attributes[k] = v
	}
	if want := map[string]string{"get_max_seq_len": "128", "use_kv_cache": "true",
		"get_rope": "1.5", "get_name": "tiny",
		"get_eos_ids": "[1, 2]"}; !reflect.DeepEqual(attributes, want) {
		t.Errorf("%v", attributes)
	}
}

func TestStackTracesAreRead(t *testing.T) {
	r := openFile(t, "../testdata/pte/export-1.5.1-stack-traces.pte")
	m, _ := r.Program().Method("forward")
	for i := range m.Instructions() {
		s := stackOf(i)
		if i.Opcode() == OpKernelCall && (len(s) == 0 || s[len(s)-1].(row)["lineno"] == 0 ||
			s[len(s)-1].(row)["filename"] == "") {
			t.Errorf("%v: %+v", i, s)
		}
	}
}

func TestLimitsAreKept(t *testing.T) {
	data := base(t, "lean")
	for what, l := range map[string]tensor.Limits{
		"metadata": {MaxMetadata: 100}, "tensors": {MaxTensors: 1}, "name": {MaxName: 3},
		"rank": {MaxRank: 1},
	} {
		if _, err := OpenBytes(data, &ReaderOptions{Limits: l}); !errors.Is(err, tensor.ErrLimit) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := OpenBytes(base(t, "export-1.5.1-bundled.bpte"),
		&ReaderOptions{Limits: tensor.Limits{MaxMetadata: 100}}); !errors.Is(err,
		tensor.ErrLimit) {
		t.Errorf("a bundle: %v", err)
	}
	if _, err := OpenBytes(data, &ReaderOptions{Limits: tensor.Limits{MaxRank: -1}}); err == nil {
		t.Error("a negative limit is taken")
	}
}

// Content of a newer schema is shown and kept, or refused; it is never lost.
func TestNewerSchemaIsKeptOrRefused(t *testing.T) {
	lean := base(t, "lean")
	newer := craft(t, lean, func(c crafted) {
		c.plan().SetScalar(24, 4, 7)
		c.of(1).SetScalar(24, 8, 9)
	})
	r, err := OpenBytes(newer, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if w := r.Warnings(); len(w) != 2 || fieldOf(w[0]) != "ExecutionPlan" ||
		fieldOf(w[1]) != "Tensor" {
		t.Errorf("%v", w)
	}
	var out bytes.Buffer
	if err := NewEdit(r).Write(t.Context(), &out, nil); err != nil ||
		!bytes.Equal(out.Bytes(), newer) {
		t.Errorf("it does not come back: %v", err)
	}
	// only segment 0 is at a multiple of it
	if err := NewEdit(r).Write(t.Context(), io.Discard,
		&WriterOptions{SegmentAlignment: 4096}); err == nil {
		t.Error("a program of a newer schema is taken apart")
	}
	for what, do := range map[string]func() error{
		"Externalize": func() error { _, err := NewEdit(r).Externalize(nil); return err },
		"Internalize": func() error { _, err := NewEdit(r).Internalize(nil); return err },
		"SetMetadata": func() error { return NewEdit(r).setGetter("new", 1) },
	} {
		if err := do(); !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, fb.ErrUnknown) {
			t.Errorf("%s: %v", what, err)
		}
	}
	unknown := craft(t, lean,
		func(c crafted) { c.value(9).SetScalar(ptefb.SlotEValueValType, 1, 99) })
	r, err = OpenBytes(unknown, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := r.Program().Method("forward")
	if k := m.Value(9).Kind().String(); k != "KernelTypes(99)" {
		t.Error(k)
	}
	if err := NewEdit(r).setGetter("new", 1); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("an unknown value is taken apart: %v", err)
	}
}

// A header that is longer than all known ones is read, and what it has more is kept.
func TestLongerHeadersAreReadAndKept(t *testing.T) {
	lean := base(t, "lean")
	program := lean[:len(lean):len(lean)]
	r, err := OpenBytes(lean, nil)
	if err != nil {
		t.Fatal(err)
	}
	fbuf, ok := fbtest.Unsplice(r.buf, 32)
	if !ok {
		t.Fatal("no header")
	}
	long := fb.Splice(fbuf, 64)
	h := r.Header()
	base := (int64(len(long)) + 127) &^ 127
	Header{48, int64(len(long)), base, h.SegmentDataSize}.put(long)
	copy(long[40:], "sixteen new byte")
	long = append(long, make([]byte, base-int64(len(long)))...)
	long = append(long, program[h.SegmentBase:]...)
	r, err = OpenBytes(long, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Header().Length != 48 || len(r.Warnings()) != 1 {
		t.Errorf("%+v %v", r.Header(), r.Warnings())
	}
	for _, rebuild := range []bool{false, true} {
		e := NewEdit(r)
		e.Modernize()
		if rebuild {
			if err := e.takeApart(); err != nil {
				t.Fatal(err)
			}
		}
		var w bytes.Buffer
		if err := e.Write(t.Context(), &w, nil); err != nil {
			t.Fatal(err)
		}
		if string(w.Bytes()[40:56]) != "sixteen new byte" {
			t.Errorf("rebuilt %v: %q", rebuild, w.Bytes()[8:64])
		}
	}
}

func TestVerifyReportsEverythingAtOnce(t *testing.T) {
	b := craft(t, base(t, "lean"), func(c crafted) {
		setI32s(c.plan(), ptefb.SlotExecutionPlanOutputs, 99)
		c.of(1).SetScalar(ptefb.SlotTensorDataBufferIdx, 4, 99)
		c.call(0).SetScalar(ptefb.SlotKernelCallOpIndex, 4, 99)
	})
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	report, err := r.Verify(t.Context(), nil)
	for _, f := range report.Findings {
		fields = append(fields, f.Field)
	}
	want := []string{"execution_plan[0].values[1].val.data_buffer_idx",
		"execution_plan[0].outputs[0]", "execution_plan[0].chains[0].instructions[0].op_index"}
	if !slices.Equal(fields, want) || err == nil {
		t.Errorf("%q, %v", fields, err)
	}
}

func TestVerifyChecksExternalTensors(t *testing.T) {
	r := openFile(t, "../testdata/pte/export-1.5.1-external.pte")
	none := func(string) *tensor.Tensor { return nil }
	if _, err := r.Verify(t.Context(), &tensor.VerifyOptions{External: none}); err == nil {
		t.Error("external tensors that are nowhere are not missed")
	}
	same := func(name string) *tensor.Tensor {
		x := *r.Tensor(name)
		n, _ := x.Shape.Elements()
		size, _ := x.DType.Bytes(n)
		x.External, x.Data = false, tensor.BlobOf(make([]byte, size))
		return &x
	}
	if _, err := r.Verify(t.Context(), &tensor.VerifyOptions{External: same}); err != nil {
		t.Error(err)
	}
	short := func(name string) *tensor.Tensor {
		x := same(name)
		x.Data = tensor.BlobOf(make([]byte, 1))
		return x
	}
	if _, err := r.Verify(t.Context(), &tensor.VerifyOptions{External: short}); !errors.Is(err,
		tensor.ErrMalformed) {
		t.Errorf("an external tensor that is too short: %v", err)
	}
}

func TestRecognizeKnowsPayloadsOfBackends(t *testing.T) {
	for head, want := range map[string]string{"\x00\x00\x00\x00XH00": "xnnpack", "CMJR{": "json",
		"vela_bin_stream\x00": "vela", "\xcd\xab\x78\x56": "qnn", "": "", "XH0": "",
		"nothing at all": ""} {
		if _, ending := Recognize([]byte(head)); ending != want {
			t.Errorf("%q: %q", head, ending)
		}
	}
}

func TestWriteFileMayReplaceWhatItReads(t *testing.T) {
	name := filepath.Join(t.TempDir(), "p.pte")
	if err := os.WriteFile(name, base(t, "export-1.5.1-methods.pte"), 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	e := NewEdit(r)
	if _, err := e.Externalize(nil); err != nil {
		t.Fatal(err)
	}
	if err := e.WriteFile(t.Context(), name, nil); err != nil {
		t.Skipf("a file that is open cannot be replaced here: %v", err)
	}
	lean := openFile(t, name)
	for x := range lean.Tensors() {
		if !x.External {
			t.Errorf("%s is still stored", x.Name)
		}
	}
	walkAll(t, r)
}

func TestDimOrderThatIsNoneIsShown(t *testing.T) {
	r, err := OpenBytes(craft(t, base(t, "lean"),
		func(c crafted) { c.of(0).SetBytes(ptefb.SlotTensorDimOrder, []byte{1, 1}, 1) }), nil)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := r.Program().Method("forward")
	if i, _ := m.Value(0).Tensor(); i.Order != nil || string(i.DimOrder) != "\x01\x01" {
		t.Errorf("%v, %v", i.Order, i.DimOrder)
	}
	if i, _ := m.Value(1).Tensor(); i.DimOrder != nil {
		t.Errorf("%v of a sound tensor", i.DimOrder)
	}
}
