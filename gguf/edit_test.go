package gguf

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func edited(t *testing.T, e *Edit) *Reader {
	t.Helper()
	var out bytes.Buffer
	if err := e.Write(t.Context(), &out, nil); err != nil {
		t.Fatal(err)
	}
	r, err := OpenBytes(out.Bytes(), &ReaderOptions{Strict: len(e.r.Warnings()) == 0})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEditsApplyTogether(t *testing.T) {
	e := NewEdit(small(t))
	if err := errors.Join(e.Rename("a", "c"), e.Rename("c", "a"), e.Remove("b"),
		e.SetAttribute("n", "8"), e.SetAttribute("general.name", "new"), e.SetAttribute("added",
			"1"),
		e.SetAttribute("bytes", "[9]"), e.RemoveAttribute("one"), e.SetValue("typed", entryOf("",
			int16(-1)).Value)); err != nil {
		t.Fatal(err)
	}
	r := edited(t, e)
	want := []KeyValue{entryOf("general.name", "new"), entryOf("n", uint32(8)), entryOf("nested",
		[]any{[]uint8{7, 8}, []string{}, []any{}}),
		entryOf("empty", []int32{}), entryOf("bytes", []uint8{9}), entryOf(alignmentKey,
			uint32(16)), entryOf("added", "1"), entryOf("typed", int16(-1))}
	if got := metadataOf(r); len(got) != len(want) {
		t.Errorf("%v", got)
	} else {
		for i := range want {
			if want[i].Key != got[i].Key || !reflect.DeepEqual(want[i].Value.Any(-1),
				got[i].Value.Any(-1)) {
				t.Errorf("%s is %#v, not %#v", got[i].Key, got[i].Value.Any(-1),
					want[i].Value.Any(-1))
			}
		}
	}
	if r.Len() != 2 || r.Tensor("c").DType != tensor.F32 || r.Tensor("a").DType != tensor.I8 ||
		r.Tensor("b") != nil {
		t.Errorf("%d tensors", r.Len())
	}
	e = NewEdit(small(t))
	if err := e.Replace("b", blocks("any", "Q4_0", 36, 64)); err != nil {
		t.Fatal(err)
	}
	if x := edited(t,
		e).Tensor("b"); x == nil || x.Scheme != "Q4_0" || !x.Shape.Equal(tensor.Shape{64}) {
		t.Errorf("%v", x)
	}
}

func TestEditRefusesWrongValues(t *testing.T) {
	e := NewEdit(small(t))
	for name, c := range map[string]struct{ err, want error }{
		"a number too large":         {e.SetAttribute("n", "4294967296"), tensor.ErrDType},
		"text for a number":          {e.SetAttribute("n", "x"), tensor.ErrDType},
		"an array of arrays":         {e.SetAttribute("nested", "[[1]]"), tensor.ErrDType},
		"alignment 3":                {e.SetAttribute(alignmentKey, "3"), tensor.ErrDType},
		"an empty key":               {e.SetAttribute("", "x"), errors.ErrUnsupported},
		"no value":                   {e.SetValue("k", Value{}), tensor.ErrDType},
		"a string that is not UTF-8": {e.SetAttribute("k", "\xff"), errors.ErrUnsupported},
		"a tensor that is absent":    {e.Remove("x"), tensor.ErrNoTensor},
		"a tensor of another length": {e.Replace("a", tensor.New("", tensor.Shape{2},
			[]int8{1})), tensor.ErrMalformed},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	if got := describeContent(edited(t, e)); got != describeContent(small(t)) {
		t.Errorf("what was refused changed the file: %s", got)
	}
	for name, change := range map[string]func(*Edit) error{
		"a name of 64 bytes": func(e *Edit) error {
			return e.Rename("a", strings.Repeat("x",
				64))
		},
		"not UTF-8": func(e *Edit) error { return e.Rename("a", "\xff") },
		"taken":     func(e *Edit) error { return e.Rename("a", "b") },
		"uint8": func(e *Edit) error {
			return e.Replace("a", tensor.New("",
				tensor.Shape{1}, []uint8{1}))
		},
	} {
		e := NewEdit(small(t))
		var out bytes.Buffer
		err := change(e)
		if err == nil {
			err = e.Write(t.Context(), &out, nil)
		}
		if err == nil || out.Len() > 0 {
			t.Errorf("%s: %v, %d bytes", name, err, out.Len())
		}
	}
	if err := NewEdit(small(t)).Write(t.Context(), nil,
		&WriterOptions{Metadata: []KeyValue{entryOf("k",
			"v")}}); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("Metadata of an Edit: %v", err)
	}
}

// Holes, another order, unknown types, long names and old versions: written anew, packed.
func TestEditPacksUnusualFilesAnew(t *testing.T) {
	long := strings.Repeat("x", 70)
	v1 := begin(1, 1, 2)
	short := func(s string) { v1.u32(uint32(len(s))); v1.b = append(v1.b, s...) }
	short("key")
	v1.u32(8)
	short("value")
	short("list")
	v1.u32(9).u32(8).u32(2)
	short("a")
	short("")
	short("w")
	v1.u32(2).u32(3).u32(2).u32(0).u64(0)
	for name, b := range map[string][]byte{
		"another order and unknown types": begin(2, 3, 0).tensor("last", 24, 64, 1).tensor("new",
			999, 0, 7).tensor("newer", 1000, 32, 7).data(65),
		"a hole": begin(3, 2, 0).tensor("a", 24, 0, 1).tensor("b", 24,
			64, 1).data(65),
		"a long name, five dimensions": begin(3, 1, 0).tensor(long, 24, 0, 1, 1, 1, 1,
			2).data(2),
		"version 1": v1.data(24),
	} {
		r, err := OpenBytes(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		again := edited(t, NewEdit(r))
		if x, y := describeContent(r), describeContent(again); x != y || again.Version() != "3" {
			t.Errorf("%s:\n%s\nbecame\n%s", name, x, y)
		}
	}
}

func TestWriteHeaderChangesAFileInItsPlace(t *testing.T) {
	var out bytes.Buffer // the header ends 12 bytes before the data
	name := entryOf("general.name", "")
	w := NewWriter(&out, &WriterOptions{Metadata: []KeyValue{name, entryOf("u", uint32(1))}})
	if err := errors.Join(w.Add(tensor.New("a", tensor.Shape{3}, []float32{1, 2, 3})),
		w.Add(tensor.New("b", tensor.Shape{1}, []int8{4})), w.Close()); err != nil {
		t.Fatal(err)
	}
	original := out.Bytes()
	r, err := OpenBytes(original, nil)
	if err != nil {
		t.Fatal(err)
	}
	slack := int(r.dataAt - r.h.end)
	if slack == 0 {
		t.Fatal("no slack to try")
	}
	set := func(n int) func(e *Edit) error {
		return func(e *Edit) error {
			return e.SetAttribute("general.name", strings.Repeat("x",
				n))
		}
	}
	for _, c := range []struct {
		what   string
		change func(e *Edit) error
		fits   bool
	}{
		{"nothing", func(e *Edit) error { return nil }, true},
		{"a number", func(e *Edit) error { return e.SetAttribute("u", "99") }, true},
		{"another name of the same length", func(e *Edit) error { return e.Rename("a", "z") },
			true},
		{"names that swap", func(e *Edit) error {
			return errors.Join(e.Rename("a", "b"),
				e.Rename("b", "a"))
		}, true},
		{"one byte more", set(1), true},
		{"all of the slack", set(slack), true},
		{"one byte more than the slack", set(slack + 1), false},
		{"past a step of the alignment",
			func(e *Edit) error { return e.RemoveAttribute("general.name") }, false},
		{"another step exactly", set(slack + 32), false},
		{"another alignment", func(e *Edit) error { return e.SetAttribute(alignmentKey, "64") },
			false},
		{"a tensor less", func(e *Edit) error { return e.Remove("b") }, false},
		{"another tensor", func(e *Edit) error {
			return e.Replace("b", tensor.New("",
				tensor.Shape{1}, []int8{5}))
		}, false},
	} {
		file := filepath.Join(t.TempDir(), "x.gguf")
		if err := os.WriteFile(file, original, 0o666); err != nil {
			t.Fatal(err)
		}
		r, err := Open(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		e := NewEdit(r)
		if err := c.change(e); err != nil {
			t.Fatal(err)
		}
		err = e.WriteHeader(file)
		if c.fits != (err == nil) || err != nil && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", c.what, err)
		}
		got, _ := os.ReadFile(file)
		var want bytes.Buffer
		if err := e.Write(t.Context(), &want, nil); err != nil {
			t.Fatal(err)
		}
		switch {
		case err != nil && !bytes.Equal(got, original):
			t.Errorf("%s: what was refused changed the file", c.what)
		case err == nil && !bytes.Equal(got, want.Bytes()):
			t.Errorf("%s: other bytes than a new file has", c.what)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(t.TempDir(), "other.gguf")
	changed := bytes.Clone(original)
	changed[len(changed)-33] ^= 1
	changed[30] ^= 1
	if err := os.WriteFile(other, changed, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := NewEdit(r).WriteHeader(other); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("another file: %v", err)
	}
	if err := NewEdit(r).WriteHeader(other + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an absent file: %v", err)
	}
}

// A file with a hole and another order of its entries keeps its offsets.
func TestWriteHeaderKeepsOffsets(t *testing.T) {
	b := begin(2, 2, 1).str("k").u32(4).u32(1).tensor("b", 24, 64, 2).tensor("a", 24, 0,
		1).data(66)
	b[len(b)-1], b[len(b)-66] = 7, 9
	file := filepath.Join(t.TempDir(), "x.gguf")
	if err := os.WriteFile(file, b, 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	e := NewEdit(r)
	if err := errors.Join(e.SetAttribute("k", "2"), e.WriteHeader(file)); err != nil {
		t.Fatal(err)
	}
	again, err := Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if x, y := describeContent(r), describeContent(again); strings.ReplaceAll(x, "0x1",
		"0x2") != strings.ReplaceAll(y, "0x1", "0x2") || x == y {
		t.Errorf("%s\nbecame\n%s", x, y)
	}
}

func TestEditEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "x.gguf")
	if err := NewEdit(small(t)).WriteFile(ctx, file, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}
