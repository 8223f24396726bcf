package primitiv

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// An encoder writes the items of a file. Headers gather in head until the payload after
// them goes out.
type encoder struct {
	out  io.Writer
	head []byte
	err  error // of writing: the first, after which nothing goes out
}

// fail notes an error, if it is one.
func (e *encoder) fail(err error) { e.err = cmp.Or(e.err, err) }

// begin writes what all files begin with.
func (e *encoder) begin(k Kind) {
	e.uint32(0)
	e.uint32(1)
	e.uint32(k.dataType())
}

// number writes an item of the family with that number, or the header of one.
func (e *encoder) number(f family, n int64) { e.head = f.append(e.head, uint32(n)) }

func (e *encoder) uint32(v uint32) { e.number(familyUint, int64(v)) }

func (e *encoder) str(s string) {
	e.number(familyStr, int64(len(s)))
	e.head = append(e.head, s...)
}

// flush lets the headers go out.
func (e *encoder) flush() {
	if e.err != nil {
		return
	}
	_, err := e.out.Write(e.head)
	e.head = e.head[:0]
	e.fail(err)
}

func (e *encoder) settings(o *Optimizer) {
	e.number(familyMap, int64(len(o.Uints)))
	for _, s := range o.Uints {
		e.str(s.Name)
		e.uint32(s.Value)
	}
	e.number(familyMap, int64(len(o.Floats)))
	for _, s := range o.Floats {
		e.str(s.Name)
		e.number(familyFloat, int64(math.Float32bits(s.Value)))
	}
}

func (e *encoder) shapeOf(s Shape) {
	dims := s.stripped()
	e.number(familyArray, int64(len(dims)))
	for _, d := range dims {
		e.uint32(d)
	}
	e.uint32(max(s.Batch, 1))
}

// tensorOf writes the tensor of that name, and lets it and the headers before it go out.
func (e *encoder) tensorOf(name string, t *tensor.Tensor, batch uint32) {
	s, err := shapeOf(t.Shape, batch)
	if err == nil && !columnMajor(t) {
		t, err = tensor.Reordered(t, tensor.ColumnMajor(len(t.Shape)))
	}
	if e.fail(err); e.err != nil {
		return
	}
	size := t.Data.Size()
	e.shapeOf(s)
	e.number(familyBin, size)
	if e.flush(); e.err != nil {
		return
	}
	if _, err = format.CopyBlob(e.out, t.Data, size); err != nil {
		e.fail(fmt.Errorf("%s: tensor %s: %w", formatName, naming.Quote(name), err))
	}
}

// finish writes everything that was not written yet.
func (w *Writer) finish() {
	if err := w.kept.Check(); err != nil {
		w.fail(fmt.Errorf("%s: %w", formatName, err))
	}
	w.fail(w.resolve())
	if w.err != nil {
		return
	}
	if w.opts.Count == 0 {
		w.begin(w.opts.Kind)
	}
	switch k := w.opts.Kind; {
	case w.opts.Count > 0:
		w.endStream()
	case k == KindModel:
		w.model()
	case k == KindShape && w.shape != nil:
		w.shapeOf(*w.shape)
	case k == KindTensor && w.tensor != nil:
		w.tensorOf(w.tensor.Name, w.tensor, w.opts.Batch)
	case k == KindOptimizer && w.optimizer != nil:
		w.settings(w.optimizer)
	case k == KindParameter && len(w.params) == 1:
		w.parameter(w.params[0])
	case k == KindParameter && len(w.params) > 1:
		w.fail(fmt.Errorf("%s: a parameter file has one parameter, not %d: %w",
			formatName, len(w.params), tensor.ErrDuplicate))
	default:
		w.fail(fmt.Errorf("%s: there is no %v to write: %w", formatName, k, tensor.ErrNoTensor))
	}
	w.flush()
	if w.err == nil && w.buf != nil {
		w.fail(w.buf.Flush())
	}
}

// model writes all parameters in the order of their paths.
func (w *Writer) model() {
	m, paths := slices.Clone(w.params), make([][]string, len(w.params))
	var size int64
	for i, p := range w.params {
		paths[i] = p.Path
		size += p.Value.Data.Size()
		for _, s := range p.Stats {
			size += s.Tensor.Data.Size()
		}
	}
	if w.fail(countable(paths)); w.err != nil {
		return
	}
	slices.SortFunc(m, func(a, b *Parameter) int { return comparePath(a.Path, b.Path) })
	if w.file != nil {
		w.file.Reserve(size)
	}
	w.uint32(uint32(len(m)))
	for _, p := range m {
		w.parameter(p)
	}
}

// countable reports what keeps parameters of these paths, which it sorts, out of one
// model.
func countable(paths [][]string) error {
	if int64(len(paths)) > math.MaxUint32 {
		return fmt.Errorf("%s: %w: %d parameters", formatName, tensor.ErrLimit, len(paths))
	}
	slices.SortFunc(paths, comparePath)
	for i := 1; i < len(paths); i++ { // the paths below one follow it directly
		if err := clash(paths[i-1], paths[i]); err != nil {
			return err
		}
	}
	return nil
}

// endStream checks what was streamed.
func (w *Writer) endStream() {
	if n := len(w.paths); uint32(n) < w.opts.Count {
		w.fail(fmt.Errorf("%s: %d parameters where %d were announced: %w",
			formatName, n, w.opts.Count, fs.ErrInvalid))
	}
	w.fail(countable(w.paths))
}

// parameter writes a parameter, in a model with its path.
func (w *Writer) parameter(p *Parameter) {
	if w.opts.Kind == KindModel {
		w.number(familyArray, int64(len(p.Path)))
		for _, name := range p.Path {
			w.str(name)
		}
	}
	w.tensorOf(p.Name(), p.Value, 1)
	if w.opts.NoStats {
		w.uint32(0)
		return
	}
	w.uint32(uint32(len(p.Stats)))
	for _, s := range p.Stats {
		w.str(s.Name)
		w.tensorOf(p.Name()+":"+s.Name, s.Tensor, s.Batch)
	}
}
