package pte

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestWritingFailsAtEveryByte(t *testing.T) {
	p := built[1]
	b := NewBuilder()
	p.build(b)
	r := opened(t, b)
	for n := range r.Size() {
		for what, write := range map[string]func(io.Writer) error{
			"Builder": func(w io.Writer) error { return b.Write(t.Context(), w, nil) },
			"Edit":    func(w io.Writer) error { return NewEdit(r).Write(t.Context(), w, nil) },
		} {
			if err := write(readtest.FailingWriter(io.Discard, n)); !errors.Is(err,
				readtest.ErrInjected) {
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
		data := tensor.BlobFunc(24,
			func() (io.ReadCloser,
				error) {
				return io.NopCloser(bytes.NewReader(make([]byte, n))), nil
			})
		m.Return(m.Constant(&tensor.Tensor{DType: tensor.F32, Shape: tensor.Shape{6}, Data: data}))
		name := filepath.Join(t.TempDir(), "p.pte")
		if err := b.WriteFile(t.Context(), name, nil); err == nil {
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
		m.Return(m.Constant(&tensor.Tensor{DType: tensor.F32, Shape: tensor.Shape{6},
			Data: tensor.BlobFunc(24, open)}))
		name := filepath.Join(t.TempDir(), "p.pte")
		if err := os.WriteFile(name, []byte("before"), 0o666); err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() { recover() }()
			if err := b.WriteFile(t.Context(), name, nil); err == nil {
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

func TestBuilderRefusesProgramsThatAreNone(t *testing.T) {
	for what, build := range map[string]func(b *Builder){
		"no methods":              func(b *Builder) {},
		"a method without a name": func(b *Builder) { b.Method("") },
		"two methods of one name": func(b *Builder) {
			b.Metadata("a", 1)
			b.Metadata("a", 2)
		},
		"a type that is not there": func(b *Builder) {
			b.Method("f").Input(tensor.F4E2M1FN, tensor.Shape{2})
		},
		"a rank of 17": func(b *Builder) {
			b.Method("f").Input(tensor.F32, make(tensor.Shape, 17))
		},
		"a negative dimension": func(b *Builder) {
			b.Method("f").Input(tensor.F32, tensor.Shape{-1})
		},
		"a dimension beyond int32": func(b *Builder) {
			b.Method("f").Input(tensor.F32, tensor.Shape{1 << 31})
		},
		"bytes beyond int64": func(b *Builder) {
			b.Method("f").Input(tensor.F32, tensor.Shape{1 << 30, 1 << 30, 1 << 30})
		},
		"a value of another method": func(b *Builder) {
			r := b.Method("f").Value(1)
			b.Method("g").Return(r)
		},
		"no value": func(b *Builder) { b.Method("f").Return(Ref{}) },
		"a tensor list of numbers": func(b *Builder) {
			m := b.Method("f")
			m.TensorList(m.Value(1))
		},
		"a label without a place": func(b *Builder) {
			m := b.Method("f")
			m.JumpFalse(m.Value(true), m.Label())
		},
		"a label with two places": func(b *Builder) {
			m := b.Method("f")
			l := m.Label()
			m.Mark(l)
			m.Mark(l)
		},
		"an operator of 100 bytes": func(b *Builder) {
			b.Method("f").Call(strings.Repeat("x", 100))
		},
		"a delegate that is not there": func(b *Builder) { b.Method("f").CallDelegate(0) },
		"a named blob twice": func(b *Builder) {
			b.Metadata("m", 1)
			b.Named("k", tensor.Blob{}, 1)
			b.Named("k", tensor.Blob{}, 1)
		},
		"an external without a name": func(b *Builder) {
			b.Method("f").Declare(RoleExternal, "", tensor.F32, nil)
		},
		"an external as a constant": func(b *Builder) {
			b.Method("f").Constant(&tensor.Tensor{DType: tensor.F32, External: true})
		},
		"a constant that is too short": func(b *Builder) {
			b.Method("f").Constant(&tensor.Tensor{DType: tensor.F32, Shape: tensor.Shape{2},
				Data: tensor.BlobOf([]byte{1})})
		},
		"a constant that is nil": func(b *Builder) { b.Method("f").Constant(nil) },
		"a memory plan of 2^60": func(b *Builder) {
			b.Method("f").Tensor(tensor.U8, tensor.Shape{1 << 30, 1 << 30})
		},
		"a place beyond all memory": func(b *Builder) {
			b.Method("f").Tensor(tensor.U8, tensor.Shape{1}).Place(1, 1<<62)
		},
		"a metadata value of a kind": func(b *Builder) { b.Metadata("x", struct{}{}) },
		"a jump on a number": func(b *Builder) {
			m := b.Method("f")
			l := m.Label()
			m.Mark(l)
			m.JumpFalse(m.Value(1), l)
		},
	} {
		b := NewBuilder()
		build(b)
		if err := b.Write(t.Context(), io.Discard, nil); err == nil {
			t.Errorf("%s is written", what)
		}
	}
	b := NewBuilder()
	b.Metadata("m", 1)
	for _, o := range []WriterOptions{{SegmentAlignment: -1}, {Alignment: 3},
		{SegmentAlignment: 1 << 40}} {
		if err := b.Write(t.Context(), io.Discard, &o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
