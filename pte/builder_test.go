package pte

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestBuilderMakesProgramsThatVerify(t *testing.T) {
	for _, p := range built {
		t.Run(p.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "p.pte")
			b := NewBuilder()
			p.build(b)
			if err := b.WriteFile(t.Context(), file, p.opts); err != nil {
				t.Fatal(err)
			}
			r := openFile(t, file)
			if _, err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); err != nil &&
				r.Size() >= headBytes {
				t.Error(err)
			}
			again := NewBuilder()
			p.build(again)
			var w bytes.Buffer
			if err := again.Write(t.Context(), &w, p.opts); err != nil {
				t.Fatal(err)
			}
			if want, _ := os.ReadFile(file); !bytes.Equal(w.Bytes(), want) {
				t.Error("the same program is written in two ways")
			}
			for _, s := range r.Program().Segments() {
				if len(s.Roles) == 0 && s.Size > 0 {
					t.Errorf("segment %d is for nothing", s.Index)
				}
			}
		})
	}
}

func TestBuilderMakesProgramsThatRun(t *testing.T) {
	etrun(t)
	for _, p := range built {
		if p.run == nil {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "p.pte")
			b := NewBuilder()
			p.build(b)
			if err := b.WriteFile(t.Context(), file, p.opts); err != nil {
				t.Fatal(err)
			}
			p.run(t, file)
		})
	}
}

func TestDevicesOfTensorsAreKept(t *testing.T) {
	cuda := Device{Type: ptefb.DeviceTypeCUDA, Index: 2}
	b := NewBuilder()
	m := b.Method("forward")
	x := m.Input(tensor.F32, tensor.Shape{2}).Name("tokens").Place(2, 0)
	m.Return(x)
	var w bytes.Buffer
	if err := b.Write(t.Context(), &w, nil); err != nil {
		t.Fatal(err)
	}
	r, err := OpenBytes(craft(t, w.Bytes(), func(c crafted) {
		c.of(x.Index()).Child(ptefb.SlotTensorExtraTensorInfo).
			SetNumber(ptefb.SlotExtraTensorInfoDeviceType, 1, uint64(cuda.Type)).
			SetNumber(ptefb.SlotExtraTensorInfoDeviceIndex, 1, uint64(cuda.Index))
		c.plan().SetChildren(ptefb.SlotExecutionPlanNonConstBufferDevice, []*fb.Node{new(fb.Node).
			SetNumber(ptefb.SlotNonConstBufferDeviceBufferIdx, 4, 2).
			SetNumber(ptefb.SlotNonConstBufferDeviceDeviceType, 1, uint64(cuda.Type)).
			SetNumber(ptefb.SlotNonConstBufferDeviceDeviceIndex, 1, uint64(cuda.Index))})
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	method, _ := r.Program().Method("forward")
	if info, ok := method.Value(x.Index()).Tensor(); !ok || info.Name != "tokens" ||
		info.Device != cuda {
		t.Errorf("%+v", info)
	}
	if got := method.Memory().Devices; !slices.Equal(got, []Device{{}, {}, cuda}) {
		t.Errorf("%v", got)
	}
}

func TestBuilderNamesOnlyTensors(t *testing.T) {
	b := NewBuilder()
	b.Method("forward").Value("x").Name("no tensor")
	if b.Err() == nil || b.Write(t.Context(), io.Discard, nil) != b.Err() {
		t.Errorf("a string is given a tensor's name: %v", b.Err())
	}
}

func TestPlannerUsesMemoryAgain(t *testing.T) {
	for _, p := range built {
		if p.name != "planner" {
			continue
		}
		var w bytes.Buffer
		b := NewBuilder()
		p.build(b)
		if err := b.Write(t.Context(), &w, nil); err != nil {
			t.Fatal(err)
		}
		r, err := OpenBytes(w.Bytes(), nil)
		if err != nil {
			t.Fatal(err)
		}
		m, _ := r.Program().Method("forward")
		total := planned(m)
		// Three tensors are in use at one time, and the input keeps its memory.
		if peak := m.PlannedPeak(); total != 256 || peak != 192 {
			t.Errorf("%d bytes are planned where %d are in use at most", total, peak)
		}
	}
}

// TestWritingDoesNotChangeTheBuilder writes a program twice, with different options in
// between, and after a write that fails.
func TestWritingDoesNotChangeTheBuilder(t *testing.T) {
	for _, p := range built {
		b := NewBuilder()
		p.build(b)
		var first, second bytes.Buffer
		if err := b.Write(t.Context(), &first, p.opts); err != nil {
			t.Fatal(err)
		}
		if err := b.Write(t.Context(), io.Discard,
			&WriterOptions{SegmentAlignment: 4096, Alignment: 64}); err != nil {
			t.Fatal(err)
		}
		if err := b.Write(t.Context(), &second, p.opts); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("%s: other bytes the second time", p.name)
		}
	}
	b := NewBuilder()
	if err := b.Write(t.Context(), io.Discard, nil); err == nil || b.Err() != nil {
		t.Errorf("a program without methods: %v, %v", err, b.Err())
	}
	m := b.Method("forward")
	l := m.Label()
	m.JumpFalse(m.Value(false), l)
	m.Return(m.Value(1))
	if err := b.Write(t.Context(), io.Discard, nil); err == nil || b.Err() != nil {
		t.Errorf("a label that is not marked: %v, %v", err, b.Err())
	}
	m.Mark(l)
	if err := b.Write(t.Context(), io.Discard, nil); err != nil {
		t.Error(err)
	}
}

// A constant, a payload or a blob that changes before Write is an error of it, not
// another program.
func TestMemoryThatChangesBeforeWriteIsAnError(t *testing.T) {
	for name, add := range map[string]func(b *Builder, m *MethodBuilder, data []byte){
		"constant": func(_ *Builder, m *MethodBuilder, data []byte) {
			m.Return(m.Constant(tensor.New("w", tensor.Shape{3}, data)))
		},
		"payload": func(_ *Builder, m *MethodBuilder, data []byte) {
			m.CallDelegate(m.Delegate("backend", tensor.BlobOf(data)))
		},
		"named data": func(b *Builder, _ *MethodBuilder, data []byte) {
			b.Named("key", tensor.BlobOf(data), 0)
		},
	} {
		b, data := NewBuilder(), []byte{1, 2, 3}
		add(b, b.Method("forward"), data)
		if err := b.Write(t.Context(), io.Discard, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		data[1]++
		if err := b.Write(t.Context(), io.Discard, nil); !errors.Is(err, tensor.ErrChecksum) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
