package ztensor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// unusualNames are names that writers must either refuse or write so that they are read
// back.
var unusualNames = []string{
	"", "\x00", "a\x00b", "b\x00", "\xff", "b\xc3",
	"\xed\xa0\x80", "\xf4\x90\x80\x80", // a surrogate, and beyond Unicode
	"/", "..", "b\nc", "\u202e", "\ufeff", "\u00e9", "e\u0301", "\u540d\u524d", "b.npy",
	strings.Repeat("x", 23), strings.Repeat("x", 24), strings.Repeat("x", 255),
	strings.Repeat("x", 256), strings.Repeat("x", 1024), strings.Repeat("x", 1025),
	strings.Repeat("\u00e9", 512), strings.Repeat("\u00e9", 512) + "x",
	strings.Repeat("x", 65536), strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<20+1),
}

func nameForTest(name string) string {
	if len(name) > 20 {
		return fmt.Sprintf("%q of %d bytes", name[:2], len(name))
	}
	return fmt.Sprintf("%q", name)
}

// sameTensors reports how two files differ, the second being opened strictly.
func sameTensors(want map[string]*tensor.Tensor, b []byte) error {
	r, err := OpenBytes(b, &ReaderOptions{Strict: true})
	if err != nil {
		return err
	}
	defer r.Close()
	if r.Len() != len(want) {
		return fmt.Errorf("%d tensors, want %d", r.Len(), len(want))
	}
	for name, x := range want {
		got := r.Tensor(name)
		if got == nil {
			return fmt.Errorf("no tensor %s", nameForTest(name))
		}
		a, err1 := x.Data.ReadAll()
		b, err2 := got.Data.ReadAll()
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if got.DType != x.DType || !got.Shape.Equal(x.Shape) || !bytes.Equal(a, b) {
			return fmt.Errorf("tensor %s has changed", nameForTest(name))
		}
	}
	return nil
}

func TestUnusualNamesAreRefusedOrReadBack(t *testing.T) {
	a := tensor.New("a", tensor.Shape{3}, []uint8{1, 2, 3})
	b := tensor.New("b", tensor.Shape{2}, []float32{4, 5})
	other := tensor.New("", tensor.Shape{1}, []int64{6})
	renamed := func(x *tensor.Tensor, name string) *tensor.Tensor {
		c := *x
		c.Name = name
		return &c
	}
	for _, version := range editableVersions {
		opts := &WriterOptions{Version: version}
		original := write(t, opts, func(w *Writer) { w.AddAll(t.Context(), tensor.Of(a, b)) })
		accepted, refused := 0, 0
		for _, name := range unusualNames {
			what := fmt.Sprintf("version %s, name %s", version, nameForTest(name))
			file := filepath.Join(t.TempDir(), "x.zt")
			if err := os.WriteFile(file, original, 0o666); err != nil {
				t.Fatal(err)
			}
			with := func(change func(e *Edit) error, write func(e *Edit) error) error {
				t.Helper()
				r, err := Open(file, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				e := NewEdit(r)
				if err := change(e); err != nil {
					return err
				}
				return write(e)
			}
			rename := func(e *Edit) error { return e.Rename("a", name) }
			replace := func(e *Edit) error {
				return errors.Join(e.Rename("a", name), e.Replace("a", other))
			}
			var added, edited, replaced bytes.Buffer
			w := NewWriter(&added, opts)
			err := w.Add(renamed(a, name))
			if check := NewWriter(&bytes.Buffer{}, opts).Check(renamed(a, name)); (check ==
				nil) != (err == nil) {
				t.Errorf("%s: Check is %v, Add %v", what, check, err)
			}
			if err == nil {
				err = errors.Join(w.Add(b), w.Close())
			}
			errs := map[string]error{
				"Add": err,
				"Rename": with(rename, func(e *Edit) error {
					return e.Write(t.Context(), &edited, nil)
				}),
				"Rename, Replace": with(replace, func(e *Edit) error {
					return e.Write(t.Context(), &replaced, nil)
				}),
			}
			if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, original) {
				t.Errorf("%s: the original has changed, %v", what, err)
			}
			errs["Rename in place"] = with(rename, func(e *Edit) error {
				return e.WriteFile(t.Context(), file, nil)
			})
			inPlace, readErr := os.ReadFile(file)
			if readErr != nil {
				t.Fatal(readErr)
			}
			for how, e := range errs {
				if (e == nil) != (err == nil) || e != nil && !errors.Is(e, errors.ErrUnsupported) {
					t.Errorf("%s: %s: %v, where Add says %v", what, how, e, err)
				}
			}
			if files, _ := os.ReadDir(filepath.Dir(file)); len(files) != 1 {
				t.Errorf("%s: %d files are left", what, len(files))
			}
			if err != nil {
				refused++
				if !bytes.Equal(inPlace, original) {
					t.Errorf("%s: refused, but the file has changed", what)
				}
				continue
			}
			accepted++
			want := map[string]*tensor.Tensor{name: a, "b": b}
			for how, file := range map[string][]byte{"Add": added.Bytes(),
				"Rename": edited.Bytes(), "Rename in place": inPlace} {
				if err := sameTensors(want, file); err != nil {
					t.Errorf("%s: %s is not read back: %v", what, how, err)
				}
			}
			want[name] = other
			if err := sameTensors(want, replaced.Bytes()); err != nil {
				t.Errorf("%s: Rename, Replace is not read back: %v", what, err)
			}
		}
		if refused < 5 || accepted < 10 {
			t.Errorf("version %s: %d names refused, %d accepted", version, refused, accepted)
		}
	}
}

// Names that are taken are refused whatever the order of the calls, and names that become
// free can be taken.
func TestRenameRefusesNamesThatAreTaken(t *testing.T) {
	ts := []*tensor.Tensor{
		tensor.New("a", tensor.Shape{1}, []uint8{1}),
		tensor.New("b", tensor.Shape{1}, []uint8{2}),
		tensor.New("c", tensor.Shape{1}, []uint8{3}),
	}
	x := tensor.New("", tensor.Shape{1}, []uint8{9})
	for _, version := range editableVersions {
		original := write(t, &WriterOptions{Version: version},
			func(w *Writer) { w.AddAll(t.Context(), tensor.Of(ts...)) })
		for _, c := range []struct {
			what   string
			change func(e *Edit) error
			want   string // names and values; "" is tensor.ErrDuplicate
		}{
			{"taken", func(e *Edit) error { return e.Rename("a", "b") }, ""},
			{"taken by one that is replaced", func(e *Edit) error {
				return errors.Join(e.Replace("b", x), e.Rename("a", "b"))
			}, ""},
			{"taken by one that is renamed", func(e *Edit) error {
				return errors.Join(e.Rename("a", "d"), e.Rename("b", "d"))
			}, ""},
			{"replaced and taken", func(e *Edit) error {
				return errors.Join(e.Replace("a", x), e.Rename("a", "c"))
			}, ""},
			{"swapped", func(e *Edit) error {
				return errors.Join(e.Rename("a", "b"), e.Rename("b", "a"))
			}, "a2 b1 c3"},
			{"rotated", func(e *Edit) error {
				return errors.Join(e.Rename("a", "b"), e.Rename("b", "c"), e.Rename("c", "a"))
			}, "a3 b1 c2"},
			{"of one that is removed", func(e *Edit) error {
				return errors.Join(e.Rename("a", "b"), e.Remove("b"))
			}, "b1 c3"},
			{"of one that is removed before", func(e *Edit) error {
				return errors.Join(e.Remove("b"), e.Rename("a", "b"))
			}, "b1 c3"},
			{"of one that is replaced and renamed", func(e *Edit) error {
				return errors.Join(e.Replace("b", x), e.Rename("b", "z"), e.Rename("a", "b"))
			}, "b1 c3 z9"},
			{"twice", func(e *Edit) error {
				return errors.Join(e.Rename("a", "b"), e.Rename("a", "d"))
			}, "b2 c3 d1"},
			{"to its own name", func(e *Edit) error { return e.Rename("a", "a") }, "a1 b2 c3"},
		} {
			r, err := OpenBytes(original, nil)
			if err != nil {
				t.Fatal(err)
			}
			e := NewEdit(r)
			if err := c.change(e); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			err = e.Write(t.Context(), &out, nil)
			if c.want == "" {
				if !errors.Is(err, tensor.ErrDuplicate) {
					t.Errorf("version %s, %s: %v", version, c.what, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("version %s, %s: %v", version, c.what, err)
				continue
			}
			r, err = OpenBytes(out.Bytes(), &ReaderOptions{Strict: true})
			if err != nil {
				t.Errorf("version %s, %s: %v", version, c.what, err)
				continue
			}
			var got []string
			for x := range r.Tensors() {
				b, err := x.Data.ReadAll()
				if err != nil {
					t.Error(err)
				}
				got = append(got, fmt.Sprint(x.Name, b[0]))
			}
			if slices.Sort(got); strings.Join(got, " ") != c.want {
				t.Errorf("version %s, %s: %q, want %q", version, c.what, got, c.want)
			}
		}
	}
}

// A shape that is accepted is read back.
func TestUnusualShapesAreRefusedOrReadBack(t *testing.T) {
	ones := func(n int) tensor.Shape { return slices.Repeat(tensor.Shape{1}, n) }
	for _, version := range editableVersions {
		accepted := 0
		for _, shape := range []tensor.Shape{nil, {}, {0}, ones(64), ones(65), ones(255),
			ones(256), append(ones(255), 0), {0, 1 << 40, 1 << 40}, {1 << 40, 1 << 40, 0},
			{1 << 40, 0, 1 << 40}, {1 << 62, 1, 0}, {1 << 62, 2, 0}, {1 << 62, 4, 0},
			{1<<63 - 1, 0}} {
			n, ok := shape.Elements()
			if !ok {
				continue
			}
			x := tensor.New("x", shape, make([]uint8, n))
			var out bytes.Buffer
			w := NewWriter(&out, &WriterOptions{Version: version})
			if err := w.Add(x); err != nil {
				if !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("version %s, %v: %v", version, shape, err)
				}
				continue
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			accepted++
			if err := sameTensors(map[string]*tensor.Tensor{"x": x}, out.Bytes()); err != nil {
				t.Errorf("version %s, %v of rank %d: %v", version, shape, len(shape), err)
			}
		}
		if accepted < 4 {
			t.Errorf("version %s: %d shapes accepted", version, accepted)
		}
	}
}

// Names of parts and of schemes that are accepted are read back.
func TestUnusualRolesAreRefusedOrReadBack(t *testing.T) {
	for _, version := range editableVersions {
		accepted := 0
		for _, role := range append(unusualNames, "data", "values") {
			for _, scheme := range []string{"x", role} {
				x := &tensor.Tensor{Name: "x", DType: tensor.U8, Shape: tensor.Shape{2},
					Scheme: scheme, Parts: []tensor.Part{{Role: role, DType: tensor.U8,
						Data: tensor.BlobOf([]byte{1, 2})}}}
				if x.Dense() {
					continue
				}
				var out bytes.Buffer
				w := NewWriter(&out, &WriterOptions{Version: version})
				what := fmt.Sprintf("version %s, role %s of %s", version, nameForTest(role),
					nameForTest(scheme))
				if err := w.Add(x); err != nil {
					if !errors.Is(err, errors.ErrUnsupported) {
						t.Errorf("%s: %v", what, err)
					}
					continue
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				accepted++
				r, err := OpenBytes(out.Bytes(), nil)
				if err != nil {
					t.Errorf("%s: %v", what, err)
					continue
				}
				got := r.Tensor("x")
				if got.Scheme != scheme || got.Part(role) == nil {
					t.Errorf("%s: scheme %q, parts %v", what, got.Scheme, got.Parts)
				} else if b, err := got.Part(role).Data.ReadAll(); err != nil ||
					!bytes.Equal(b, []byte{1, 2}) {
					t.Errorf("%s: %v, %v", what, b, err)
				}
			}
		}
		if accepted < 10 {
			t.Errorf("version %s: %d accepted", version, accepted)
		}
	}
}
