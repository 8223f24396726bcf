package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// A Writer has the methods that the writers of all formats share.
type Writer interface {
	Check(t *tensor.Tensor) error
	Add(t *tensor.Tensor) error
	AddAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error
	Close() error
	Abort()
}

// A Target is a format as one of its writers writes it, and what it can hold. The tensors
// that it cannot hold must be errors.ErrUnsupported.
type Target struct {
	Name      string
	NewWriter func(w io.Writer) Writer                // nil if there is only Create
	Create    func(name string) (Writer, error)       // nil if there is only NewWriter
	Open      func(b []byte) (Reader, error)          // also for names and contents
	DTypes    []tensor.DType                          // all others are refused
	Orders    func(order tensor.Order, rank int) bool // those that it stores as they are
	MaxRank   int                                     // 0 for the 255 of tensor.Limits
	Refuses   []string                                // kinds of names and contents
	Accepts   []string                                // contents that other formats refuse
	// Streams: Add writes the values, so that memory may change afterwards.
	Streams bool
	// One: the file has one tensor, and its name is lost.
	One bool
	// Nameless: an empty name is none, so that several tensors may have it.
	Nameless bool
	// Trailing: dimensions of 1 at the end of a shape are not stored.
	Trailing bool
	// Empty is the error of Close without tensors, nil if there are such files.
	Empty error
	// Suffix: two names that differ by a last ".npy" are one.
	Suffix bool
	// NewEdit begins an Edit of an open file; nil if there is none. Base returns the file
	// that is edited, and its names, where no Writer makes one, of what plain returns.
	NewEdit func(r Reader) (Edit, error)
	Base    func(t *testing.T, plain func(name string) *tensor.Tensor) ([]string, []byte)
	// FixedShape: an Edit replaces values only, not the dtype and shape.
	FixedShape bool
	// Removes is the error of Remove, nil if an Edit removes tensors.
	Removes error
	// Present lists errors that are another class today than they should be, by the case.
	Present map[string]error
}

// Kinds of names, for Target.Refuses.
const (
	EmptyName    = "an empty name"
	NULName      = "a name with NUL"
	NotUTF8Name  = "a name that is not UTF-8"
	SlashName    = "a name with a slash"
	UpName       = "a name that leads out of a directory"
	Name64       = "a name of 64 bytes"
	Name1025     = "a name of 1,025 bytes"
	Name65532    = "a name of 65,532 bytes"
	NameLimit    = "a name of more than 1 MiB"
	ReservedName = "the name __metadata__"
	DotNPYName   = "a name that ends in .npy"
	ControlName  = "a name with control characters"
	DotsName     = "a name with empty parts between dots"
	UnicodeName  = "a name that is not normalised"
)

var badNames = []struct{ kind, name string }{
	{EmptyName, ""},
	{NULName, "a\x00b"},
	{NotUTF8Name, "a\xffb"},
	{SlashName, "a/b"},
	{UpName, "u/../../a"},
	{Name64, strings.Repeat("n", 64)},
	{Name1025, strings.Repeat("m", 1025)},
	{Name65532, strings.Repeat("l", 65532)},
	{NameLimit, strings.Repeat("k", 1<<20+1)},
	{ReservedName, "__metadata__"},
	{DotNPYName, "n.npy"},
	{ControlName, "a\x1b[2J\n\u202eb"},
	{DotsName, "d..b."},
	{UnicodeName, "e\u0301"},
}

// Kinds of contents, for Target.Refuses and Target.Accepts.
const (
	ZeroDim     = "a dimension of 0"
	Scalar      = "a scalar"
	Sparse      = "a sparse tensor"
	Blocks      = "quantised blocks as GGUF has them"
	BlocksOf    = "quantised blocks as zTensor has them"
	Extras      = "a dense tensor with a further part"
	External    = "external data"
	UnknownSize = "data of unknown size"
	HugeDim     = "a dimension of 2^32"
)

// check requires an error of that class, or one that Present lists for the case; nil is
// no error. It reports whether there is no error, as there should be.
func (x Target) check(t *testing.T, name string, got, want error) (accepted bool) {
	t.Helper()
	ok := got == nil && want == nil || want != nil && errors.Is(got, want)
	present, deviates := x.Present[name]
	switch {
	case !deviates && !ok:
		t.Errorf("%s: %v, want %v", name, got, want)
	case deviates && ok:
		t.Errorf("%s: %v, which is listed as a deviation no longer there", name, got)
	case deviates && (present == nil) != (got == nil), deviates && !errors.Is(got, present):
		t.Errorf("%s: %v, listed as %v", name, got, present)
	}
	return got == nil && want == nil
}

// begin returns a Writer, and a function that returns what it has written.
func (x Target) begin(t *testing.T) (Writer, func() []byte) {
	t.Helper()
	if x.NewWriter != nil {
		var b bytes.Buffer
		return x.NewWriter(&b), b.Bytes
	}
	name := filepath.Join(t.TempDir(), "file")
	w, err := x.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	return w, func() []byte {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		return b
	}
}

// Writers tests a writer: which arguments it refuses and how, that the others are read
// back equal, and what it does when its source or its target fails. keep is called with
// the files of what was accepted, for a reference to read.
func Writers(t *testing.T, x Target, keep func(name string, b []byte)) {
	t.Run("arguments", func(t *testing.T) { x.arguments(t, keep) })
	t.Run("states", func(t *testing.T) { x.states(t) })
	t.Run("sources", func(t *testing.T) { x.sources(t) })
	t.Run("sequences", func(t *testing.T) { x.sequences(t) })
	if x.NewWriter != nil {
		t.Run("targets", func(t *testing.T) { x.targets(t) })
	}
	if x.Create != nil {
		t.Run("files", func(t *testing.T) { x.files(t) })
	}
}

func (x Target) arguments(t *testing.T, keep func(name string, b []byte)) {
	all := append(x.contents(), x.names()...)
	w, written := x.begin(t)
	var accepted []*tensor.Tensor
	finish := func() {
		if err := w.Close(); err != nil {
			t.Errorf("Close: %v", err)
			return
		}
		b := written()
		x.equal(t, b, accepted)
		if keep != nil {
			keep(fmt.Sprint(x.Name, " ", len(accepted)), b)
		}
	}
	for _, c := range all {
		if x.One {
			w, written = x.begin(t)
			accepted = nil
		}
		checked := w.Check(c.t)
		added := w.Add(c.t)
		x.check(t, c.kind, added, c.want)
		if (checked == nil) != (added == nil) || errors.Is(added, tensor.ErrDuplicate) !=
			errors.Is(checked, tensor.ErrDuplicate) {
			t.Errorf("%s: Check: %v; Add: %v", c.kind, checked, added)
		}
		if added == nil {
			accepted = append(accepted, c.t)
		}
		if again := *x.plain(""); added == nil && !(c.t.Name == "" && x.Nameless) {
			again.Name = c.t.Name
			x.check(t, "a second tensor, "+c.kind, w.Add(&again), tensor.ErrDuplicate)
		}
		if x.One && added == nil {
			finish()
		} else if x.One {
			w.Abort()
		}
	}
	if !x.One {
		finish()
	}
}

// equal requires that a file has these tensors, and no others.
func (x Target) equal(t *testing.T, b []byte, want []*tensor.Tensor) {
	t.Helper()
	r, err := x.Open(b)
	if err != nil {
		t.Errorf("what was written is not opened: %v", err)
		return
	}
	defer r.Close()
	if r.Len() != len(want) {
		t.Errorf("%d tensors were written, %d are there", len(want), r.Len())
	}
	if _, err := r.Verify(t.Context(), nil); err != nil {
		t.Errorf("what was written is not verified: %v", err)
	}
	for _, a := range want {
		c := r.Tensor(a.Name)
		if x.One {
			for c = range r.Tensors() {
			}
		}
		if a.Name == "" && x.Nameless {
			continue
		}
		if c == nil {
			t.Errorf("%s was written, and is not there", short(a.Name))
			continue
		}
		shape := a.Shape
		for x.Trailing && len(shape) > 0 && shape[len(shape)-1] == 1 {
			shape = shape[:len(shape)-1]
		}
		if c.DType != a.DType && a.DType != tensor.Unknown || !c.Shape.Equal(shape) ||
			a.Dense() && !sameOrder(a, c) {
			t.Errorf("%s: %v of %v, order %v, was written; %v of %v, order %v, is there",
				short(a.Name), shape, a.DType, a.Order, c.Shape, c.DType, c.Order)
		}
		same(t, short(a.Name), a.Data, c.Data)
		for i := range a.Parts {
			p := c.Part(a.Parts[i].Role)
			if p == nil && len(a.Parts) == 1 && len(c.Parts) == 1 {
				p = &c.Parts[0] // the same blocks by another name
			}
			if p == nil {
				t.Errorf("%s: no part %s", short(a.Name), a.Parts[i].Role)
				continue
			}
			same(t, short(a.Name)+" "+a.Parts[i].Role, a.Parts[i].Data, p.Data)
		}
	}
}

func same(t *testing.T, name string, a, b tensor.Blob) {
	t.Helper()
	want, err1 := a.ReadAll()
	got, err2 := b.ReadAll()
	if err1 != nil || err2 != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %x was written, %x is there (%v, %v)", name, want, got, err1, err2)
	}
}

// sameOrder reports whether the elements are in the same order, whatever it is called.
func sameOrder(a, b *tensor.Tensor) bool {
	if a.Order.Equal(b.Order) {
		return true
	}
	s, ok1 := a.Order.Strides(a.Shape)
	u, ok2 := b.Order.Strides(b.Shape)
	if !ok1 || !ok2 || len(s) != len(u) {
		return slices.Contains(a.Shape, 0)
	}
	for i, d := range a.Shape {
		if d > 1 && s[i] != u[i] {
			return false
		}
	}
	return true
}

// states tests calls before and after Close and Abort.
func (x Target) states(t *testing.T) {
	ctx := t.Context()
	calls := func(when string, w Writer) {
		t.Helper()
		x.check(t, "Check "+when, w.Check(x.plain("late")), fs.ErrClosed)
		x.check(t, "Add "+when, w.Add(x.plain("late")), fs.ErrClosed)
		x.check(t, "AddAll "+when, w.AddAll(ctx, tensor.Of(x.plain("late"))), fs.ErrClosed)
	}
	w, written := x.begin(t)
	if err := errors.Join(w.Add(x.plain("a")), w.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	w.Abort()
	w.Abort()
	x.check(t, "Close after Close and Abort", w.Close(), nil)
	calls("after Close", w)
	x.equal(t, written(), []*tensor.Tensor{x.plain("a")})

	w, _ = x.begin(t)
	if err := w.Add(x.plain("a")); err != nil {
		t.Fatal(err)
	}
	w.Abort()
	w.Abort()
	x.check(t, "Close after Abort", w.Close(), fs.ErrClosed)
	x.check(t, "a second Close after Abort", w.Close(), fs.ErrClosed)
	calls("after Abort", w)

	w, written = x.begin(t)
	err := w.Close()
	x.check(t, "Close without tensors", err, x.Empty)
	x.check(t, "a second Close without tensors", w.Close(), x.Empty)
	if err == nil {
		x.equal(t, written(), nil)
	}
}
