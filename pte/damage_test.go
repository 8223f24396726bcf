package pte

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// accepted is the share of damaged files in which no damage is seen: the format has no
// checksum. It may not grow.
var accepted = map[string]float64{
	"export-1.5.1-bundled.bpte": 48.8, "export-1.5.1-state-initial.pte": 41.4,
	"export-1.5.1-xnnpack-inline.pte": 77.7, "export-1.5.1-no-weights.pte": 48.9,
	"generation-0.7.0-delegates-extracted.pte": 70.4,
	"generation-0.2.1-inline-constants.pte":    24.0, "lean": 33.3, "rich": 35.7,
}

// thorough says whether there is time: in interop/pte.sh there is.
func thorough() bool { return os.Getenv("TENSORFILE_ETRUN") != "" }

func TestTruncationsAreRefusedAndMostChangesFound(t *testing.T) {
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
				t.Errorf("%.1f %% of the changes are not seen, more than %.1f", got,
					accepted[name])
			}
			t.Logf("%.1f %% of %d changes are not seen", changed.Accepts(),
				changed.Accepted+changed.Refused)
		})
	}
}

func TestTinyFilesAndOtherMagicsAreRefused(t *testing.T) {
	lean := base(t, "lean")
	for _, n := range []int{0, 1, 3, 4, 7, 8, 11, 15, 39, 47, 63} {
		if err := look(lean[:n]); err == nil {
			t.Errorf("%d bytes are accepted", n)
		}
	}
	for _, magic := range []string{"FT01", "\x00\x00\x00\x00", "BP07", "BP09", "ET11", "TFL3",
		"RTEN", "et12"} {
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

func TestBytesBeforeAProgramAreRefusedAndAfterItWarned(t *testing.T) {
	lean := base(t, "lean")
	if err := look(append([]byte("x"), lean...)); err == nil {
		t.Error("a leading byte is accepted")
	}
	r, err := OpenBytes(append(bytes.Clone(lean), "after"...), nil)
	if err != nil || len(r.Warnings()) != 1 {
		t.Errorf("trailing bytes: %v %v", r.Warnings(), err)
	}
}

func TestEveryNumberAtItsLimitsIsReadOrRefused(t *testing.T) {
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
				for _, v := range []uint32{0, 1, math.MaxInt32, 1 << 31, math.MaxUint32 - 1,
					math.MaxUint32} {
					put32(data, at, v)
					readtest.Survives(t, func() error { return look(data) }, "%#x at %d", v, at)
				}
				copy(data[at:], old)
				if at%8 == 0 {
					for _, v := range []uint64{1 << 32, 1<<63 - 1, 1 << 63, math.MaxUint64 - 7,
						math.MaxUint64} {
						put64(data, at, v)
						readtest.Survives(t, func() error { return look(data) }, "%#x at %d", v,
							at)
					}
					copy(data[at:], old)
				}
			}
		})
	}
}

func TestVtablesOfWrongSizesAreRefused(t *testing.T) {
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

func TestFieldsStringsAndVectorsAreVerified(t *testing.T) {
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
	// backwards ones with them
	for _, o := range []uint32{0, 1, 2, 3, math.MaxInt32, 1 << 31, math.MaxUint32} {
		b := bytes.Clone(lean)
		if err := look(put32(b, fb.FieldPos(root.Table(), ptefb.SlotProgramExecutionPlan),
			o)); err == nil {
			t.Errorf("an offset of %#x", o)
		}
	}
}

func TestBackwardOffsetsAreRefused(t *testing.T) {
	lean := base(t, "lean")
	plans := int64(fb.FieldPos(ptefb.GetRootAsProgram(lean, 0).Table(),
		ptefb.SlotProgramExecutionPlan))
	for to := int64(0); to < plans; to += 4 {
		b := bytes.Clone(lean)
		if err := look(put32(b, int(plans), uint32(to-plans))); !errors.Is(err,
			tensor.ErrMalformed) {
			t.Fatalf("an offset back to %d: %v", to, err)
		}
	}
}

// eachField calls do with a program from which one stored field is gone, for every field
// of every table of base.
func eachField(t *testing.T, name string, do func(path string, b []byte)) {
	t.Helper()
	b := base(t, name)
	total := 0
	countFields := func(c crafted) {
		c.tree.EachField(func(*fb.Node, int) bool { total++; return true })
	}
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

func TestEveryFieldMayBeMissing(t *testing.T) {
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

func TestBytesBehindTheBufferAreNeverShown(t *testing.T) {
	const canary = "SECRET-TOKEN-of-another-request"
	for _, name := range []string{"lean", "export-1.5.1-no-weights.pte"} {
		data := base(t, name)
		spare := append(bytes.Clone(data), bytes.Repeat([]byte(canary), 20)...)
		step := 4
		if !thorough() {
			step = 20
		}
		for at := 8; at+4 <= len(data); at += step {
			old := binary.LittleEndian.Uint32(spare[at:])
			for _, v := range []uint32{old + 1, old + 16, old + 200, uint32(len(data) - at),
				uint32(len(data) - at + 8)} {
				put32(spare, at, v)
				r, err := OpenBytes(spare[:len(data)], nil)
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
						all = append(all, v.String(), fmt.Sprint(v.Constant()))
					}
				}
				all = append(all, fmt.Sprint(r.Warnings()))
				text, _ := json.Marshal(all)
				if bytes.Contains(text, []byte("SECRET")) {
					t.Fatalf("%s: %d at %d shows what follows the file", name, v, at)
				}
			}
			put32(spare, at, old)
		}
	}
}
