package primitiv

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// WriterOptions control what a Writer writes. nil is the zero value: a model, with the bytes that the reference would
// write.
type WriterOptions struct {
	// Kind of the file; zero is KindModel.
	Kind Kind
	// Batch, above 1, says that the last dimension of the tensor of a tensor file is the batch. Tensors that come from
	// a Reader of this package, and statistics given as a Parameter, know theirs.
	Batch uint32
	// Reorder makes column-major copies of tensors in another order, one at a time. Without it they are refused.
	Reorder bool
	// NoStats leaves statistics out.
	NoStats bool

	// Streaming writes each parameter of a model as soon as it is complete, in the order in which they come, instead
	// of all of them, sorted, when the file is closed. Readers do not mind the order. Their number must be given as
	// Count, or is filled in at the end by a Writer from Create.
	Streaming bool
	Count     uint32

	// Align puts the data of every tensor on a multiple of this many bytes, a power of two up to 64, by headers that are
	// longer than need be, so that views of a mapped file need no copy. primitiv loads such files; they are not the
	// bytes that it would write. Where headers cannot be made long enough (tensors of many dimensions, Align above
	// 16), it is the largest power of two for which they can.
	Align int
}

// A Writer writes a file. It is for one goroutine.
type Writer struct {
	encoder
	opts WriterOptions
	file *atomicfile.File // of Create
	buf  *bufio.Writer    // of NewWriter

	err   error // of writing: the first, and then of everything
	ended bool

	shape     *Shape
	tensor    *tensor.Tensor
	optimizer *Optimizer
	pending   []pending
	params    []*Parameter // as given; while streaming, the one that may get more statistics
	keys      []string     // while streaming, of the paths of what was written
}

// pending is a tensor, and where it goes as far as is known from the tensor alone.
type pending struct {
	t      *tensor.Tensor
	path   []string
	exact  bool // path, isStat and stat are where it came from; else path is all of its name
	isStat bool
	stat   string
	batch  uint32
}

func place(t *tensor.Tensor) pending {
	p := pending{t: t, batch: 1}
	if t == nil {
		return p
	}
	if o, ok := OriginOf(t); ok {
		if n := len(t.Shape); n > 0 && t.Shape[n-1] == int64(o.Batch) {
			p.batch = o.Batch
		}
		name := strings.Join(o.Path, ".")
		if o.IsStatistic {
			name += ":" + o.Statistic
		}
		if p.exact = len(o.Path) > 0 && name == t.Name; p.exact {
			p.path, p.isStat, p.stat = o.Path, o.IsStatistic, o.Statistic
			return p
		}
	}
	p.path = strings.Split(t.Name, ".")
	return p
}

// NewWriter returns a Writer that writes to w, which it neither seeks nor closes.
func NewWriter(w io.Writer, opts *WriterOptions) *Writer {
	buf := bufio.NewWriterSize(w, 64<<10)
	return newWriter(&Writer{encoder: encoder{out: buf}, buf: buf}, opts)
}

// Create returns a Writer of the file called name, which appears whole when it is closed, or not at all.
func Create(name string, opts *WriterOptions) (*Writer, error) {
	f, err := atomicfile.Create(name)
	if err != nil {
		return nil, err
	}
	w := newWriter(&Writer{encoder: encoder{out: f}, file: f}, opts)
	if w.err != nil {
		f.Abort()
		return nil, w.err
	}
	return w, nil
}

func newWriter(w *Writer, opts *WriterOptions) *Writer {
	if opts != nil {
		w.opts = *opts
	}
	o := &w.opts
	if o.Kind == 0 {
		o.Kind = KindModel
	}
	w.align = o.Align
	switch {
	case !o.Kind.valid():
		w.err = fmt.Errorf("%s: there is no %v: %w", format, o.Kind, fs.ErrInvalid)
	case o.Align != 0 && (o.Align < 0 || o.Align > 64 || o.Align&(o.Align-1) != 0):
		w.err = fmt.Errorf("%s: Align is a power of two up to 64, not %d: %w", format, o.Align, fs.ErrInvalid)
	case o.Streaming && o.Kind != KindModel:
		w.err = fmt.Errorf("%s: only models are streamed, not a %v: %w", format, o.Kind, fs.ErrInvalid)
	case o.Streaming && o.Count == 0 && w.file == nil:
		w.err = fmt.Errorf("%s: Streaming to an io.Writer needs Count, which stands before the parameters: %w", format, fs.ErrInvalid)
	case !o.Streaming && o.Count != 0:
		w.err = fmt.Errorf("%s: Count is for Streaming: %w", format, fs.ErrInvalid)
	case o.Batch > 1 && o.Kind != KindTensor:
		w.err = fmt.Errorf("%s: Batch is for a tensor, not a %v: %w", format, o.Kind, fs.ErrInvalid)
	}
	if w.err == nil && o.Streaming {
		w.begin(KindModel)
		w.uint32(o.Count)
	}
	return w
}

// usable returns the error that every further call answers.
func (w *Writer) usable() error {
	if w.err == nil && w.ended {
		return fs.ErrClosed
	}
	return w.err
}

func (w *Writer) wrongKind(what string) error {
	return fmt.Errorf("%s: %s does not belong into a file of kind %v: %w", format, what, w.opts.Kind, fs.ErrInvalid)
}

// Add adds a tensor: that of a tensor file, or a value or statistic of a parameter. It must be dense, of float32, and
// column-major (see Reorder). A tensor of a Reader of this package goes to where it came from, as long as its name was
// not changed, and, for a statistic, its value is added too. Any other gets the path that its name makes when it is cut at
// dots, but one called PATH:STATISTIC, where PATH is a value that is added too, is a statistic of that; while streaming,
// of the value just before.
//
// The tensor may be kept until Close. An error leaves the Writer as it was.
func (w *Writer) Add(t *tensor.Tensor) error {
	if err := w.usable(); err != nil {
		return err
	}
	switch w.opts.Kind {
	case KindShape, KindOptimizer:
		return w.wrongKind("a tensor")
	}
	p := place(t)
	if w.opts.Kind == KindTensor {
		batch := w.opts.Batch
		if batch == 0 {
			batch = p.batch
		}
		if w.tensor != nil {
			return fmt.Errorf("%s: a tensor file has one tensor: %w", format, tensor.ErrDuplicate)
		}
		if _, err := w.opts.accepts(t, batch); err != nil {
			return err
		}
		w.tensor, w.opts.Batch = t, batch
		return nil
	}
	if !w.opts.Streaming {
		if _, err := w.opts.accepts(t, p.batch); err != nil {
			return err
		}
		w.pending = append(w.pending, p)
		return nil
	}
	if len(w.params) > 0 {
		last := w.params[0]
		stat, ok := strings.CutPrefix(t.Name, last.Name()+":")
		if p.exact {
			stat, ok = p.stat, p.isStat && slices.Equal(p.path, last.Path)
		}
		if ok {
			s := Statistic{stat, t, p.batch}
			if err := s.check(&w.opts); err != nil {
				return err
			}
			if last.Stat(stat) != nil {
				return fmt.Errorf("%s: two statistics %s of %s: %w", format, tensor.Quote(stat), quotePath(last.Path), tensor.ErrDuplicate)
			}
			last.Stats = append(last.Stats, s)
			return nil
		}
	}
	if p.isStat {
		return fmt.Errorf("%s: the statistic %s does not follow its value: %w", format, tensor.Quote(t.Name), tensor.ErrNoTensor)
	}
	return w.AddParameter(&Parameter{Path: p.path, Value: t})
}

// Check reports whether Add would accept a tensor, as far as that depends on the tensor
// alone. It reads no data.
func (w *Writer) Check(t *tensor.Tensor) error {
	if err := w.usable(); err != nil {
		return err
	}
	_, err := w.opts.accepts(t, place(t).batch)
	return err
}

// AddAll adds all tensors. An error of ts, or the end of ctx, ends it.
func (w *Writer) AddAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error {
	for t, err := range ts {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if err := w.Add(t); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// AddParameter adds a parameter with its statistics, under exactly its path. It may be kept until Close. An error
// leaves the Writer as it was, unless it comes from writing.
func (w *Writer) AddParameter(p *Parameter) error {
	if err := w.usable(); err != nil {
		return err
	}
	switch {
	case w.opts.Kind != KindModel && w.opts.Kind != KindParameter:
		return w.wrongKind("a parameter")
	case w.opts.Kind == KindModel && len(p.Path) == 0:
		return fmt.Errorf("%s: a parameter without a path: %w", format, fs.ErrInvalid)
	}
	if err := p.check(&w.opts); err != nil {
		return err
	}
	if w.opts.Streaming {
		if err := w.fail(w.flushParameter()); err != nil {
			return err
		}
		if n := len(w.keys); n > 0 { // all of them are compared in Close; those in order can be now
			if err := clash(w.keys[n-1], pathKey(p.Path)); err != nil {
				return err
			}
		}
		if w.opts.Count > 0 && len(w.keys) >= int(w.opts.Count) {
			return fmt.Errorf("%s: more parameters than the %d announced: %w", format, w.opts.Count, fs.ErrInvalid)
		}
	}
	c := *p
	c.Stats = slices.Clone(p.Stats)
	w.params = append(w.params, &c)
	return nil
}

// SetShape gives the content of a shape file, which may have up to 2^32-1 elements: a shape alone is more than a tensor can have.
func (w *Writer) SetShape(s Shape) error {
	if err := w.usable(); err != nil {
		return err
	}
	if w.opts.Kind != KindShape {
		return w.wrongKind("a shape")
	}
	if err := s.below(1 << 32); err != nil {
		return err
	}
	w.shape = &s
	return nil
}

// SetOptimizer gives the content of an optimizer file. Close writes the settings in the order in which they are.
func (w *Writer) SetOptimizer(o *Optimizer) error {
	if err := w.usable(); err != nil {
		return err
	}
	if w.opts.Kind != KindOptimizer {
		return w.wrongKind("an optimizer")
	}
	if again := repeated(len(o.Uints), func(i int) string { return o.Uints[i].Name }); again != nil {
		return fmt.Errorf("%s: two settings %s: %w", format, tensor.Quote(o.Uints[again[0]].Name), tensor.ErrDuplicate)
	}
	if again := repeated(len(o.Floats), func(i int) string { return o.Floats[i].Name }); again != nil {
		return fmt.Errorf("%s: two settings %s: %w", format, tensor.Quote(o.Floats[again[0]].Name), tensor.ErrDuplicate)
	}
	w.optimizer = o
	return nil
}

// Close writes what was not written yet and completes the file. After an error a file of Create is as it was before.
func (w *Writer) Close() error {
	if w.ended {
		return w.err
	}
	w.fail(w.finish())
	w.ended = true
	if w.file != nil {
		if w.err != nil {
			w.file.Abort()
		} else {
			w.fail(w.file.Close())
		}
	}
	return w.err
}

// Abort drops the file. After Close it does nothing.
func (w *Writer) Abort() {
	if w.ended {
		return
	}
	if w.file != nil {
		w.file.Abort()
	}
	w.ended, w.err = true, cmp.Or(w.err, fs.ErrClosed)
}

// WriteFile writes the tensors to the file called name, which appears whole or not at all.
func WriteFile(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error], opts *WriterOptions) error {
	w, err := Create(name, opts)
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := w.AddAll(ctx, ts); err != nil {
		return err
	}
	return w.Close()
}

// WriteOptimizer writes the settings to the file called name, which appears whole or not at all.
func WriteOptimizer(name string, o *Optimizer) error {
	w, err := Create(name, &WriterOptions{Kind: KindOptimizer})
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := w.SetOptimizer(o); err != nil {
		return err
	}
	return w.Close()
}

// fail keeps the first error of writing, after which nothing works any more.
func (w *Writer) fail(err error) error {
	if w.err == nil && err != nil {
		w.err = err
	}
	return w.err
}

func (w *Writer) finish() error {
	err := w.err
	if err == nil {
		err = w.content()
	}
	if err == nil {
		err = w.flush()
	}
	if err == nil && w.buf != nil {
		err = w.buf.Flush()
	}
	return err
}

// content writes everything that was not written yet.
func (w *Writer) content() error {
	if err := w.resolve(); err != nil {
		return err
	}
	if !w.opts.Streaming {
		w.begin(w.opts.Kind)
	}
	switch k := w.opts.Kind; {
	case k == KindModel && w.opts.Streaming:
		return w.endStream()
	case k == KindModel:
		return w.model()
	case k == KindShape && w.shape != nil:
		w.shapeHead(*w.shape, 0, 0)
	case k == KindTensor && w.tensor != nil:
		return w.tensorOf(head{}, w.tensor, w.opts.Batch)
	case k == KindOptimizer && w.optimizer != nil:
		w.settings(w.optimizer)
	case k == KindParameter && len(w.params) == 1:
		return w.parameter(head{}, w.params[0])
	case k == KindParameter && len(w.params) > 1:
		return fmt.Errorf("%s: a parameter file has one parameter, not %d: %w", format, len(w.params), tensor.ErrDuplicate)
	default:
		return fmt.Errorf("%s: there is no %v to write: %w", format, k, tensor.ErrNoTensor)
	}
	return nil
}

// resolve makes parameters of the tensors that were added.
func (w *Writer) resolve() error {
	var stats, loose []pending
	for _, p := range w.pending {
		switch {
		case p.isStat:
			stats = append(stats, p)
		case p.exact:
			w.params = append(w.params, &Parameter{Path: p.path, Value: p.t})
		default:
			loose = append(loose, p)
		}
	}
	w.pending = nil
	byPath := map[string]*Parameter{}
	if len(stats) > 0 {
		for _, v := range slices.Backward(w.params) {
			byPath[pathKey(v.Path)] = v // of one path the first
		}
	}
	for _, p := range stats {
		if v := byPath[pathKey(p.path)]; v != nil {
			v.Stats = append(v.Stats, Statistic{p.stat, p.t, p.batch})
		} else { // its value was left behind: it is like a tensor of another format
			loose = append(loose, pending{t: p.t, path: strings.Split(p.t.Name, "."), batch: 1})
		}
	}
	if len(loose) > 0 {
		w.assign(loose)
	}
	for _, v := range w.params {
		if err := v.check(&w.opts); err != nil {
			return err
		}
	}
	return nil
}

// assign makes parameters and statistics of tensors that have only a name.
func (w *Writer) assign(loose []pending) {
	fixed := len(w.params)
	names := make([]string, 0, fixed+len(loose))
	for _, v := range w.params {
		names = append(names, strings.Join(v.Path, "."))
	}
	for _, p := range loose {
		names = append(names, p.t.Name)
	}
	owner := owners(names, fixed)
	values := append(make([]*Parameter, 0, len(names)), w.params...)
	for i, p := range loose {
		var v *Parameter
		if owner[fixed+i] < 0 {
			v = &Parameter{Path: p.path, Value: p.t}
			w.params = append(w.params, v)
		}
		values = append(values, v)
	}
	for i, p := range loose {
		if o := owner[fixed+i]; o >= 0 {
			stat := p.t.Name[len(names[o])+1:]
			values[o].Stats = append(values[o].Stats, Statistic{stat, p.t, p.batch})
		}
	}
}

// model writes all parameters in the order of their paths.
func (w *Writer) model() error {
	if int64(len(w.params)) > math.MaxUint32 {
		return fmt.Errorf("%s: %w: %d parameters", format, tensor.ErrLimit, len(w.params))
	}
	m := make(Model, len(w.params))
	var size int64
	for i, p := range w.params {
		m[i] = *p
		size += p.Value.Data.Size()
		for _, s := range p.Stats {
			size += s.Tensor.Data.Size()
		}
	}
	if err := m.checkPaths(); err != nil {
		return err
	}
	slices.SortFunc(m, func(a, b Parameter) int { return slices.Compare(a.Path, b.Path) })
	if w.file != nil {
		w.file.Reserve(size)
	}
	w.uint32(uint32(len(m)))
	for i := range m {
		if err := w.parameter(head{path: m[i].Path}, &m[i]); err != nil {
			return err
		}
	}
	return nil
}

// flushParameter writes the parameter that waits for statistics.
func (w *Writer) flushParameter() error {
	if len(w.params) == 0 {
		return nil
	}
	p := w.params[0]
	w.params = nil
	w.keys = append(w.keys, pathKey(p.Path))
	return w.parameter(head{path: p.Path}, p)
}

// endStream writes the last parameter and what was not known at the beginning.
func (w *Writer) endStream() error {
	if err := w.flushParameter(); err != nil {
		return err
	}
	n := len(w.keys)
	slices.Sort(w.keys)
	if err := disjoint(w.keys); err != nil {
		return err
	}
	switch {
	case int64(n) > math.MaxUint32:
		return fmt.Errorf("%s: %w: %d parameters", format, tensor.ErrLimit, n)
	case w.opts.Count > 0 && n != int(w.opts.Count):
		return fmt.Errorf("%s: %d parameters where %d were announced: %w", format, n, w.opts.Count, fs.ErrInvalid)
	case w.opts.Count > 0:
		return nil
	}
	if err := w.flush(); err != nil {
		return err
	}
	_, err := w.file.WriteAt(binary.BigEndian.AppendUint32(nil, uint32(n)), prefixSize+1)
	return err
}

func (w *Writer) parameter(h head, p *Parameter) error {
	if err := w.tensorOf(h, p.Value, 1); err != nil {
		return err
	}
	if w.opts.NoStats {
		w.uint32(0)
		return nil
	}
	w.uint32(uint32(len(p.Stats)))
	for _, s := range p.Stats {
		if err := w.tensorOf(head{isStat: true, stat: s.Name}, s.Tensor, s.Batch); err != nil {
			return err
		}
	}
	return nil
}

// check reports what keeps a parameter out of a file.
func (p *Parameter) check(opts *WriterOptions) error {
	if _, err := opts.accepts(p.Value, 1); err != nil {
		return err
	}
	for _, e := range p.Path {
		if int64(len(e)) > math.MaxUint32 {
			return fmt.Errorf("%s: %w: a name of %d bytes", format, tensor.ErrLimit, len(e))
		}
	}
	if opts.NoStats {
		return nil
	}
	for i := range p.Stats {
		if err := p.Stats[i].check(opts); err != nil {
			return err
		}
	}
	if again := repeated(len(p.Stats), func(i int) string { return p.Stats[i].Name }); again != nil {
		return fmt.Errorf("%s: two statistics %s of %s: %w", format, tensor.Quote(p.Stats[again[0]].Name), quotePath(p.Path), tensor.ErrDuplicate)
	}
	return nil
}

func (s *Statistic) check(opts *WriterOptions) error {
	if int64(len(s.Name)) > math.MaxUint32 {
		return fmt.Errorf("%s: %w: a name of %d bytes", format, tensor.ErrLimit, len(s.Name))
	}
	_, err := opts.accepts(s.Tensor, s.Batch)
	return err
}

// accepts returns the shape of a tensor as the format has it, or what keeps the tensor out of a file.
func (o *WriterOptions) accepts(t *tensor.Tensor, batch uint32) (Shape, error) {
	if err := t.Check(); err != nil {
		return Shape{}, fmt.Errorf("%s: %w", format, err)
	}
	refuse := func(err error) (Shape, error) {
		return Shape{}, fmt.Errorf("%s: tensor %s: %w", format, tensor.Quote(t.Name), err)
	}
	switch {
	case t.External:
		return refuse(fmt.Errorf("%w: it is kept in another file", errors.ErrUnsupported))
	case !t.Dense():
		return refuse(fmt.Errorf("%w: it is %s, primitiv has dense tensors alone", errors.ErrUnsupported, tensor.Quote(t.Scheme)))
	case t.DType != tensor.F32:
		return refuse(fmt.Errorf("%w: it is %v, primitiv has float32 alone", tensor.ErrDType, t.DType))
	case t.Data.Size() < 0:
		return refuse(fmt.Errorf("%w: its size is only known after decoding", errors.ErrUnsupported))
	case !o.Reorder && !columnMajor(t):
		return refuse(fmt.Errorf("%w: it is not column-major: see tensor.Reordered, or WriterOptions.Reorder", errors.ErrUnsupported))
	}
	s, err := shapeOf(t.Shape, batch)
	if err != nil {
		return refuse(err)
	}
	return s, nil
}

// columnMajor reports whether the elements of t lie as the format has them. Dimensions of one element do not count.
func columnMajor(t *tensor.Tensor) bool {
	have, ok1 := t.Order.Strides(t.Shape)
	want, ok2 := tensor.ColumnMajor(len(t.Shape)).Strides(t.Shape)
	if !ok1 || !ok2 {
		return false
	}
	for i, d := range t.Shape {
		if d > 1 && have[i] != want[i] {
			return false
		}
	}
	return true
}
