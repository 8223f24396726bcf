package pte

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestInternalizeUndoesExternalize(t *testing.T) {
	for _, name := range append(programs(t), oldPrograms(t)...) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			r := openFile(t, name)
			e := NewEdit(r)
			out, err := e.Externalize(func(x *Entry) string { return x.Name })
			if err != nil {
				t.Fatal(err)
			}
			lean := rewritten(t, e)
			stored := 0
			for x := range r.Entries() {
				if !x.External && x.Buffer > 0 {
					stored++
				}
			}
			if (stored > 0) != (len(out) > 0) {
				t.Fatalf("%d stored tensors, %d handed out", stored, len(out))
			}
			byName := make(map[string]*tensor.Tensor)
			for _, x := range out {
				byName[x.Name] = x
			}
			lookup := func(name string) *tensor.Tensor { return byName[name] }
			for x := range lean.Entries() {
				if !x.External && x.Buffer > 0 {
					t.Errorf("%s is still stored", x.Name)
				}
			}
			all := &tensor.VerifyOptions{External: func(name string) *tensor.Tensor {
				if x := lookup(name); x != nil {
					return x
				}
				if y := r.Tensor(name); y != nil && y.External { // was external before
					z := *y
					n, _ := z.Shape.Elements()
					size, _ := z.DType.Bytes(n)
					z.External, z.Data = false, tensor.BlobOf(make([]byte, size))
					return &z
				}
				return nil
			}}
			if _, err := lean.Verify(t.Context(), all); err != nil {
				t.Error(err)
			}
			if lean.Size() > r.Size() && len(out) > 3 {
				t.Errorf("%d bytes became %d", r.Size(), lean.Size())
			}
			back := NewEdit(lean)
			n, err := back.Internalize(lookup)
			if err != nil {
				t.Fatal(err)
			}
			if n != stored {
				t.Errorf("%d of %d tensors came back", n, stored)
			}
			whole := rewritten(t, back)
			want, got := map[string]string{}, map[string]string{}
			for x := range r.Entries() {
				if x.Buffer > 0 {
					want[fmt.Sprint(x.Method.Name(), x.Value)] = sha(t, x.Data)
				}
			}
			for x := range whole.Entries() {
				if x.Buffer > 0 {
					got[fmt.Sprint(x.Method.Name(), x.Value)] = sha(t, x.Data)
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("other bytes came back:\n%v\n%v", got, want)
			}
			sameFacts(t, r, whole, "header", "tensors")
		})
	}
}

// The result of a method is given memory by its callers unless it says that it has some.
func TestReturnedExternalConstantsKeepTheirMemory(t *testing.T) {
	b := NewBuilder()
	m := b.Method("forward")
	w := tensor.New("w", tensor.Shape{2}, []float32{1, 2})
	y := m.Tensor(tensor.F32, w.Shape)
	inner := m.Constant(tensor.New("v", w.Shape, []float32{3, 4}))
	m.Call("aten::add.out", inner, inner, m.Value(1), y, y)
	m.Return(y, m.Constant(w), m.Declare(RoleExternal, "x", tensor.F32, w.Shape))
	r := opened(t, b)
	e := NewEdit(r)
	if out, err := e.Externalize(nil); err != nil || len(out) != 2 {
		t.Fatal(out, err)
	}
	lean := rewritten(t, e)
	method, _ := lean.Program().Method("forward")
	for v := range method.Values() {
		info, ok := v.Tensor()
		if !ok || info.Role != RoleExternal {
			continue
		}
		if kept := v.Index() != inner.Index(); kept != (info.Buffer != 0) {
			t.Errorf("value %d: data_buffer_idx %d", v.Index(), info.Buffer)
		}
	}
	for x := range lean.Entries() {
		if x.Buffer != 0 {
			t.Errorf("%s has bytes in the program", x.Name)
		}
	}
	lookup := func(name string) *tensor.Tensor {
		if name == "x" {
			return nil
		}
		return tensor.New(name, w.Shape, []float32{5, 6})
	}
	back := NewEdit(lean)
	if n, err := back.Internalize(lookup); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	if _, err := rewritten(t, back).Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestExternalizeRefusesKeysThatClash(t *testing.T) {
	r := openFile(t, "../testdata/pte/export-1.5.1-linear.pte")
	if _, err := NewEdit(r).Externalize(func(*Entry) string { return "same" }); err == nil {
		t.Error("two tensors have one key")
	}
	if _, err := NewEdit(r).Externalize(func(x *Entry) string {
		return "a\x00" + x.Name
	}); err == nil {
		t.Error("a key has a zero byte")
	}
}

func TestInternalizeRefusesAnotherLayout(t *testing.T) {
	r := openFile(t, "../testdata/pte/export-1.5.1-external.pte")
	for what, change := range map[string]func(*tensor.Tensor){
		"type":  func(x *tensor.Tensor) { x.DType = tensor.I32 },
		"shape": func(x *tensor.Tensor) { x.Shape = append(tensor.Shape{1}, x.Shape...) },
		"order": func(x *tensor.Tensor) { x.Order = tensor.ColumnMajor(len(x.Shape)) },
		"bytes": func(x *tensor.Tensor) { x.Data = tensor.BlobOf(make([]byte, 3)) },
	} {
		_, err := NewEdit(r).Internalize(func(name string) *tensor.Tensor {
			x := *r.Tensor(name)
			n, _ := x.Shape.Elements()
			size, _ := x.DType.Bytes(n)
			x.External, x.Data = false, tensor.BlobOf(make([]byte, size))
			if len(x.Shape) > 1 || what == "bytes" || what == "type" {
				change(&x)
			}
			return &x
		})
		if !errors.Is(err, tensor.ErrMalformed) {
			t.Errorf("another %s is taken: %v", what, err)
		}
	}
}

func TestExternalKeysAreRenamed(t *testing.T) {
	r := openFile(t, "../testdata/pte/export-1.5.1-external.pte")
	e := NewEdit(r)
	for x := range r.Tensors() {
		if err := e.Rename(x.Name, "new."+x.Name); err != nil {
			t.Fatal(err)
		}
	}
	for x := range rewritten(t, e).Entries() {
		if !strings.HasPrefix(x.Name, "new.") || !x.External {
			t.Errorf("%s", x.Name)
		}
	}
	e = NewEdit(r)
	for x := range r.Tensors() {
		if err := e.Rename(x.Name, "one"); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Write(t.Context(), io.Discard, nil); !errors.Is(err, tensor.ErrDuplicate) {
		t.Errorf("one name for all: %v", err)
	}
	if err := NewEdit(r).Rename("no such", "x"); !errors.Is(err, tensor.ErrNoTensor) {
		t.Error(err)
	}
}

func TestExternalizeHandsOutReplacedBytes(t *testing.T) {
	r := openFile(t, "../testdata/pte/export-1.5.1-linear.pte")
	x := *r.Tensor("forward/0")
	x.Data = tensor.BlobOf(bytes.Repeat([]byte{1}, int(x.Data.Size())))
	e := NewEdit(r)
	if err := e.Replace("forward/0", &x); err != nil {
		t.Fatal(err)
	}
	out, err := e.Externalize(nil)
	if err != nil {
		t.Fatal(err)
	}
	if sha(t, out[0].Data) != sha(t, x.Data) ||
		sha(t, out[1].Data) != sha(t, r.Tensor("forward/1").Data) {
		t.Error("other bytes than those that Replace gave are moved out")
	}
}

// TestExternalizeUsesTheNamesOfRename has both on one tensor: the program and the .ptd
// must agree.
func TestExternalizeUsesTheNamesOfRename(t *testing.T) {
	r := openFile(t, "../testdata/pte/export-1.5.1-linear.pte")
	e := NewEdit(r)
	if err := e.Rename("forward/0", "first"); err != nil {
		t.Fatal(err)
	}
	out, err := e.Externalize(nil)
	if err != nil {
		t.Fatal(err)
	}
	keys := make(map[string]bool)
	for _, x := range out {
		keys[x.Name] = true
	}
	for x := range rewritten(t, e).Tensors() {
		if !keys[x.Name] {
			t.Errorf("the program has %q, the tensors that were taken are %v", x.Name, keys)
		}
	}
	if !keys["first"] {
		t.Errorf("the keys are %v", keys)
	}
	if err := e.Rename("forward/0", "other"); err != nil {
		t.Fatal(err)
	}
	if err := e.Write(t.Context(), io.Discard, nil); err == nil ||
		!strings.Contains(err.Error(), `"forward/0" has the key "first"`) {
		t.Errorf("renamed after it was taken: %v", err)
	}
}
