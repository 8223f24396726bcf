package pte

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Edit is a changed program on its way into another file; of a .bpte it is a .bpte
// again. Without any change it writes the same bytes. Names are those of [Reader.Tensors]
// of the original, and all changes apply at once: two tensors can swap their names.
//
// [Edit.Replace] and an alignment that the segments already have leave the flatbuffer as
// it is, and what this package does not know in it. The other changes take the flatbuffer
// apart and write it again, with a header of ExecuTorch 1.0: nothing that the schema
// knows is lost, and a program with content of a newer schema is refused with
// errors.ErrUnsupported.
//
// The Reader must stay open until the file is written. An Edit is for one goroutine at a
// time. After an error its state is not defined.
type Edit struct {
	// AllowShared lets Replace change bytes that other tensors or payloads use too.
	AllowShared bool

	r         *Reader
	unwrap    bool // without the bundle
	modern    bool
	names     map[string][]place // of the original, once it is asked for
	renamed   map[place]string
	keys      map[place]string            // of what Externalize took
	users     *format.Users               // of ranges of the file, once it is asked for
	userNames []string                    // tensors and blobs
	data      map[extent]format.Section   // what replaces ranges of the file
	kept      map[extent]format.Checksums // of data
	moved     format.Checksums            // of what becomes internal
	over      *format.PatchedFile         // the file with data, while it is written
	blobs     map[string]*string          // new keys by old ones, nil for those that are removed
	getters   map[string]*fb.Node         // methods by name; nil for those that are removed
	order     []string                    // in which getters were set
	draft     *draft                      // once the flatbuffer is taken apart
}

// NewEdit begins to change the program of r.
func NewEdit(r *Reader) *Edit {
	return &Edit{r: r, renamed: make(map[place]string), keys: make(map[place]string),
		data: make(map[extent]format.Section), kept: make(map[extent]format.Checksums),
		blobs: make(map[string]*string), getters: make(map[string]*fb.Node)}
}

// open takes the flatbuffer apart.
func (e *Edit) open() (err error) {
	if e.draft == nil {
		e.draft, err = newDraft(e)
	}
	return err
}

// Replace replaces the bytes of a constant or of the initial value of state. t must have
// its type, shape and order, stay readable until Write, and its memory unchanged:
// tensor.ErrChecksum. The rest of the file keeps its bytes. It fails with a *SharedError
// if tensors of another name use the same bytes, unless AllowShared is set, and with
// errors.ErrUnsupported if the tensor has no bytes in the program.
func (e *Edit) Replace(name string, t *tensor.Tensor) error {
	all, err := e.places(name)
	if err != nil {
		return err
	}
	for _, p := range all {
		if err := e.replace(p, name, t); err != nil {
			return err
		}
	}
	return nil
}

// ReplaceValue is Replace for a value of a method by its index.
func (e *Edit) ReplaceValue(method string, value int, t *tensor.Tensor) error {
	m, ok := e.r.Program().Method(method)
	if !ok {
		return fmt.Errorf("pte: %w: no method %s", tensor.ErrNoTensor, naming.Quote(method))
	}
	if _, ok := m.Value(value).Tensor(); !ok {
		return fmt.Errorf("pte: %w: value %d of %s", tensor.ErrNoTensor, value,
			naming.Quote(method))
	}
	p := place{int32(m.index), int32(value)}
	return e.replace(p, e.r.value(p).name(), t)
}

// Modernize writes what the runtime loads today: constants inside the flatbuffer, as
// ExecuTorch wrote them until 0.3, move into a segment, and an older extended header
// becomes that of ExecuTorch 1.0.
func (e *Edit) Modernize() error {
	e.modern = true
	if e.r.constants.len() > 0 {
		return nil
	}
	if err := e.open(); err != nil {
		return err
	}
	e.draft.lists = true
	return nil
}

// Unwrap leaves out the test cases of a .bpte: the program is written alone.
func (e *Edit) Unwrap() { e.unwrap = true }

// Write writes the program, and of a .bpte its test cases around it. It never seeks. Of
// opts SegmentAlignment aligns the file offsets of all segments, and Alignment
// constants that change their place; zero keeps what the file has.
func (e *Edit) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	o, err := e.output(ctx, opts)
	if err != nil {
		return err
	}
	return o.writeTo(ctx, w)
}

// WriteFile is Write into a file, which appears whole or not at all. It may be the file
// that is being read: the Reader goes on with the old one.
func (e *Edit) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	return atomicfile.Write(name, func(w io.Writer) error { return e.Write(ctx, w, opts) })
}

func (e *Edit) output(ctx context.Context, opts *WriterOptions) (*output, error) {
	if opts == nil {
		opts = new(WriterOptions)
	}
	if _, _, err := opts.alignments(); err != nil {
		return nil, err
	}
	if n := opts.SegmentAlignment; n > 0 {
		for _, s := range e.r.segments {
			if s.size > 0 && !align.Is(s.off-e.r.at-e.r.header.SegmentBase, n) {
				if err := e.open(); err != nil { // offsets are in the flatbuffer
					return nil, err
				}
			}
		}
	}
	var o *output
	err := e.checkMemory()
	if err != nil {
		return nil, err
	}
	e.over, err = format.NewPatchedFile(e.r.blob, slices.Collect(maps.Values(e.data)))
	if err != nil {
		return nil, fmt.Errorf("pte: %w: %w", errors.ErrUnsupported, err)
	}
	switch {
	case e.draft != nil:
		o, err = e.rebuilt(opts)
	case e.r.bundle != nil && !e.unwrap && opts.SegmentAlignment == 0 && !e.upgrades():
		// The whole file, with what is replaced.
		return &output{pieces: e.over.Section(0, e.r.in.Size(), 0), size: e.r.in.Size()}, nil
	default:
		o, err = e.unchanged(opts.SegmentAlignment)
	}
	if err != nil || e.r.bundle == nil || e.unwrap {
		return o, err
	}
	return e.wrapped(ctx, o)
}

// checkMemory reports memory of the caller that has changed since it was handed over.
func (e *Edit) checkMemory() error {
	err := e.moved.Check()
	for _, at := range slices.SortedFunc(maps.Keys(e.kept), func(a, b extent) int {
		return cmp.Compare(a.off, b.off)
	}) {
		if k := e.kept[at]; err == nil {
			err = k.Check()
		}
	}
	if err != nil {
		return fmt.Errorf("pte: %w", err)
	}
	return nil
}

// wrapped puts the test cases around a program.
func (e *Edit) wrapped(ctx context.Context, o *output) (*output, error) {
	var b strings.Builder
	if err := o.writeTo(ctx, &b); err != nil {
		return nil, err
	}
	head, err := e.r.bundle.encode([]byte(b.String()))
	return &output{head: head, size: int64(len(head))}, err
}

// upgrades reports whether the header becomes a newer one.
func (e *Edit) upgrades() bool {
	n := e.r.header.Length
	return e.modern && n > 0 && n < headerLength
}

// unchanged keeps the flatbuffer as it is, but for its header.
func (e *Edit) unchanged(alignment int64) (*output, error) {
	r, h := e.r, e.r.header
	o := &output{size: r.size - r.at}
	base := h.SegmentBase
	if base == 0 {
		base = h.ProgramSize // no segments: what follows is trailing
	}
	moved, end := base, base // a base that stays keeps the padding before it
	if alignment > 0 && h.SegmentBase > 0 && !align.Is(base, alignment) {
		// What the file had, it keeps.
		a, ok := executorch.LCM(alignment, powerOfTwo(base, maxSeenAlignment))
		if ok {
			moved, ok = align.Up(h.ProgramSize, a)
		}
		if end = h.ProgramSize; !ok {
			return nil, fmt.Errorf("pte: alignment %d", alignment)
		}
	}
	if moved == base && !e.upgrades() {
		o.pieces = e.over.Section(r.at, o.size, 0)
		return o, nil
	}
	if e.upgrades() {
		h.Length, h.SegmentDataSize = headerLength, r.dataEnd()-r.at-base
		if root := int64(r.root.Table().Pos); root < 8+headerLength {
			return nil, malformed(r.at, "root",
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
	o.pieces = append(e.over.Section(r.at+n, end-n, n),
		e.over.Section(r.at+base, o.size-base, moved)...)
	o.size += moved - base
	return o, nil
}

// A SharedError names what else would change with a tensor that is replaced.
type SharedError struct {
	Name   string   // of the tensor
	Others []string // tensors and payloads, as Reader.Tensors and Reader.Blobs name them
}

func (e *SharedError) Error() string {
	others := convert(e.Others[:min(len(e.Others), 8)], naming.Quote)
	text := fmt.Sprintf("pte: the bytes of %s are also those of %s", naming.Quote(e.Name),
		strings.Join(others, ", "))
	if n := len(e.Others) - len(others); n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// others returns what else has bytes in a range of the file.
func (e *Edit) others(name string, off, size int64) (others []string) {
	if e.users == nil {
		e.users = new(format.Users)
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
	for _, i := range e.users.Of(off, size) {
		if e.userNames[i] != name {
			others = append(others, e.userNames[i])
		}
	}
	return others
}

// checkStored reports why the data of t cannot be stored in a program.
func checkStored(t *tensor.Tensor) error {
	if err := t.Check(); err != nil {
		return err
	}
	if !t.Dense() || t.External || len(t.Parts) > 0 || t.Data.Size() < 0 {
		return fmt.Errorf("%w: only dense tensors with data of known size can be stored",
			errors.ErrUnsupported)
	}
	return nil
}

// replace replaces the bytes of the tensor at a place.
func (e *Edit) replace(p place, name string, t *tensor.Tensor) error {
	x := e.r.value(p).entry()
	if x.Buffer == 0 {
		return fmt.Errorf("pte: %w: %s has no bytes in the program", errors.ErrUnsupported,
			naming.Quote(name))
	}
	if bad, ok := x.Data.Source().(*missing); ok {
		return bad.err
	}
	if err := checkStored(t); err != nil {
		return fmt.Errorf("pte: replacing %s: %w", naming.Quote(name), err)
	}
	if t.DType != x.DType || !t.Shape.Equal(x.Shape) || !t.Order.Equal(x.Order) {
		return fmt.Errorf("pte: %w: %s is %v of %v, order %v; not %v of %v, order %v",
			tensor.ErrDType, naming.Quote(name),
			x.Shape, x.DType, []int(x.Order), t.Shape, t.DType, []int(t.Order))
	}
	s, ok := x.Data.Stored()
	if !ok || s.Size == 0 {
		return nil // no bytes, no change
	}
	if !e.AllowShared {
		if others := e.others(name, s.Offset, s.Size); len(others) > 0 {
			return &SharedError{name, others}
		}
	}
	// Of two for the same bytes the later one counts.
	at := extent{s.Offset, s.Size}
	e.data[at] = format.Section{Name: name, Off: s.Offset, Size: s.Size, Data: t.Data}
	e.kept[at] = format.ChecksumsOf(name, t)
	return nil
}
