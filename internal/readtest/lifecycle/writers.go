package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Writer is what the writers of all formats have.
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

// sample returns a tensor of that dtype, whose bytes depend on the name.
func (x Target) sample(name string, d tensor.DType, shape tensor.Shape) *tensor.Tensor {
	h := fnv.New64()
	h.Write([]byte(name))
	r := rand.New(rand.NewPCG(h.Sum64(), uint64(d)))
	n, _ := shape.Elements()
	size, _ := d.Bytes(n)
	b := make([]byte, size)
	for i := range b {
		switch b[i] = byte(r.Uint32()); d {
		case tensor.Bool:
			b[i] &= 1
		case tensor.F32:
			b[i] &= 0x3f // no infinity, no NaN
		}
	}
	t := &tensor.Tensor{Name: name, DType: d, Shape: shape, Data: tensor.BlobOf(b)}
	if !x.Orders(nil, len(shape)) {
		t.Order = tensor.ColumnMajor(len(shape))
	}
	return t
}

func (x Target) plain(name string) *tensor.Tensor {
	return x.sample(name, tensor.F32, tensor.Shape{2, 3})
}

// A content is an argument of Add, and what should become of it.
type content struct {
	kind string
	t    *tensor.Tensor
	want error // nil: it is accepted, and read back equal
}

// contents returns all that is given to a Writer, apart from names.
func (x Target) contents() (all []content) {
	add := func(kind string, want error, t *tensor.Tensor) {
		if t != nil {
			t.Name = kind
		}
		all = append(all, content{kind, t, want})
	}
	if slices.Contains(x.Refuses, "") {
		panic("an empty kind")
	}
	holds := func(kind string) error {
		if slices.Contains(x.Refuses, kind) {
			return errors.ErrUnsupported
		}
		return nil
	}
	mayHold := func(kind string) error {
		if slices.Contains(x.Accepts, kind) {
			return nil
		}
		return errors.ErrUnsupported
	}
	add("a nil tensor", fs.ErrInvalid, nil)
	short := x.plain("")
	short.Data, _ = short.Data.Section(0, 20)
	add("fewer bytes than the shape says", tensor.ErrMalformed, short)
	negative := x.plain("")
	negative.Shape = tensor.Shape{-2, 3}
	add("a negative dimension", tensor.ErrMalformed, negative)
	twice := x.plain("")
	twice.Order = tensor.Order{0, 0}
	add("an order that is no permutation", tensor.ErrMalformed, twice)

	for _, d := range append(tensor.DTypes(), tensor.Unknown) {
		var want error
		if !slices.Contains(x.DTypes, d) {
			want = errors.ErrUnsupported
		}
		add("dtype "+d.String(), want, x.sample("", d, tensor.Shape{2, 3, 4}))
	}
	for _, o := range []tensor.Order{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1},
		{2, 1, 0}} {
		t := x.sample("", tensor.F32, tensor.Shape{2, 3, 4})
		t.Order = o
		var want error
		if !x.Orders(o, 3) {
			want = errors.ErrUnsupported
		}
		add(fmt.Sprintf("order %v", []int(o)), want, t)
	}
	for _, rank := range []int{1, 4, 5, 8, 9, 32, 33, 64, 65, 254, 255, 256, 257} {
		shape := make(tensor.Shape, rank)
		for i := range shape {
			shape[i] = 1
		}
		shape[rank-1] = 2
		var want error
		if rank > 255 || rank > x.MaxRank && x.MaxRank > 0 { // of tensor.Limits
			want = errors.ErrUnsupported
		}
		add(fmt.Sprintf("rank %d", rank), want, x.sample("", tensor.F32, shape))
	}
	add(Scalar, holds(Scalar), x.sample("", tensor.F32, nil))
	add(ZeroDim, holds(ZeroDim), x.sample("", tensor.F32, tensor.Shape{2, 0, 3}))
	add(HugeDim, holds(HugeDim), x.sample("", tensor.F32, tensor.Shape{1 << 32, 0}))

	csr := &tensor.Tensor{DType: tensor.F32, Shape: tensor.Shape{2, 3}, Scheme: "sparse_csr",
		Parts: []tensor.Part{
			{Role: "values", DType: tensor.F32, Data: tensor.BlobOf(make([]byte, 4))},
			{Role: "indices", DType: tensor.U64, Data: tensor.BlobOf(make([]byte, 8))},
			{Role: "indptr", DType: tensor.U64, Data: tensor.BlobOf(
				append(make([]byte, 16), 1, 0, 0, 0, 0, 0, 0, 0))},
		}}
	add(Sparse, mayHold(Sparse), csr)
	blocks := tensor.BlobOf(make([]byte, 68))
	add(Blocks, mayHold(Blocks), &tensor.Tensor{Shape: tensor.Shape{2, 32}, Scheme: "Q8_0",
		Parts: []tensor.Part{{Role: "blocks", Data: blocks}}})
	add(BlocksOf, mayHold(BlocksOf), &tensor.Tensor{Shape: tensor.Shape{2, 32},
		Scheme: "gguf.Q8_0/1",
		Parts:  []tensor.Part{{Role: "data", DType: tensor.U8, Data: blocks}}})
	extra := x.plain("")
	extra.Parts = []tensor.Part{{Role: "further", DType: tensor.F32,
		Data: tensor.BlobOf([]byte{1, 2, 3, 4})}}
	add(Extras, mayHold(Extras), extra)
	external := x.plain("")
	external.External, external.Data = true, tensor.Blob{}
	add(External, errors.ErrUnsupported, external)
	unknown := x.plain("")
	unknown.Data = tensor.BlobFunc(-1, func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(make([]byte, 24))), nil
	})
	add(UnknownSize, mayHold(UnknownSize), unknown)
	return all
}

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

// names returns what is to be read back or refused because of its name.
func (x Target) names() (all []content) {
	for _, n := range badNames {
		var want error
		if slices.Contains(x.Refuses, n.kind) || len(n.name) > 1<<20 { // of tensor.Limits
			want = errors.ErrUnsupported
		}
		if x.One { // the name is lost
			want = nil
		}
		all = append(all, content{n.kind, x.plain(n.name), want})
	}
	return all
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

func short(name string) string { return fmt.Sprintf("%.40q", name) }

// states is what becomes of calls before and after Close and Abort.
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

// streamed returns a tensor whose data open gives.
func (x Target) streamed(name string,
	open func(data []byte) (io.ReadCloser, error)) *tensor.Tensor {
	t := x.plain(name)
	data, _ := t.Data.ReadAll()
	t.Data = tensor.BlobFunc(int64(len(data)), func() (io.ReadCloser, error) { return open(data) })
	return t
}

// A badSource opens a stream that is not the data that was promised.
type badSource struct {
	name string
	open func(data []byte) (io.ReadCloser, error)
	want error
}

func badSources() []badSource {
	reader := func(b []byte) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b)), nil
	}
	return []badSource{
		{"a source that is short", func(b []byte) (io.ReadCloser, error) {
			return reader(b[:len(b)-1])
		}, io.ErrUnexpectedEOF},
		{"a source that is empty", func(b []byte) (io.ReadCloser, error) {
			return reader(nil)
		}, io.ErrUnexpectedEOF},
		{"a source that is long", func(b []byte) (io.ReadCloser, error) {
			return reader(append(b[:len(b):len(b)], 0))
		}, tensor.ErrMalformed},
		{"a source that fails", func(b []byte) (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(bytes.NewReader(b[:1]), failing{})), nil
		}, readtest.ErrInjected},
		{"a source that is not opened", func(b []byte) (io.ReadCloser, error) {
			return nil, readtest.ErrInjected
		}, readtest.ErrInjected},
	}
}

// sources is what becomes of data that is not what was promised.
func (x Target) sources(t *testing.T) {
	for _, c := range badSources() {
		t.Run(c.name, func(t *testing.T) {
			w, _ := x.begin(t)
			if !x.One {
				if err := w.Add(x.plain("first")); err != nil {
					t.Fatal(err)
				}
			}
			err := w.Add(x.streamed("it's me", c.open))
			if closed := w.Close(); err == nil {
				err = closed
			} else if closed == nil {
				t.Error("Close succeeds after an error of writing")
			}
			x.check(t, c.name, err, c.want)
			if !strings.Contains(fmt.Sprint(err), "it's me") {
				t.Errorf("the error does not name the tensor: %v", err)
			}
			if again := w.Close(); again == nil || again.Error() != w.Close().Error() {
				t.Errorf("Close again: %v", again)
			}
		})
	}
	t.Run("memory that changes", func(t *testing.T) {
		w, written := x.begin(t)
		a := x.plain("a")
		before, _ := a.Data.ReadAll()
		if err := w.Add(a); err != nil {
			t.Fatal(err)
		}
		memory, _ := a.Data.Memory()
		memory[0] ^= 1
		err := w.Close()
		if x.Streams {
			x.check(t, "memory that changes", err, nil)
			a.Data = tensor.BlobOf(before)
			x.equal(t, written(), []*tensor.Tensor{a})
			return
		}
		x.check(t, "memory that changes", err, tensor.ErrChecksum)
	})
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, readtest.ErrInjected }

// sequences is what AddAll does with a sequence or a context that ends early.
func (x Target) sequences(t *testing.T) {
	names := []string{"a", "b", "c"}
	if x.One {
		names = names[:1]
	}
	ts := func(end func(i int) error) iter.Seq2[*tensor.Tensor, error] {
		return func(yield func(*tensor.Tensor, error) bool) {
			for i, name := range names {
				if err := end(i); err != nil {
					yield(nil, err)
					return
				}
				if !yield(x.plain(name), nil) {
					return
				}
			}
		}
	}
	w, _ := x.begin(t)
	last := len(names) - 1
	err := w.AddAll(t.Context(), ts(func(i int) error {
		if i == last {
			return readtest.ErrInjected
		}
		return nil
	}))
	x.check(t, "a sequence that fails", err, readtest.ErrInjected)
	w.Abort()

	for _, at := range []int{0, last} {
		ctx, cancel := context.WithCancel(t.Context())
		w, _ = x.begin(t)
		err = w.AddAll(ctx, ts(func(i int) error {
			if i == at {
				cancel()
			}
			return nil
		}))
		cancel()
		x.check(t, fmt.Sprintf("a context that ends at tensor %d of %d", at, last+1), err,
			context.Canceled)
		w.Abort()
	}

	var files [2][]byte
	for i := range files {
		w, written := x.begin(t)
		if err := errors.Join(w.AddAll(t.Context(), ts(func(int) error { return nil })),
			w.Close()); err != nil {
			t.Fatal(err)
		}
		files[i] = written()
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("the same tensors make other bytes the second time")
	}
	var want []*tensor.Tensor
	for _, name := range names {
		want = append(want, x.plain(name))
	}
	x.equal(t, files[0], want)
}

// targets is what becomes of an io.Writer that fails, is short, or lies.
func (x Target) targets(t *testing.T) {
	plain := x.plain("b")
	write := func(out io.Writer, a *tensor.Tensor) (Writer, error) {
		w := x.NewWriter(out)
		err := w.Add(a)
		if err == nil && !x.One {
			err = w.Add(plain)
		}
		if closed := w.Close(); err == nil {
			err = closed
		}
		return w, err
	}
	small := x.sample("a", tensor.F32, tensor.Shape{2, 3})
	if err := readtest.FailedWrites(func(out io.Writer) error {
		_, err := write(out, small)
		return err
	}); err != nil {
		t.Error(err)
	}
	var sound bytes.Buffer
	large := x.sample("a", tensor.F32, tensor.Shape{300, 400}) // more than any buffer
	if _, err := write(&sound, large); err != nil {
		t.Fatal(err)
	}
	size := int64(sound.Len())
	for _, at := range []int64{0, 1, 10, size / 2, size - 1} {
		_, err := write(readtest.ShortWriter(io.Discard, at), large)
		x.check(t, "an io.Writer that is short", err, io.ErrShortWrite)
		for _, l := range readtest.LyingWriters(at) {
			var w Writer
			err := readtest.Survives(t, func() (err error) {
				w, err = write(l.Writer, large)
				return err
			}, "%s", l.Name)
			if err == nil {
				t.Errorf("%s, at %d: no error", l.Name, at)
			} else if again := w.Close(); again == nil {
				t.Errorf("%s, at %d: Close again succeeds", l.Name, at)
			}
		}
	}
}

// files is what Create does to a directory.
func (x Target) files(t *testing.T) {
	dir := t.TempDir()
	list := func() (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	for name, want := range map[string]error{
		filepath.Join(dir, "missing", "file"): fs.ErrNotExist,
		dir:                                   fs.ErrInvalid,
		"":                                    fs.ErrInvalid,
	} {
		w, err := x.Create(name)
		if err == nil {
			w.Abort()
		}
		x.check(t, "Create "+strings.Replace(name, dir, "DIR", 1), err, want)
	}
	name := filepath.Join(dir, "file")
	old := []byte("old")
	if err := os.WriteFile(name, old, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, end := range map[string]func(w Writer){
		"Abort": func(w Writer) { w.Abort() },
		"a source that fails": func(w Writer) {
			err := w.Add(x.streamed("b", func([]byte) (io.ReadCloser, error) {
				return nil, readtest.ErrInjected
			}))
			if closed := w.Close(); err == nil && closed == nil {
				t.Error("a source that fails is no error")
			}
		},
	} {
		w, err := x.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if !x.One {
			if err := w.Add(x.plain("a")); err != nil {
				t.Fatal(err)
			}
		}
		end(w)
		b, err := os.ReadFile(name)
		if names := list(); err != nil || !bytes.Equal(b, old) || len(names) != 1 {
			t.Errorf("after %s: %q, with %q in it, %v", what, names, b, err)
		}
	}
	w, err := x.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Add(x.plain("a")), w.Close()); err != nil {
		t.Fatal(err)
	}
	if names := list(); len(names) != 1 {
		t.Errorf("%q", names)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	x.equal(t, b, []*tensor.Tensor{x.plain("a")})
}
