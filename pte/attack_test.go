package pte

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// The tests below attack the reader; files with one wrong number each are in TestHostileFiles.

// goldens are small programs that between them have everything.
var goldens = []string{
	"export-1.5.1-bundled.bpte", "export-1.5.1-state-initial.pte", "export-1.5.1-xnnpack-inline.pte", "export-1.5.1-no-weights.pte",
	"generation-0.7.0-delegates-extracted.pte", "generation-0.2.1-inline-constants.pte", "lean", "rich",
}

// look opens a program, lists it and verifies it.
func look(b []byte) error {
	r, err := OpenBytes(b, nil)
	if err != nil {
		return err
	}
	for e := range r.Entries() {
		if e.Size() < 1<<20 {
			e.Data.ReadAll()
		}
	}
	for range r.Blobs() {
	}
	for range r.Attributes() {
	}
	for m := range r.Program().Methods() {
		_ = fmt.Sprint(m.Inputs(), m.Outputs())
	}
	for range r.Spans() {
	}
	_, err = r.Verify(context.Background(), nil)
	return err
}

// accepted is the share of damaged files in which no damage is seen: the format has no
// checksum. It may not grow.
var accepted = map[string]float64{
	"export-1.5.1-bundled.bpte": 48.8, "export-1.5.1-state-initial.pte": 41.4, "export-1.5.1-xnnpack-inline.pte": 77.7, "export-1.5.1-no-weights.pte": 48.9,
	"generation-0.7.0-delegates-extracted.pte": 70.4, "generation-0.2.1-inline-constants.pte": 24.0, "lean": 33.3, "rich": 35.7,
}

// thorough says whether there is time: in interop/pte.sh there is.
func thorough() bool { return os.Getenv("TENSORFILE_ETRUN") != "" }

func TestTruncationsAndFlips(t *testing.T) {
	for _, name := range goldens {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := base(t, name)
			hi := min(len(data), 4000)
			if !thorough() {
				hi = min(hi, 300)
			}
			truncated, changed := readtest.Damage(t, data, 0, hi, look)
			if truncated.Accepted > 0 {
				t.Errorf("%d truncations are accepted", truncated.Accepted)
			}
			if got := changed.Accepts(); thorough() && got > accepted[name] {
				t.Errorf("%.1f %% of the changes are not seen, more than %.1f", got, accepted[name])
			}
			t.Logf("%.1f %% of %d changes are not seen", changed.Accepts(), changed.Accepted+changed.Refused)
		})
	}
}

func TestTinyFilesAndMagics(t *testing.T) {
	lean := base(t, "lean")
	for _, n := range []int{0, 1, 3, 4, 7, 8, 11, 15, 39, 47, 63} {
		if err := look(lean[:n]); err == nil {
			t.Errorf("%d bytes are accepted", n)
		}
	}
	for _, magic := range []string{"FT01", "\x00\x00\x00\x00", "BP07", "BP09", "ET11", "TFL3", "RTEN", "et12"} {
		b := bytes.Clone(lean)
		copy(b[4:], magic)
		if err := look(b); err == nil {
			t.Errorf("%q is accepted", magic)
		}
		want := strings.HasPrefix(magic, "ET") || strings.HasPrefix(magic, "BP")
		if Detect(bytes.NewReader(b), int64(len(b))) != want {
			t.Errorf("%q: Detect is not %v", magic, want)
		}
	}
	for n := range 64 {
		if err := look([]byte(strings.Repeat("ET12", 16)[:n])); err == nil {
			t.Errorf("%d bytes of nothing but the magic are accepted", n)
		}
	}
}

func TestBytesBeforeAndBehind(t *testing.T) {
	lean := base(t, "lean")
	if err := look(append([]byte("x"), lean...)); err == nil {
		t.Error("a leading byte is accepted")
	}
	r, err := OpenBytes(append(bytes.Clone(lean), "behind"...), nil)
	if err != nil || len(r.Warnings()) != 1 {
		t.Errorf("trailing bytes: %v %v", r.Warnings(), err)
	}
}

func TestEveryNumberAtItsLimits(t *testing.T) {
	for _, name := range goldens {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := base(t, name)
			end := min(len(data), 4000)
			step := 4
			if !thorough() {
				step = 28
			}
			for at := 0; at+8 <= end; at += step {
				old := bytes.Clone(data[at : at+8])
				for _, v := range []uint32{0, 1, math.MaxInt32, 1 << 31, math.MaxUint32 - 1, math.MaxUint32} {
					put32(data, at, v)
					readtest.Survives(t, func() error { return look(data) }, "%#x at %d", v, at)
				}
				copy(data[at:], old)
				if at%8 == 0 {
					for _, v := range []uint64{1 << 32, 1<<63 - 1, 1 << 63, math.MaxUint64 - 7, math.MaxUint64} {
						put64(data, at, v)
						readtest.Survives(t, func() error { return look(data) }, "%#x at %d", v, at)
					}
					copy(data[at:], old)
				}
			}
		})
	}
}

// rows runs the lines of TestHostileFiles whose numbers are given, which belong
// together.
func rows(t *testing.T, numbers ...string) {
	t.Helper()
	n := 0
	for _, h := range hostiles {
		for _, x := range numbers {
			if strings.HasPrefix(h.name, x+" ") {
				n++
				if err := look(h.make(t)); (err == nil) != (h.open == nil && h.verify == nil) {
					t.Errorf("%s: %v", h.name, err)
				}
			}
		}
	}
	if n < len(numbers) {
		t.Errorf("%d files for %v", n, numbers)
	}
}

func TestOffsetAndLengthWrap(t *testing.T) {
	rows(t, "12", "16", "17", "40", "46")
	// Nothing at the very end is allowed, one byte is not.
	at := craft(t, base(t, "lean"), func(c crafted) { c.segments = append(c.segments, dataSegment{}) })
	root := ptefb.GetRootAsProgram(at, 0)
	var last ptefb.DataSegment
	root.Segments(&last, root.SegmentsLength()-1)
	if err := look(at); err != nil {
		t.Errorf("an empty segment at the end: %v", err)
	}
	if pos := fb.FieldPos(last.Table(), ptefb.SlotDataSegmentSize); pos != 0 {
		if err := look(put64(at, pos, 1)); err == nil {
			t.Error("a byte beyond the end")
		}
	}
}

func TestProductsWrap(t *testing.T) {
	rows(t, "36")
	for _, sizes := range [][]int32{{1 << 16, 1 << 16, 1 << 16, 1 << 16}, {4194305, 1<<31 - 1, 98305}, {1<<31 - 1, 1<<31 - 1, 4}} {
		b := craft(t, base(t, "lean"), func(c crafted) {
			setI32s(c.of(1), ptefb.SlotTensorSizes, sizes...)
			c.of(1).SetBytes(ptefb.SlotTensorDimOrder, []byte{0, 1, 2, 3}[:len(sizes)], 1)
		})
		if err := look(b); !errors.Is(err, tensor.ErrMalformed) {
			t.Errorf("%v: %v", sizes, err)
		}
		r, err := OpenBytes(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		x := r.Entry("forward/1")
		if n := readtest.Allocated(func() { x.Data.ReadAll(); tensor.Load[float32](x.Tensor) }); n > 1<<20 {
			t.Errorf("%v: reading it takes %d bytes", sizes, n)
		}
	}
}

func TestRanksAndDimensions(t *testing.T) {
	rows(t, "33", "35")
	for _, rank := range []int{0, 16, 17, 65, 1_000_000} {
		b := craft(t, base(t, "lean"), func(c crafted) {
			n := c.of(15) // one element of int64, whatever the rank
			dims := make([]byte, rank)
			for i := range dims {
				dims[i] = byte(i)
			}
			setI32s(n, ptefb.SlotTensorSizes, bytesOfOnes(rank)...)
			n.SetBytes(ptefb.SlotTensorDimOrder, dims, 1)
		})
		err := look(b)
		if good := rank <= 16; good != (err == nil) {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	b := craft(t, base(t, "lean"), func(c crafted) { setI32s(c.of(15), ptefb.SlotTensorSizes, 0) })
	if err := look(b); err != nil {
		t.Errorf("a dimension of 0: %v", err)
	}
}

func bytesOfOnes(n int) []int32 {
	v := make([]int32, n)
	for i := range v {
		v[i] = 1
	}
	return v
}

func TestDimOrder(t *testing.T)          { rows(t, "33", "34") }
func TestDeclaredAndStored(t *testing.T) { rows(t, "39", "40", "44", "45") }
func TestRootAndVtables(t *testing.T) {
	rows(t, "20", "21")
	lean := base(t, "lean")
	root := int(binary.LittleEndian.Uint32(lean))
	vtable := root - int(int32(binary.LittleEndian.Uint32(lean[root:])))
	for _, size := range []uint16{0, 2, 3, 65535} {
		b := bytes.Clone(lean)
		binary.LittleEndian.PutUint16(b[vtable:], size)
		if err := look(b); err == nil {
			t.Errorf("a vtable of %d bytes is accepted", size)
		}
	}
}

func TestFieldsStringsAndVectors(t *testing.T) {
	lean := base(t, "lean")
	root := ptefb.GetRootAsProgram(lean, 0)
	var plan ptefb.ExecutionPlan
	root.ExecutionPlan(&plan, 0)
	name := fb.FieldTarget(plan.Table(), ptefb.SlotExecutionPlanName) + 4
	b := bytes.Clone(lean)
	b[name+7] = 'x' // the zero byte behind "forward"
	if err := look(b); !errors.Is(err, tensor.ErrMalformed) {
		t.Errorf("a string without its end: %v", err)
	}
	for _, n := range []uint32{8, 1 << 30, math.MaxUint32} {
		b := bytes.Clone(lean)
		if err := look(put32(b, name-4, n)); err == nil {
			t.Errorf("a string of %d bytes", n)
		}
	}
	for _, o := range []uint32{0, 1, 2, 3, math.MaxInt32, 1 << 31, math.MaxUint32} { // backwards ones with them
		b := bytes.Clone(lean)
		if err := look(put32(b, fb.FieldPos(root.Table(), ptefb.SlotProgramExecutionPlan), o)); err == nil {
			t.Errorf("an offset of %#x", o)
		}
	}
}

func TestBackwardOffsets(t *testing.T) {
	lean := base(t, "lean")
	plans := int64(fb.FieldPos(ptefb.GetRootAsProgram(lean, 0).Table(), ptefb.SlotProgramExecutionPlan))
	for to := int64(0); to < plans; to += 4 {
		b := bytes.Clone(lean)
		if err := look(put32(b, int(plans), uint32(to-plans))); !errors.Is(err, tensor.ErrMalformed) {
			t.Fatalf("an offset back to %d: %v", to, err)
		}
	}
}

// amplified is a program of few bytes that shows many: n methods that are one, with n
// values that are one.
func amplified(n int) []byte {
	var b fb.Builder
	repeat := func(o fb.Offset) fb.Offset {
		all := make([]fb.Offset, n)
		for i := range all {
			all[i] = o
		}
		return b.Offsets(all)
	}
	b.Begin()
	b.Scalar(ptefb.SlotIntIntVal, 8, 5, 0)
	number := b.End()
	b.Begin()
	b.Ref(ptefb.SlotEValueVal, number)
	b.Scalar(ptefb.SlotEValueValType, 1, uint64(KindInt), 0)
	values := repeat(b.End())
	name := b.String("forward")
	b.Begin()
	b.Ref(ptefb.SlotExecutionPlanName, name)
	b.Ref(ptefb.SlotExecutionPlanValues, values)
	plans := repeat(b.End())
	b.Begin()
	b.Ref(ptefb.SlotProgramExecutionPlan, plans)
	out, err := b.Finish(b.End(), "ET12")
	if err != nil {
		panic(err)
	}
	return out
}

func TestAmplification(t *testing.T) {
	for _, n := range []int{1000, 2000, readtest.Entries(100_000)} {
		b := amplified(n)
		var err error
		allocated := readtest.Allocated(func() { err = look(b) })
		if !errors.Is(err, tensor.ErrLimit) {
			t.Errorf("%d×%d tables in %d bytes: %v", n, n, len(b), err)
		}
		if allocated > 1<<20+2*int64(len(b)) {
			t.Errorf("%d bytes take %d bytes of memory", len(b), allocated)
		}
	}
	// A long name that every tensor carries, and a long list that every input is.
	b := craft(t, base(t, "lean"), func(c crafted) {
		c.plan().SetString(ptefb.SlotExecutionPlanName, strings.Repeat("n", 1<<19))
		many := make([]*fb.Node, 20_000)
		for i := range many {
			many[i] = c.value(1)
		}
		c.plan().SetChildren(ptefb.SlotExecutionPlanValues, many)
	})
	if r, err := OpenBytes(b, nil); !errors.Is(err, tensor.ErrLimit) {
		t.Errorf("%v, %v", r, err)
	}
	b = craft(t, base(t, "lean"), func(c crafted) {
		setI32s(c.of(6), ptefb.SlotTensorListItems, make([]int32, 50_000)...)
		list := make([]int32, 50_000)
		for i := range list {
			list[i] = 6
		}
		setI32s(c.plan(), ptefb.SlotExecutionPlanInputs, list...)
		setI32s(c.plan(), ptefb.SlotExecutionPlanOutputs, list...)
		setI32s(c.call(0), ptefb.SlotKernelCallArgs, list...)
	})
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if shown := walkAll(t, r); shown > shownLimit(b) {
		t.Errorf("a list that is named often: %d bytes show %d", len(b), shown)
	}
}

func TestUnions(t *testing.T) {
	rows(t, "31", "32")
	for i := range 16 { // every value as every other member
		for tag := range uint64(14) {
			r, err := OpenBytes(base(t, "rich"), nil)
			if err != nil {
				t.Fatal(err)
			}
			e := NewEdit(r)
			if err := e.open(); err != nil {
				t.Fatal(err)
			}
			e.rebuild.load(128)
			crafted{e.rebuild}.value(i).SetScalar(ptefb.SlotEValueValType, 1, tag)
			var w bytes.Buffer
			o, err := e.rebuild.finish(128)
			if err != nil {
				t.Fatal(err)
			}
			o.writeTo(t.Context(), &w)
			readtest.Survives(t, func() error {
				r, err := OpenBytes(w.Bytes(), nil)
				if err == nil {
					walkAll(t, r)
				}
				return err
			}, "value %d as %d", i, tag)
		}
	}
}

// eachField calls do with a program from which one stored field is gone, for every field
// of every table of base.
func eachField(t *testing.T, name string, do func(path string, b []byte)) {
	t.Helper()
	b := base(t, name)
	total := 0
	countFields := func(c crafted) { c.tree.EachField(func(*fb.Node, int) bool { total++; return true }) }
	craft(t, b, countFields)
	for k := range total {
		i, path := 0, ""
		out := craft(t, b, func(c crafted) {
			c.tree.EachField(func(n *fb.Node, slot int) bool {
				if i == k {
					n.Remove(slot)
					path = fmt.Sprintf("field %d, slot %d", k, slot)
					i++
					return false
				}
				i++
				return true
			})
		})
		do(path, out)
	}
}

func TestEveryFieldMissing(t *testing.T) {
	for _, name := range []string{"lean", "rich"} {
		n := 0
		eachField(t, name, func(path string, b []byte) {
			n++
			readtest.Survives(t, func() error {
				r, err := OpenBytes(b, nil)
				if err != nil {
					return err
				}
				if n%7 == 0 {
					writeAll(t, r)
				}
				return look(b)
			}, "%s: %s", name, path)
		})
		if n < 100 {
			t.Errorf("only %d fields", n)
		}
	}
}

func TestCanaryBehindTheBuffer(t *testing.T) {
	const canary = "SECRET-TOKEN-of-another-request"
	for _, name := range []string{"lean", "export-1.5.1-no-weights.pte"} {
		data := base(t, name)
		room := append(bytes.Clone(data), bytes.Repeat([]byte(canary), 20)...)
		step := 4
		if !thorough() {
			step = 20
		}
		for at := 8; at+4 <= len(data); at += step {
			old := binary.LittleEndian.Uint32(room[at:])
			for _, v := range []uint32{old + 1, old + 16, old + 200, uint32(len(data) - at), uint32(len(data) - at + 8)} {
				put32(room, at, v)
				r, err := OpenBytes(room[:len(data)], nil)
				if err != nil {
					if strings.Contains(err.Error(), "SECRET") {
						t.Fatalf("%v", err)
					}
					continue
				}
				var all []any
				for e := range r.Entries() {
					b, _ := e.Data.ReadAll()
					all = append(all, e.Name, string(b))
				}
				for name, b := range r.Blobs() {
					x, _ := b.ReadAll()
					all = append(all, name, string(x))
				}
				for m := range r.Program().Methods() {
					in, out := m.Structure()
					all = append(all, m.Name(), in, out, fmt.Sprint(m.Operators(), m.Delegates()))
					for v := range m.Values() {
						all = append(all, v.String(), v.Text())
					}
				}
				all = append(all, fmt.Sprint(r.Warnings()))
				text, _ := json.Marshal(all)
				if bytes.Contains(text, []byte("SECRET")) {
					t.Fatalf("%s: %d at %d shows what lies behind", name, v, at)
				}
			}
			put32(room, at, old)
		}
	}
}

func TestIndices(t *testing.T) {
	rows(t, "39", "43", "45", "46", "48", "49", "50", "51", "55", "56")
}

func TestSegments(t *testing.T) {
	rows(t, "11", "18")
	b := craft(t, base(t, "lean"), func(c crafted) { // segments of nothing
		c.segments = append(c.segments, make([]dataSegment, 200_000)...)
	})
	var r *Reader
	var err error
	if n := readtest.PeakHeap(func() { r, err = OpenBytes(b, nil) }); n > 1<<20+4*int64(len(b)) {
		t.Errorf("opening %d bytes takes %d bytes of memory", len(b), n)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestExtendedHeader(t *testing.T) {
	rows(t, "05", "06", "07", "08", "09", "10", "11", "12", "13", "14", "15")
	lean := base(t, "lean")
	root := binary.LittleEndian.Uint32(lean)
	for _, n := range []uint32{0, 8, 23, 24, 31, 32, 40, 1 << 31} {
		b := put32(bytes.Clone(lean), 12, n)
		err := look(b)
		if good := n >= 24 && 8+n <= root; good != (err == nil) {
			t.Errorf("a header of %d bytes: %v", n, err)
		}
	}
}

// What was read when it was opened stays as it was, whatever becomes of the file: written
// over, longer, another one of the same name, gone.
func TestTheFileIsAnother(t *testing.T) {
	data := base(t, "export-1.5.1-state-initial.pte")
	for what, change := range map[string]func(name string) error{
		"written over": func(name string) error { return os.WriteFile(name, bytes.Repeat([]byte{0xff}, len(data)), 0o666) },
		"longer":       func(name string) error { return os.WriteFile(name, append(bytes.Clone(data), data...), 0o666) },
		"replaced": func(name string) error {
			if err := os.WriteFile(name+".new", base(t, "lean"), 0o666); err != nil {
				return err
			}
			return os.Rename(name+".new", name)
		},
		"gone": os.Remove,
	} {
		for _, noMap := range []bool{false, true} {
			name := filepath.Join(t.TempDir(), "p.pte")
			if err := os.WriteFile(name, data, 0o666); err != nil {
				t.Fatal(err)
			}
			r, err := Open(name, &ReaderOptions{NoMap: noMap})
			if err != nil {
				t.Fatal(err)
			}
			before := plainFacts(t, r)
			if err := change(name); err != nil {
				t.Logf("%s: not here: %v", what, err) // an open file on windows
			}
			if after := plainFacts(t, r); after != before {
				t.Errorf("%s, NoMap %v: the program is another one now", what, noMap)
			}
			for e := range r.Entries() {
				b, err := e.Data.ReadAll()
				if what != "written over" && e.Buffer > 0 && (err != nil || int64(len(b)) != e.Data.Size()) {
					t.Errorf("%s, NoMap %v: %s: %d bytes, %v", what, noMap, e.Name, len(b), err)
				}
			}
			r.Close()
		}
	}
}

// plainFacts is what a program tells without its payloads.
func plainFacts(t *testing.T, r *Reader) string {
	var b strings.Builder
	for m := range r.Program().Methods() {
		fmt.Fprintln(&b, m, m.Operators(), m.Memory().Buffers)
		for v := range m.Values() {
			fmt.Fprintln(&b, v)
		}
	}
	for e := range r.Entries() {
		fmt.Fprintln(&b, e.Name, e.DType, e.Shape)
	}
	return b.String()
}

func TestThingsThatAreNoFiles(t *testing.T) {
	for _, name := range []string{t.TempDir(), os.DevNull, "/dev/zero", "/proc/self/status", "absent.pte"} {
		if r, err := Open(name, nil); err == nil {
			t.Errorf("%s opens", name)
			r.Close()
		}
	}
	dir := t.TempDir()
	if socket, err := net.Listen("unix", filepath.Join(dir, "socket")); err == nil {
		defer socket.Close()
		if _, err := Open(filepath.Join(dir, "socket"), nil); err == nil {
			t.Error("a socket opens")
		}
	}
	if pipe := filepath.Join(dir, "pipe"); exec.Command("mkfifo", pipe).Run() == nil {
		if _, err := Open(pipe, nil); err == nil {
			t.Error("a pipe opens")
		}
	}
	sparse := filepath.Join(t.TempDir(), "sparse.pte")
	if err := os.WriteFile(sparse, base(t, "lean"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(sparse, 8<<40); err != nil {
		t.Skipf("no file of 8 TiB here: %v", err)
	}
	// Whoever reads 8 TiB does not end.
	r, err := Open(sparse, nil)
	if err != nil {
		if math.MaxInt == math.MaxInt32 {
			return // it cannot be mapped
		}
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	for range r.Spans() {
	}
}

// A program names tensors, never files. Names that look like paths stay names.
func TestNamesAreNoPaths(t *testing.T) {
	b := craft(t, base(t, "rich"), func(c crafted) {
		c.of(16).Child(ptefb.SlotTensorExtraTensorInfo).SetString(ptefb.SlotExtraTensorInfoFullyQualifiedName, "../../etc/passwd")
		c.tree.Children(ptefb.SlotProgramNamedData)[0].SetString(ptefb.SlotNamedDataKey, "/etc/passwd")
	})
	r, err := OpenBytes(b, &ReaderOptions{Companion: func(name string) (io.ReaderAt, int64, error) {
		t.Errorf("%q is opened", name)
		return nil, 0, fs.ErrNotExist
	}})
	if err != nil {
		t.Fatal(err)
	}
	walkAll(t, r)
	writeAll(t, r)
}

func TestPolyglots(t *testing.T) {
	zip := "PK\x05\x06" + strings.Repeat("\x00", 18)
	r, err := OpenBytes(append(base(t, "lean"), zip...), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); err == nil {
		t.Error("an archive behind a program is not seen")
	}
}

func TestWritersThatFail(t *testing.T) {
	p := built[1]
	b := NewBuilder()
	p.build(b)
	r := opened(t, b)
	for n := range r.Size() {
		for what, write := range map[string]func(io.Writer) error{
			"Builder": func(w io.Writer) error { return b.Write(w, nil) },
			"Edit":    func(w io.Writer) error { return NewEdit(r).Write(t.Context(), w, nil) },
		} {
			if err := write(readtest.FailingWriter(io.Discard, n)); !errors.Is(err, readtest.ErrInjected) {
				t.Fatalf("%s after %d bytes: %v", what, n, err)
			}
			if err := write(readtest.ShortWriter(io.Discard, n)); err == nil {
				t.Fatalf("%s: a short write after %d bytes is not seen", what, n)
			}
		}
	}
	// A source that gives fewer or more bytes than it promised.
	for _, n := range []int{23, 25} {
		b := NewBuilder()
		m := b.Method("forward")
		data := tensor.BlobFunc(24, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(make([]byte, n))), nil })
		m.Return(m.Constant(&tensor.Tensor{DType: tensor.F32, Shape: tensor.Shape{6}, Data: data}))
		name := filepath.Join(t.TempDir(), "p.pte")
		if err := b.WriteFile(name, nil); err == nil {
			t.Errorf("%d bytes for 24 are taken", n)
		}
		if _, err := os.Stat(name); err == nil {
			t.Error("half a file is left")
		}
	}
	// A source that panics, and one that fails: what was there stays, and nothing else.
	for what, open := range map[string]func() (io.ReadCloser, error){
		"panics": func() (io.ReadCloser, error) { panic("in a source") },
		"fails":  func() (io.ReadCloser, error) { return nil, readtest.ErrInjected },
	} {
		b := NewBuilder()
		m := b.Method("forward")
		m.Return(m.Constant(&tensor.Tensor{DType: tensor.F32, Shape: tensor.Shape{6}, Data: tensor.BlobFunc(24, open)}))
		name := filepath.Join(t.TempDir(), "p.pte")
		if err := os.WriteFile(name, []byte("before"), 0o666); err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() { recover() }()
			if err := b.WriteFile(name, nil); err == nil {
				t.Errorf("a source that %s is taken", what)
			}
		}()
		if x, _ := os.ReadFile(name); string(x) != "before" {
			t.Errorf("a source %s, and the file is %q", what, x)
		}
		if left, _ := os.ReadDir(filepath.Dir(name)); len(left) != 1 {
			t.Errorf("a source %s, and %v are left", what, left)
		}
	}
}

func TestWhatAWriterRefuses(t *testing.T) {
	for what, build := range map[string]func(b *Builder){
		"no methods":                   func(b *Builder) {},
		"a method without a name":      func(b *Builder) { b.Method("") },
		"two methods of one name":      func(b *Builder) { b.Metadata("a", 1); b.Metadata("a", 2) },
		"a type that is not there":     func(b *Builder) { b.Method("f").Input(tensor.F4E2M1FN, tensor.Shape{2}) },
		"a rank of 17":                 func(b *Builder) { b.Method("f").Input(tensor.F32, make(tensor.Shape, 17)) },
		"a negative dimension":         func(b *Builder) { b.Method("f").Input(tensor.F32, tensor.Shape{-1}) },
		"a dimension beyond int32":     func(b *Builder) { b.Method("f").Input(tensor.F32, tensor.Shape{1 << 31}) },
		"bytes beyond int64":           func(b *Builder) { b.Method("f").Input(tensor.F32, tensor.Shape{1 << 30, 1 << 30, 1 << 30}) },
		"a value of another method":    func(b *Builder) { r := b.Method("f").Int(1); b.Method("g").Return(r) },
		"no value":                     func(b *Builder) { b.Method("f").Return(Ref{}) },
		"a tensor list of numbers":     func(b *Builder) { m := b.Method("f"); m.TensorList(m.Int(1)) },
		"a label without a place":      func(b *Builder) { m := b.Method("f"); m.JumpFalse(m.Bool(true), m.Label()) },
		"a label with two places":      func(b *Builder) { m := b.Method("f"); l := m.Label(); m.Mark(l); m.Mark(l) },
		"an operator of 100 bytes":     func(b *Builder) { b.Method("f").Call(strings.Repeat("x", 100)) },
		"a delegate that is not there": func(b *Builder) { b.Method("f").CallDelegate(0) },
		"a named blob twice":           func(b *Builder) { b.Metadata("m", 1); b.Named("k", tensor.Blob{}, 1); b.Named("k", tensor.Blob{}, 1) },
		"an external without a name":   func(b *Builder) { b.Method("f").External("", tensor.F32, nil) },
		"an external as a constant":    func(b *Builder) { b.Method("f").Constant(&tensor.Tensor{DType: tensor.F32, External: true}) },
		"a constant that is too short": func(b *Builder) {
			b.Method("f").Constant(&tensor.Tensor{DType: tensor.F32, Shape: tensor.Shape{2}, Data: tensor.BlobOf([]byte{1})})
		},
		"a constant that is nil":     func(b *Builder) { b.Method("f").Constant(nil) },
		"a memory plan of 2^60":      func(b *Builder) { b.Method("f").Tensor(tensor.U8, tensor.Shape{1 << 30, 1 << 30}) },
		"a place beyond all memory":  func(b *Builder) { b.Method("f").Tensor(tensor.U8, tensor.Shape{1}).Place(1, 1<<62) },
		"a metadata value of a kind": func(b *Builder) { b.Metadata("x", struct{}{}) },
		"a stack without a call":     func(b *Builder) { b.Method("f").Stack(Frame{}) },
		"a jump on a number":         func(b *Builder) { m := b.Method("f"); l := m.Label(); m.Mark(l); m.JumpFalse(m.Int(1), l) },
	} {
		b := NewBuilder()
		build(b)
		if err := b.Write(io.Discard, nil); err == nil {
			t.Errorf("%s is written", what)
		}
	}
	b := NewBuilder()
	b.Metadata("m", 1)
	for _, o := range []WriterOptions{{SegmentAlignment: -1}, {TensorAlignment: 3}, {SegmentAlignment: 1 << 40}, {Dedup: 9}} {
		if err := b.Write(io.Discard, &o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// 10⁵ tensors, more tables than the runtime's verifier visits at 10⁶ warn.
func TestManyTensors(t *testing.T) {
	n := 100_000
	b := NewBuilder()
	m := b.Method("forward")
	one := tensor.BlobOf([]byte{1, 2, 3, 4})
	for range n {
		m.Constant(&tensor.Tensor{DType: tensor.F32, Shape: tensor.Shape{1}, Data: one})
	}
	m.Return(m.Int(1))
	r := opened(t, b)
	if _, err := r.Verify(t.Context(), nil); err != nil || r.Len() != n || len(r.Warnings()) != 0 {
		t.Errorf("%d tensors, %v, %v", r.Len(), err, r.Warnings())
	}
	if e := r.Entry(fmt.Sprintf("forward/%d", n-1)); e == nil || e.Buffer != 1 {
		t.Errorf("the last one: %+v", e)
	}
}

// G15: a context that is over ends what reads.
func TestVerifyIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := openFile(t, "../testdata/pte/export-1.5.1-external.pte")
	for _, o := range []*tensor.VerifyOptions{nil, {Depth: tensor.VerifyCanonical}, {External: func(string) *tensor.Tensor { return nil }}} {
		if _, err := r.Verify(ctx, o); !errors.Is(err, context.Canceled) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestMutantsAgainstTheRuntime changes programs at random. What Verify passes the runtime
// must load; the runtime may lack an operator or a backend whose name was changed.
func TestMutantsAgainstTheRuntime(t *testing.T) {
	run := etrun(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	file := filepath.Join(t.TempDir(), "p.pte")
	passed, refused := 0, 0
	for _, name := range []string{"lean", "export-1.5.1-state-initial.pte", "export-1.5.1-cond.pte", "export-1.5.1-dynamic.pte"} {
		data := base(t, name)
		end := int(binary.LittleEndian.Uint64(data[16:])) // payloads are anybody's
		for range 600 {
			b := bytes.Clone(data)
			for range 1 + rnd.IntN(2) {
				at := rnd.IntN(end)
				switch rnd.IntN(3) {
				case 0:
					b[at] ^= 1 << rnd.IntN(8)
				case 1:
					b[at] = byte(rnd.Uint32())
				default:
					put32(b, at&^3, []uint32{0, 1, 2, 16, 255, math.MaxInt32, math.MaxUint32}[rnd.IntN(7)])
				}
			}
			r, err := OpenBytes(b, nil)
			if err == nil {
				_, err = r.Verify(t.Context(), nil)
			}
			if err != nil {
				refused++
				continue
			}
			passed++
			big := false
			for m := range r.Program().Methods() {
				big = big || planned(m) > 1<<28
			}
			if big {
				continue // it is not our matter whether the machine has the memory
			}
			if err := os.WriteFile(file, b, 0o666); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(run, "info", file).CombinedOutput()
			var exit *exec.ExitError
			if err == nil || errors.As(err, &exit) && exit.ExitCode() == 1 && (bytes.Contains(out, []byte("OperatorMissing")) || bytes.Contains(out, []byte("NotFound")) || deprecated(r)) {
				continue
			}
			bad := filepath.Join(os.TempDir(), fmt.Sprintf("pte-mutant-%d.pte", passed))
			os.WriteFile(bad, b, 0o666)
			t.Errorf("%s: Verify passes what the runtime does not load (%s): %v\n%.600s", name, bad, err, out)
		}
	}
	t.Logf("%d of %d mutants pass Verify and load", passed, passed+refused)
}

// deprecated says that the only thing against a program may be its layout of old, which
// is a warning.
func deprecated(r *Reader) bool {
	for _, w := range r.Warnings() {
		if strings.Contains(w.Error(), "deprecated layout") {
			return true
		}
	}
	return false
}
