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
// the names in [Reader.Tensors]; all tensors of a name change together. All changes apply
// at once, when the program is written. A .bpte stays a .bpte, unless Unwrap is called.
// Without changes the file keeps its bytes.
//
// [Edit.Replace], [Edit.Unwrap] and an alignment that the segments already have do not
// change the flatbuffer. Other changes parse the flatbuffer and write it anew, with the
// header of ExecuTorch 1.0. They keep everything that the schema describes, and fail with
// errors.ErrUnsupported if the program has content of a newer schema. The name of an
// external tensor is its key in the .ptd: rename it there too.
//
// The Reader must stay open until the file is written.
type Edit struct {
	format.Edit
	// AllowShared lets Replace change bytes that other tensors or payloads use too.
	AllowShared bool

	r            *Reader
	unwrap       bool // write the program without its test cases
	modernize    bool
	valuesByName map[string][]valueID // of the original; nil until it is needed
	replaced     []string             // names, in the order of the calls
	keys         map[valueID]string   // that Externalize gave
	users        *format.Ranges       // of tensors and blobs in the file; nil until needed
	userNames    []string             // names of tensors and blobs, by the index in users
	internalized format.Checksums     // of the tensors that Internalize stores
	patched      *format.PatchedFile  // the file with replaced bytes, during Write
	blobs        map[string]*string   // new keys by old keys, nil for a removed blob
	getters      map[string]*fb.Node  // new methods by name, nil for a removed method
	getterOrder  []string             // names, in the order in which they were set
	draft        *draft               // nil until takeApart
}

// NewEdit begins a list of changes to the program of r.
func NewEdit(r *Reader) *Edit {
	return &Edit{Edit: format.NewEdit(errs, &r.Base, checkStored), r: r,
		keys:  make(map[valueID]string),
		blobs: make(map[string]*string), getters: make(map[string]*fb.Node)}
}

// takeApart parses the flatbuffer into the draft, once.
func (e *Edit) takeApart() (err error) {
	if e.draft == nil {
		e.draft, err = newDraft(e)
	}
	return err
}

// Replace stores the bytes of t in place of the bytes of a constant or of the initial
// value of state. The rest of the file keeps its bytes. If the same bytes are replaced
// twice, the later call counts.
//
// Replace fails with tensor.ErrNoTensor if there is no such tensor, and with
// errors.ErrUnsupported if t differs in dtype, shape or order, if the tensor has no bytes
// in the program, or if tensors or blobs of other names use the same bytes, unless
// AllowShared is set. t must stay readable and unchanged until Write, which fails with
// tensor.ErrChecksum if its memory has changed.
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

// checkReplacement returns the reason why t cannot replace x.
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

// replacements returns the new bytes of each range of the file that Replace changes.
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

// Modernize changes an old program so that today's runtime loads it: constants inside the
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

// Unwrap removes the test cases of a .bpte: Write writes a .pte.
func (e *Edit) Unwrap() { e.unwrap = true }

// Write writes the program, or for a .bpte the program and its test cases, to w, without
// seeking. opts.SegmentAlignment aligns the file offsets of all segments,
// opts.Alignment the constants that move; zero keeps the alignment of the file.
func (e *Edit) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	return format.Encode(ctx, w, opts.encoding(e.output))
}

// WriteFile writes as Write does, into a file, which appears whole or not at all. It may
// be the original file: the Reader then still reads the old content.
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
		for _, s := range e.r.segments { // a new offset changes the flatbuffer
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
		// The whole file, with replaced bytes.
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

// change returns the change of a tensor. Tensors of the same name have the same change.
func (e *Edit) change(p valueID) (format.Change, error) {
	name := e.r.value(p).name()
	return format.ChangeOf(&e.Edit, format.Index(&e.r.Base, name), name)
}

// upgrades reports whether Modernize makes the header longer.
func (e *Edit) upgrades() bool {
	n := e.r.header.Length
	return e.modernize && n > 0 && n < headerLength
}

// unchanged writes the original flatbuffer, with replaced bytes. Only its header and the
// position of the segments may change.
func (e *Edit) unchanged(alignment int64) (*output, error) {
	r, h := e.r, e.r.header
	o := &output{size: r.end - r.at}
	base := h.SegmentBase
	if base == 0 {
		base = h.ProgramSize // no segments: bytes that follow belong to nothing
	}
	moved, end := base, base // the new base, and the end of the bytes that come before it
	if alignment > 0 && h.SegmentBase > 0 && !align.Is(base, alignment) {
		// The new base keeps the alignment that the old one has.
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

// others returns at most ten names of other tensors and blobs that have bytes in a range
// of the file.
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

// checkStored returns the reason why the data of t cannot be stored in a program.
func checkStored(t *tensor.Tensor) error {
	if !t.Dense() || t.External || len(t.Parts) > 0 || t.Data.Size() < 0 {
		return errs.Tensor(t.Name, errors.ErrUnsupported,
			"only dense tensors with data of known size can be stored")
	}
	return nil
}
