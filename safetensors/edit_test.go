package safetensors

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// edited applies do to a file of a, b and c, of one uint8 each, and reads the result.
func edited(t *testing.T, do func(e *Edit) error) (*Reader, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.safetensors")
	var ts []*tensor.Tensor
	for i, n := range []string{"c", "b", "a"} {
		ts = append(ts, tensor.New(n, tensor.Shape{1}, []uint8{byte(i)}))
	}
	opts := &WriterOptions{Attributes: map[string]string{"k": "v", "l": "w"}, KeepOrder: true}
	if err := WriteFile(t.Context(), name, tensor.Of(ts...), opts); err != nil {
		t.Fatal(err)
	}
	r, err := Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	e := NewEdit(r)
	if err := do(e); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := e.Write(t.Context(), &out, nil); err != nil {
		return nil, err
	}
	if err := e.WriteFile(t.Context(), name, &WriterOptions{}); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(name); err != nil || !bytes.Equal(b, out.Bytes()) {
		t.Errorf("Write and WriteFile differ: %v", err)
	}
	return OpenBytes(out.Bytes(), &ReaderOptions{Strict: true})
}

func TestEditsApplyAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(e *Edit) error
		want string // names and first bytes
		err  error
	}{
		"nothing": {func(e *Edit) error { return nil }, "c0 b1 a2 ", nil},
		"a swap": {func(e *Edit) error {
			return errors.Join(e.Rename("a", "b"),
				e.Rename("b", "a"))
		}, "c0 a1 b2 ", nil},
		"names are those before": {func(e *Edit) error {
			return errors.Join(e.Rename("a", "x"),
				e.Rename("x", "y"))
		}, "", tensor.ErrNoTensor},
		"the last new name": {func(e *Edit) error {
			return errors.Join(e.Rename("a", "x"),
				e.Rename("a", ""))
		}, "c0 b1 2 ", nil},
		"a name that is taken": {func(e *Edit) error { return e.Rename("a", "b") }, "",
			tensor.ErrDuplicate},
		"a name that is freed": {func(e *Edit) error {
			return errors.Join(e.Rename("a", "b"),
				e.Remove("b"))
		}, "c0 b2 ", nil},
		"replaced and renamed": {func(e *Edit) error {
			return errors.Join(e.Replace("b",
				tensor.New("unused", tensor.Shape{2}, []int16{7, 8})), e.Rename("b", "x"))
		}, "c0 x7 a2 ", nil},
		"a tensor that does not fit": {func(e *Edit) error {
			return e.Replace("b",
				tensor.New("b", tensor.Shape{3}, []int8{1}))
		}, "", tensor.ErrMalformed},
		"nil": {func(e *Edit) error { return e.Replace("b", nil) }, "",
			tensor.ErrNoTensor},
		"absent, Remove": {func(e *Edit) error { return e.Remove("x") }, "",
			tensor.ErrNoTensor},
		"absent, Replace": {func(e *Edit) error {
			return e.Replace("x",
				tensor.New("x", nil, []int8{1}))
		}, "", tensor.ErrNoTensor},
	} {
		r, err := edited(t, c.do)
		if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
		if err != nil {
			continue
		}
		got := ""
		for x := range r.Tensors() {
			b, err := x.Data.ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			got += x.Name + string('0'+b[0]) + " "
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	r, err := edited(t, func(e *Edit) error {
		return errors.Join(e.SetAttribute("k", "new"), e.SetAttribute("m", "x"),
			e.RemoveAttribute("l"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := maps.Collect(r.Attributes()); !maps.Equal(got,
		map[string]string{"k": "new", "m": "x"}) {
		t.Errorf("attributes %v", got)
	}
	if err := NewEdit(r).Write(t.Context(), nil,
		&WriterOptions{Attributes: map[string]string{"a": "b"}}); !errors.Is(err,
		fs.ErrInvalid) {
		t.Errorf("options with attributes: %v", err)
	}
}

func TestEditOfShardsWritesOneFile(t *testing.T) {
	dir := t.TempDir()
	writeCheckpoint(t, dir, 5, 1)
	r, err := Open(filepath.Join(dir, testIndex), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	e := NewEdit(r)
	if err := e.Remove("a"); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "one.safetensors")
	if err := e.WriteFile(t.Context(), name, nil); err != nil {
		t.Fatal(err)
	}
	one, err := Open(name, &ReaderOptions{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	if got := maps.Collect(one.Attributes()); one.Len() != 4 || len(got) != 0 {
		t.Errorf("%d tensors, attributes %v", one.Len(), got)
	}
}
