package primitiv

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"sort"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

// An encoder writes the items of a file. Headers gather in head until the payload after
// them goes out.
type encoder struct {
	out   io.Writer
	n     int64 // bytes that went out
	head  []byte
	align int
	err   error // of writing: the first, after which nothing goes out
}

// fail notes an error, if it is one.
func (e *encoder) fail(err error) { e.err = cmp.Or(e.err, err) }

// begin writes what all files begin with.
func (e *encoder) begin(k Kind) {
	e.uint32(0)
	e.uint32(1)
	e.uint32(k.dataType())
}

// number writes an item of the family with that number, or the header of one, which is so
// many bytes longer than need be.
func (e *encoder) number(f family, n int64, longer int) {
	e.head = f.append(e.head, uint32(n), f.widths(n)[0]+longer)
}

func (e *encoder) uint32(v uint32) { e.number(familyUint, int64(v), 0) }

// str writes a string, with a header that is so many bytes longer than need be.
func (e *encoder) str(s string, longer int) {
	e.number(familyStr, int64(len(s)), longer)
	e.head = append(e.head, s...)
}

// flush lets the headers go out.
func (e *encoder) flush() {
	if e.err != nil {
		return
	}
	n, err := e.out.Write(e.head)
	e.n += int64(n)
	e.head = e.head[:0]
	e.fail(err)
}

func (e *encoder) settings(o *Optimizer) {
	e.number(familyMap, int64(len(o.Uints)), 0)
	for _, s := range o.Uints {
		e.str(s.Name, 0)
		e.uint32(s.Value)
	}
	e.number(familyMap, int64(len(o.Floats)), 0)
	for _, s := range o.Floats {
		e.str(s.Name, 0)
		e.number(familyFloat, int64(math.Float32bits(s.Value)), 0)
	}
}

// shapeHead writes a shape, with so many trailing ones, and a header that is so many
// bytes longer than need be.
func (e *encoder) shapeHead(s Shape, longer, ones int) {
	dims := s.stripped()
	e.number(familyArray, int64(len(dims)+ones), longer)
	for _, d := range dims {
		e.uint32(d)
	}
	for range ones {
		e.uint32(1)
	}
	e.uint32(max(s.Batch, 1))
}

// tensorOf writes a tensor and before it the path or the name of a statistic that h has.
func (e *encoder) tensorOf(h Origin, t *tensor.Tensor) {
	s, err := shapeOf(t.Shape, h.Batch)
	if e.fail(err); e.err == nil && !columnMajor(t) {
		t, err = tensor.Reordered(t, tensor.ColumnMajor(len(t.Shape)))
		e.fail(err)
	}
	if e.err != nil {
		return
	}
	size := t.Data.Size()
	start := len(e.head)
	e.tensorHead(h, s, size, nil)
	if e.align > 1 {
		if extra := slack(h, s, size, e.n+int64(len(e.head)), e.align); extra != nil {
			e.head = e.head[:start]
			e.tensorHead(h, s, size, extra)
		}
	}
	e.payload(t, size)
}

// tensorHead writes everything up to the data. extra are the bytes that places take more
// than they need: see places.
func (e *encoder) tensorHead(h Origin, s Shape, size int64, extra []int) {
	next := func() (n int) {
		if len(extra) > 0 {
			n, extra = extra[0], extra[1:]
		}
		return n
	}
	if h.Path != nil {
		e.number(familyArray, int64(len(h.Path)), next())
		for i, name := range h.Path {
			if i < maxSlackNames {
				e.str(name, next())
			} else {
				e.str(name, 0)
			}
		}
	}
	if h.IsStatistic {
		e.str(h.Statistic, next())
	}
	longer := next()
	e.shapeHead(s, longer, next()/uintSize)
	e.number(familyBin, size, next())
}

// payload lets the headers and the data of t go out.
func (e *encoder) payload(t *tensor.Tensor, size int64) {
	if e.flush(); e.err != nil {
		return
	}
	n, err := t.Data.WriteTo(e.out)
	if e.n += n; err == nil && n != size {
		err = fmt.Errorf("%s: tensor %s: %w: %d bytes of data where %d were promised",
			format, quote.Name(t.Name), tensor.ErrMalformed, n, size)
	}
	e.fail(err)
}

const uintSize = 5

// maxSlackNames is how many names of a path may get a longer header.
const maxSlackNames = 16

// places lists what each place before the data of a tensor may take more than it needs,
// in the order in which tensorHead writes them.
func places(h Origin, s Shape, size int64) (menus [][]int) {
	longer := func(f family, n int64) {
		menu := f.widths(n)
		need := menu[0]
		for i := range menu {
			menu[i] -= need
		}
		menus = append(menus, menu)
	}
	if h.Path != nil {
		longer(familyArray, int64(len(h.Path)))
		for _, name := range h.Path[:min(len(h.Path), maxSlackNames)] {
			longer(familyStr, int64(len(name)))
		}
	}
	if h.IsStatistic {
		longer(familyStr, int64(len(h.Statistic)))
	}
	longer(familyArray, 0)
	var ones []int
	for n := len(s.stripped()); n <= maxRank; n++ {
		ones = append(ones, len(ones)*uintSize)
	}
	menus = append(menus, ones)
	longer(familyBin, size)
	return menus
}

// slack chooses what each place takes more than it needs, so that data which would begin
// at pos begins on a multiple of to, or of the largest smaller power of two that can be
// had, with as few bytes as possible. nil means none.
func slack(h Origin, s Shape, size, pos int64, to int) []int {
	if align.Is(pos, int64(to)) {
		return nil
	}
	menus := places(h, s, size)
	// reach[i] holds which sums the first i places can make.
	const maxSum = 4 + 4*maxSlackNames + 4 + uintSize*maxRank + 3
	reach := make([][maxSum + 1]bool, len(menus)+1)
	reach[0][0] = true
	for i, menu := range menus {
		for sum, ok := range reach[i] {
			for _, n := range menu {
				if ok && sum+n <= maxSum {
					reach[i+1][sum+n] = true
				}
			}
		}
	}
	for ; to > 1; to /= 2 {
		for sum := int(align.Padding(pos, int64(to))); sum <= maxSum; sum += to {
			if !reach[len(menus)][sum] {
				continue
			}
			extra := make([]int, len(menus))
			for i := len(menus) - 1; i >= 0; i-- {
				for _, n := range menus[i] {
					if n <= sum && reach[i][sum-n] {
						extra[i] = n
						sum -= n
						break
					}
				}
			}
			return extra
		}
	}
	return nil
}

// finish writes everything that was not written yet.
func (w *Writer) finish() {
	w.fail(w.resolve())
	if w.err != nil {
		return
	}
	if !w.opts.Streaming {
		w.begin(w.opts.Kind)
	}
	switch k := w.opts.Kind; {
	case k == KindModel && w.opts.Streaming:
		w.endStream()
	case k == KindModel:
		w.model()
	case k == KindShape && w.shape != nil:
		w.shapeHead(*w.shape, 0, 0)
	case k == KindTensor && w.tensor != nil:
		w.tensorOf(Origin{Batch: w.opts.Batch}, w.tensor)
	case k == KindOptimizer && w.optimizer != nil:
		w.settings(w.optimizer)
	case k == KindParameter && len(w.params) == 1:
		w.parameter(nil, w.params[0])
	case k == KindParameter && len(w.params) > 1:
		w.fail(fmt.Errorf("%s: a parameter file has one parameter, not %d: %w",
			format, len(w.params), tensor.ErrDuplicate))
	default:
		w.fail(fmt.Errorf("%s: there is no %v to write: %w", format, k, tensor.ErrNoTensor))
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
	sort.Slice(m, func(i, j int) bool { return slices.Compare(m[i].Path, m[j].Path) < 0 })
	if w.file != nil {
		w.file.Reserve(size)
	}
	w.uint32(uint32(len(m)))
	for _, p := range m {
		w.parameter(p.Path, p)
	}
}

// countable reports what keeps parameters of these paths, which it sorts, out of one
// model.
func countable(paths [][]string) error {
	if int64(len(paths)) > math.MaxUint32 {
		return fmt.Errorf("%s: %w: %d parameters", format, tensor.ErrLimit, len(paths))
	}
	slices.SortFunc(paths, slices.Compare)
	for i := 1; i < len(paths); i++ { // the paths below one follow it directly
		if err := clash(paths[i-1], paths[i]); err != nil {
			return err
		}
	}
	return nil
}

// flushParameter writes the parameter that waits for statistics.
func (w *Writer) flushParameter() {
	if len(w.params) > 0 {
		p := w.params[0]
		w.params = nil
		w.paths = append(w.paths, p.Path)
		w.parameter(p.Path, p)
	}
}

// endStream writes the last parameter and what was not known at the beginning.
func (w *Writer) endStream() {
	w.flushParameter()
	w.fail(countable(w.paths))
	n := len(w.paths)
	if w.opts.Count > 0 && n != int(w.opts.Count) {
		w.fail(fmt.Errorf("%s: %d parameters where %d were announced: %w",
			format, n, w.opts.Count, fs.ErrInvalid))
	}
	w.flush()
	if w.err == nil && w.opts.Count == 0 {
		_, err := w.file.WriteAt(binary.BigEndian.AppendUint32(nil, uint32(n)), prefixSize+1)
		w.fail(err)
	}
}

// parameter writes a parameter, after its path in a model.
func (w *Writer) parameter(path []string, p *Parameter) {
	w.tensorOf(Origin{Path: path, Batch: 1}, p.Value)
	if w.opts.NoStats {
		w.uint32(0)
		return
	}
	w.uint32(uint32(len(p.Stats)))
	for _, s := range p.Stats {
		w.tensorOf(Origin{IsStatistic: true, Statistic: s.Name, Batch: s.Batch}, s.Tensor)
	}
}
