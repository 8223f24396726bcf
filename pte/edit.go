package pte

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Edit is a list of changes to a program, with the methods of every Edit. Names are
// the names in [Reader.Tensors], and all changes apply at once; all tensors of a name
// change together. From a .bpte it makes a .bpte again. Without any change it writes the
// same bytes.
//
// [Edit.Replace] and an alignment that the segments already have leave the flatbuffer as
// it is, and what this package does not know in it. The other changes take the flatbuffer
// apart and write it again, with a header of ExecuTorch 1.0: nothing that the schema
// knows is lost, and a program with content of a newer schema is refused with
// errors.ErrUnsupported. The name of an external tensor is its key in the .ptd, which has
// to be renamed too.
//
// The Reader must stay open until the file is written.
type Edit struct {
	format.Edit
	// AllowShared lets Replace change bytes that other tensors or payloads use too.
	AllowShared bool

	r            *Reader
	unwrap       bool // without the bundle
	modernize    bool
	valuesByName map[string][]valueID // of the original, once it is asked for
	replaced     []string             // in the order of the calls
	keys         map[valueID]string   // of what Externalize took
	users        *format.Ranges       // what has bytes in a range of the file; nil before it is needed
	userNames    []string             // tensors and blobs
	internalized format.Checksums     // of what becomes internal
	patched      *format.PatchedFile  // the file with what is replaced, while it is written
	blobs        map[string]*string   // new keys by old ones, nil for those that are removed
	getters      map[string]*fb.Node  // methods by name; nil for those that are removed
	getterOrder  []string             // in which getters were set
	draft        *draft               // once the flatbuffer is taken apart
}

// NewEdit begins a list of changes to the program of r.
func NewEdit(r *Reader) *Edit {
	return &Edit{Edit: format.NewEdit(errs, &r.Base, checkStored), r: r,
		keys:  make(map[valueID]string),
		blobs: make(map[string]*string), getters: make(map[string]*fb.Node)}
}

// takeApart takes the flatbuffer apart.
func (e *Edit) takeApart() (err error) {
	if e.draft == nil {
		e.draft, err = newDraft(e)
	}
	return err
}

// Replace stores the bytes of t in place of the bytes of constants or of the initial
// value of state. t must have their type, shape and order, stay readable until Write, and
// its memory unchanged: tensor.ErrChecksum. The rest of the file keeps its bytes. It
// fails with errors.ErrUnsupported if the tensor has no bytes in the program, and if
// tensors of another name use the same bytes, unless AllowShared is set. Among two
// replacements of the same bytes the later one counts.
func (e *Edit) Replace(name string, t *tensor.Tensor) error {
	all, err := e.valuesNamed(name)
	if err != nil {
		return err
	}
	if err := t.Check(); err != nil {
		return errs.Wrap(-1, "", err)
	}
	for _, p := range all {
		if err := e.checkReplacement(e.r.value(p).entry(), t); err != nil {
			return err
		}
	}
	err = e.Edit.Replace(name, t)
	if err == nil {
		e.replaced = append(e.replaced, name)
	}
	return err
}

// checkReplacement reports why t cannot stand for x.
func (e *Edit) checkReplacement(x *Entry, t *tensor.Tensor) error {
	refuse := func(text string, args ...any) error {
		return errs.Tensor(x.Name, errors.ErrUnsupported, text, args...)
	}
	if x.Buffer == 0 {
		return refuse("it has no bytes in the program")
	}
	if bad, ok := x.Data.Source().(*missing); ok {
		return bad.err
	}
	if t.DType != x.DType || !t.Shape.Equal(x.Shape) || !t.Order.Equal(x.Order) {
		return refuse("it is %v of %v, order %v; not %v of %v, order %v", x.Shape, x.DType,
			[]int(x.Order), t.Shape, t.DType, []int(t.Order))
	}
	s, _ := x.Data.Stored()
	if e.AllowShared || s.Size == 0 {
		return nil
	}
	if others := e.others(x.Name, s.Offset, s.Size); len(others) > 0 {
		return refuse("it shares its bytes with %s", strings.Join(others, ", "))
	}
	return nil
}

// replacements returns what replaces ranges of the file.
func (e *Edit) replacements() (map[extent]format.Section, error) {
	all := make(map[extent]format.Section)
	for _, name := range e.replaced {
		c, err := format.ChangeOf(&e.Edit, format.Index(&e.r.Base, name), name)
		if err != nil {
			return nil, err
		}
		places, _ := e.valuesNamed(name)
		for _, p := range places {
			s, ok := e.r.value(p).entry().Data.Stored()
			if ok && s.Size > 0 {
				all[extent{s.Offset, s.Size}] = format.Section{Name: name, Off: s.Offset,
					Size: s.Size, Data: c.Tensor.Data}
			}
		}
	}
	return all, nil
}

// Modernize makes the program one that today's runtime loads: constants inside the
// flatbuffer, as ExecuTorch wrote them until 0.3, move into a segment, and an older
// extended header becomes the header of ExecuTorch 1.0.
func (e *Edit) Modernize() error {
	e.modernize = true
	if e.r.constants.len() > 0 {
		return nil
	}
	if err := e.takeApart(); err != nil {
		return err
	}
	e.draft.listsChanged = true
	return nil
}

// Unwrap leaves out the test cases of a .bpte: the program is written alone.
func (e *Edit) Unwrap() { e.unwrap = true }

// Write writes the program, and for a .bpte its test cases around it. It never seeks.
// opts.SegmentAlignment aligns the file offsets of all segments, and opts.Alignment the
// constants that change their place; zero keeps the alignment of the file.
func (e *Edit) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	return format.Encode(ctx, w, opts.encoding(e.output))
}

// WriteFile writes as Write does, into a file, which appears whole or not at all. It may
// be the file that is being read: the Reader goes on with the old one.
func (e *Edit) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	return format.EncodeFile(ctx, name, opts.encoding(e.output))
}

func (e *Edit) output(opts WriterOptions) (*output, error) {
	rebuilds := len(e.blobs) > 0
	for _, p := range e.r.tensors {
		c, err := e.change(p)
		if err != nil {
			return nil, err
		}
		rebuilds = rebuilds || c.Renamed
	}
	if n := opts.SegmentAlignment; n > 0 {
		for _, s := range e.r.segments { // offsets are in the flatbuffer
			rebuilds = rebuilds ||
				s.size > 0 && !align.Is(s.off-e.r.at-e.r.header.SegmentBase, n)
		}
	}
	data, err := e.replacements()
	if err == nil {
		err = errs.Wrap(-1, "", e.internalized.Check())
	}
	if err == nil && rebuilds {
		err = e.takeApart()
	}
	if err != nil {
		return nil, err
	}
	e.patched, err = format.NewPatchedFile(e.r.blob, slices.Collect(maps.Values(data)))
	if err != nil {
		return nil, errs.New(errors.ErrUnsupported, "%w", err)
	}
	var o *output
	switch {
	case e.draft != nil:
		o, err = e.rebuilt(opts)
	case e.r.bundle != nil && !e.unwrap && opts.SegmentAlignment == 0 && !e.upgrades():
		// The whole file, with what is replaced.
		return &output{sections: e.patched.Sections(0, e.r.in.Size(), 0), size: e.r.in.Size()}, nil
	default:
		o, err = e.unchanged(opts.SegmentAlignment)
	}
	if err != nil || e.r.bundle == nil || e.unwrap {
		return o, err
	}
	var b strings.Builder
	if err := format.WriteTo(context.Background(), &b, o.writeTo); err != nil {
		return nil, errs.Wrap(-1, "", err)
	}
	return e.r.bundle.wrap([]byte(b.String()))
}

// change returns what becomes of the tensor at a place, which has the name that the first
// tensor of the name gets.
func (e *Edit) change(p valueID) (format.Change, error) {
	name := e.r.value(p).name()
	return format.ChangeOf(&e.Edit, format.Index(&e.r.Base, name), name)
}

// upgrades reports whether the header becomes a newer one.
func (e *Edit) upgrades() bool {
	n := e.r.header.Length
	return e.modernize && n > 0 && n < headerLength
}

// unchanged keeps the flatbuffer as it is, but for its header.
func (e *Edit) unchanged(alignment int64) (*output, error) {
	r, h := e.r, e.r.header
	o := &output{size: r.end - r.at}
	base := h.SegmentBase
	if base == 0 {
		base = h.ProgramSize // no segments: what follows is trailing
	}
	moved, end := base, base // a base that stays keeps the padding before it
	if alignment > 0 && h.SegmentBase > 0 && !align.Is(base, alignment) {
		// The file keeps all that it had.
		a, ok := executorch.LCM(alignment, powerOfTwo(base, maxSeenAlignment))
		if ok {
			moved, ok = align.Up(h.ProgramSize, a)
		}
		if end = h.ProgramSize; !ok {
			return nil, errs.New(errors.ErrUnsupported, "alignment %d", alignment)
		}
	}
	if moved == base && !e.upgrades() {
		o.sections = e.patched.Sections(r.at, o.size, 0)
		return o, nil
	}
	if e.upgrades() {
		h.Length, h.SegmentDataSize = headerLength, r.dataEnd()-r.at-base
		if root := int64(r.root.Table().Pos); root < 8+headerLength {
			return nil, errs.Malformed(r.at, "root",
				"a header of %d bytes does not fit before the table at %d", headerLength, root)
		}
	}
	n := 8 + h.Length
	o.head = slices.Clone(r.buf[:n])
	if h.SegmentBase == 0 {
		h.SegmentDataSize = 0
	} else {
		h.SegmentBase = moved
	}
	h.put(o.head)
	o.sections = append(e.patched.Sections(r.at+n, end-n, n),
		e.patched.Sections(r.at+base, o.size-base, moved)...)
	o.size += moved - base
	return o, nil
}

// others returns what else has bytes in a range of the file, at most ten names.
func (e *Edit) others(name string, off, size int64) (others []string) {
	if e.users == nil {
		e.users = new(format.Ranges)
		add := func(name string, b tensor.Blob) {
			if s, ok := b.Stored(); ok && s.Offset >= 0 {
				e.users.Add(s.Offset, s.Size, len(e.userNames))
				e.userNames = append(e.userNames, name)
			}
		}
		for x := range e.r.Entries() {
			add(x.Name, x.Data)
		}
		for name, b := range e.r.Blobs() {
			add(name, b)
		}
		e.users.Sort()
	}
	for _, i := range e.users.Overlapping(off, size) {
		if e.userNames[i] != name && len(others) < 10 {
			others = append(others, naming.Quote(e.userNames[i]))
		}
	}
	return others
}

// checkStored reports why the data of t cannot be stored in a program.
func checkStored(t *tensor.Tensor) error {
	if !t.Dense() || t.External || len(t.Parts) > 0 || t.Data.Size() < 0 {
		return errs.Tensor(t.Name, errors.ErrUnsupported,
			"only dense tensors with data of known size can be stored")
	}
	return nil
}
