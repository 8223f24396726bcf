package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Edit is what the edits of all formats have.
type Edit interface {
	Rename(old, new string) error
	Remove(name string) error
	Replace(name string, t *tensor.Tensor) error
	Write(ctx context.Context, w io.Writer) error
}

// Edits tests the Edit of a Target on a file of the tensors a, b and c. keep is called
// with files that it wrote, for a reference to read.
func Edits(t *testing.T, x Target, keep func(name string, b []byte)) {
	t.Run("orders of calls", func(t *testing.T) { x.calls(t, keep) })
	t.Run("names", func(t *testing.T) { x.editNames(t, keep) })
	t.Run("arguments", func(t *testing.T) { x.editArguments(t) })
	t.Run("sources", func(t *testing.T) { x.editSources(t) })
	t.Run("targets", func(t *testing.T) { x.editTargets(t) })
}

// base returns the names of the tensors of the file that is edited, and the file.
func (x Target) base(t *testing.T) (names []string, file []byte) {
	t.Helper()
	if x.Base != nil {
		return x.Base(t, x.plain)
	}
	names = []string{"a", "b", "c"}
	w, written := x.begin(t)
	for _, name := range names {
		if err := w.Add(x.plain(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return names, written()
}

// edit begins to edit a file, which is closed when the test ends.
func (x Target) edit(t *testing.T, file []byte) Edit {
	t.Helper()
	r, err := x.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	e, err := x.NewEdit(r)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A call is one of an Edit, and what it does to the tensors by their names before.
type call struct {
	name string
	do   func(e Edit) error
	to   func(m map[string]*tensor.Tensor)
}

// calls tries every sequence of up to three calls, or with -short two, for two tensors:
// the last call on a name counts.
func (x Target) calls(t *testing.T, keep func(name string, b []byte)) {
	names, file := x.base(t)
	a, b := names[0], names[1]
	content := map[string]*tensor.Tensor{}
	for _, n := range names {
		content[n] = x.plain(n)
	}
	remove := func(name string) call {
		return call{"Remove " + name, func(e Edit) error { return e.Remove(name) },
			func(m map[string]*tensor.Tensor) { m[name] = nil }}
	}
	rename := func(name, to string) call {
		return call{"Rename " + name + " " + to,
			func(e Edit) error { return e.Rename(name, to) },
			func(m map[string]*tensor.Tensor) {
				if m[name] == nil {
					m[name] = content[name]
				}
				renamed := *m[name]
				renamed.Name = to
				m[name] = &renamed
			}}
	}
	replace := func(name, with string) call {
		by := x.plain(with)
		return call{"Replace " + name + " by " + with,
			func(e Edit) error { return e.Replace(name, by) },
			func(m map[string]*tensor.Tensor) {
				replaced := *by
				if replaced.Name = name; m[name] != nil {
					replaced.Name = m[name].Name
				}
				m[name] = &replaced
			}}
	}
	all := []call{replace(a, "new 1"), replace(a, "new 2"), rename(a, "x"), rename(a, b),
		rename(b, a), rename(b, "x")}
	if x.Removes == nil {
		all = append(all, remove(a), remove(b))
	}
	longest := 3
	if testing.Short() {
		longest = 2
	}
	var try func(done []call)
	try = func(done []call) {
		x.sequence(t, file, content, done)
		if len(done) == longest || t.Failed() {
			return
		}
		for _, c := range all {
			try(append(done[:len(done):len(done)], c))
		}
	}
	try(nil)
	if keep == nil {
		return
	}
	e := x.edit(t, file)
	var out bytes.Buffer
	if err := errors.Join(e.Rename(a, b), e.Rename(b, a), e.Replace(a, x.plain("new 1")),
		e.Write(t.Context(), &out)); err != nil {
		t.Error(err)
	}
	keep(x.Name+" edited", out.Bytes())
}

// sequence makes the calls and requires the result that they should have together.
func (x Target) sequence(t *testing.T, file []byte, content map[string]*tensor.Tensor,
	done []call) {
	e := x.edit(t, file)
	m := map[string]*tensor.Tensor{}
	for name, c := range content {
		m[name] = c
	}
	var words []string
	for _, c := range done {
		words = append(words, c.name)
		if err := c.do(e); err != nil {
			t.Fatalf("%s: %v", strings.Join(words, ", "), err)
		}
		c.to(m)
	}
	var want []*tensor.Tensor
	taken := map[string]bool{}
	var class error
	for _, c := range m {
		if c == nil {
			continue
		}
		if taken[c.Name] {
			class = tensor.ErrDuplicate
		}
		taken[c.Name] = true
		want = append(want, c)
	}
	var out bytes.Buffer
	err := e.Write(t.Context(), &out)
	if class != nil || err != nil {
		if !errors.Is(err, class) {
			t.Errorf("%s: %v, want %v", strings.Join(words, ", "), err, class)
		}
		return
	}
	before := t.Failed()
	x.equal(t, out.Bytes(), want)
	if t.Failed() && !before {
		t.Errorf("after %s", strings.Join(words, ", "))
	}
}

// editNames renames a tensor to names that may not be possible.
func (x Target) editNames(t *testing.T, keep func(name string, b []byte)) {
	names, file := x.base(t)
	old := names[0]
	for _, c := range x.names() {
		e := x.edit(t, file)
		var out bytes.Buffer
		err := e.Rename(old, c.t.Name)
		if err == nil {
			err = e.Write(t.Context(), &out)
		}
		if !x.check(t, "Rename to "+c.kind, err, c.want) {
			continue
		}
		renamed := x.plain(old)
		renamed.Name = c.t.Name
		want := []*tensor.Tensor{renamed}
		for _, n := range names[1:] {
			want = append(want, x.plain(n))
		}
		x.equal(t, out.Bytes(), want)
		if keep != nil {
			keep(x.Name+" renamed to "+c.kind, out.Bytes())
		}
	}
	e := x.edit(t, file)
	err := e.Rename(old, names[1]+".npy")
	if err == nil {
		err = e.Write(t.Context(), io.Discard)
	}
	var want error
	if x.Suffix {
		want = tensor.ErrDuplicate
	}
	x.check(t, "Rename to the name of another and .npy", err, want)
}

// editArguments gives an Edit names that are not there and tensors that are not possible.
func (x Target) editArguments(t *testing.T) {
	names, file := x.base(t)
	e := x.edit(t, file)
	x.check(t, "Rename of an absent tensor", e.Rename("absent", "x"), tensor.ErrNoTensor)
	x.check(t, "Remove of an absent tensor", e.Remove("absent"), tensor.ErrNoTensor)
	x.check(t, "Replace of an absent tensor", e.Replace("absent", x.plain("")),
		tensor.ErrNoTensor)
	x.check(t, "Remove", e.Remove(names[0]), x.Removes)
	for _, c := range x.contents() {
		e := x.edit(t, file)
		var out bytes.Buffer
		err := e.Replace(names[0], c.t)
		if err == nil {
			err = e.Write(t.Context(), &out)
		}
		want := c.want
		if x.FixedShape && c.t != nil { // the dtype and the shape are the program's
			p := x.plain("")
			if want == nil && (c.t.DType != p.DType || !c.t.Shape.Equal(p.Shape) ||
				!c.t.Order.Equal(p.Order)) {
				want = errors.ErrUnsupported
			}
		}
		if !x.check(t, "Replace by "+c.kind, err, want) {
			continue
		}
		replaced := *c.t
		replaced.Name = names[0]
		all := []*tensor.Tensor{&replaced}
		for _, n := range names[1:] {
			all = append(all, x.plain(n))
		}
		x.equal(t, out.Bytes(), all)
	}
}

// editSources is what becomes of data that is not what was promised.
func (x Target) editSources(t *testing.T) {
	names, file := x.base(t)
	for _, c := range badSources() {
		e := x.edit(t, file)
		err := e.Replace(names[0], x.streamed("", c.open))
		if err == nil {
			err = e.Write(t.Context(), io.Discard)
		}
		x.check(t, "Replace by "+c.name, err, c.want)
		if !strings.Contains(fmt.Sprint(err), names[0]) {
			t.Errorf("Replace by %s: the error does not name the tensor: %v", c.name, err)
		}
	}
	e := x.edit(t, file)
	by := x.plain("new")
	if err := e.Replace(names[0], by); err != nil {
		t.Fatal(err)
	}
	memory, _ := by.Data.Memory()
	memory[0] ^= 1
	x.check(t, "memory that changes", e.Write(t.Context(), io.Discard), tensor.ErrChecksum)
	memory[0] ^= 1
	x.check(t, "memory that has changed back", e.Write(t.Context(), io.Discard), nil)

	r, err := x.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	if e, err = x.NewEdit(r); err != nil {
		t.Fatal(err)
	}
	r.Close()
	x.check(t, "Write after Close of the Reader", e.Write(t.Context(), io.Discard), fs.ErrClosed)
}

// editTargets is what becomes of an io.Writer that fails, is short, or lies, and of a
// context that has ended.
func (x Target) editTargets(t *testing.T) {
	names, file := x.base(t)
	e := x.edit(t, file)
	if err := errors.Join(e.Rename(names[0], "x"),
		e.Replace(names[0], x.plain("new"))); err != nil {
		t.Fatal(err)
	}
	write := func(w io.Writer) error { return e.Write(t.Context(), w) }
	if err := readtest.FailedWrites(write); err != nil {
		t.Error(err)
	}
	var out, again bytes.Buffer
	if err := errors.Join(write(&out), write(&again)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(out.Bytes(), again.Bytes()) {
		t.Error("the same edit makes other bytes the second time")
	}
	size := int64(out.Len())
	for _, at := range []int64{0, 1, size / 2, size - 1} {
		x.check(t, "an io.Writer that is short", write(readtest.ShortWriter(io.Discard, at)),
			io.ErrShortWrite)
		for _, l := range readtest.LyingWriters(at) {
			err := readtest.Survives(t, func() error { return write(l.Writer) }, "%s", l.Name)
			if err == nil {
				t.Errorf("%s, at %d: no error", l.Name, at)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x.check(t, "a context that has ended", e.Write(ctx, io.Discard), context.Canceled)
}
