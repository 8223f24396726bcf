package pte

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Patch replaces stored bytes of a program by others of the same length. The flatbuffer and everything else stays, byte
// for byte; of a .bpte the bundle does too. It is for one goroutine at a time.
type Patch struct {
	// AllowShared lets Set replace bytes that other tensors or payloads use too.
	AllowShared bool

	r      *Reader
	uses   []use
	pieces []piece // sorted by offset
}

// A use is a range of the file that something is stored in.
type use struct {
	off, size int64
	end       int64 // the largest end of this range and all before it
	name      string
}

// A SharedError names what else would change with a tensor that is replaced.
type SharedError struct {
	Name   string   // of the tensor
	Others []string // tensors as METHOD/VALUE, payloads as in Reader.Blobs
}

func (e *SharedError) Error() string {
	const most = 8
	others := make([]string, 0, most)
	for _, o := range e.Others[:min(len(e.Others), most)] {
		others = append(others, tensor.Quote(o))
	}
	more := ""
	if n := len(e.Others) - most; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("pte: the bytes of %s are also those of %s%s", tensor.Quote(e.Name), strings.Join(others, ", "), more)
}

// NewPatch begins to patch a program. The Reader must stay open until the patch is written.
func NewPatch(r *Reader) (*Patch, error) {
	p := &Patch{r: r}
	add := func(name string, b tensor.Blob) {
		if s, ok := b.Stored(); ok && s.Size > 0 && s.Offset >= 0 {
			p.uses = append(p.uses, use{off: s.Offset, size: s.Size, name: name})
		}
	}
	for e := range r.Entries() {
		add(fmt.Sprintf("%s/%d", e.Method.Name(), e.Value), e.Data)
	}
	for name, b := range r.Blobs() {
		add(name, b)
	}
	slices.SortStableFunc(p.uses, func(a, b use) int { return cmp.Compare(a.off, b.off) })
	end := int64(0)
	for i := range p.uses {
		end = max(end, p.uses[i].off+p.uses[i].size)
		p.uses[i].end = end
	}
	return p, nil
}

// Set replaces the bytes of a tensor of a method: a constant, or the initial value of state. t must have its type, shape
// and order. It fails with a *SharedError if other tensors use the same bytes, unless AllowShared is set.
func (p *Patch) Set(method string, value int, t *tensor.Tensor) error {
	m, ok := p.r.Program().Method(method)
	if !ok {
		return fmt.Errorf("pte: no method is called %s", tensor.Quote(method))
	}
	name := fmt.Sprintf("%s/%d", method, value)
	v := m.Value(value)
	info, ok := v.Tensor()
	if !ok || info.Buffer == 0 || info.Role != RoleConstant && info.Role != RoleState {
		return fmt.Errorf("pte: %s, %v, has no bytes in the program", tensor.Quote(name), v)
	}
	e := v.entry()
	if bad, ok := e.Data.Source().(*missing); ok {
		return bad.err
	}
	if t == nil {
		return fmt.Errorf("pte: nothing for %s", tensor.Quote(name))
	}
	if err := t.Check(); err != nil {
		return err
	}
	if t.External || !t.Dense() {
		return fmt.Errorf("pte: %w: tensor %s has no dense data", tensor.ErrNoView, tensor.Quote(t.Name))
	}
	if t.DType != e.DType || !t.Shape.Equal(e.Shape) || !sameOrder(t.Order, e.Order, len(e.Shape)) {
		return fmt.Errorf("pte: %w: %s is %v of %v, order %v; not %v of %v, order %v", tensor.ErrDType, tensor.Quote(name),
			e.Shape, e.DType, []int(e.Order), t.Shape, t.DType, []int(t.Order))
	}
	return p.replace(name, e.Data, t.Data)
}

func sameOrder(a, b tensor.Order, rank int) bool {
	for i := range rank {
		x, y := i, i
		if a != nil {
			x = a[i]
		}
		if b != nil {
			y = b[i]
		}
		if x != y {
			return false
		}
	}
	return true
}

// SetBlob replaces the payload of a delegate or a named blob, called as in [Reader.Blobs], by one of the same length.
func (p *Patch) SetBlob(name string, data tensor.Blob) error {
	for n, b := range p.r.Blobs() {
		if n != name {
			continue
		}
		if bad, ok := b.Source().(*missing); ok {
			return bad.err
		}
		if b.Size() != data.Size() {
			return fmt.Errorf("pte: %s has %d bytes, not %d", tensor.Quote(name), b.Size(), data.Size())
		}
		return p.replace(name, b, data)
	}
	return fmt.Errorf("pte: no blob is called %s", tensor.Quote(name))
}

func (p *Patch) replace(name string, old, data tensor.Blob) error {
	s, ok := old.Stored()
	if !ok || s.Size == 0 {
		return nil // no bytes, no change
	}
	if others := p.sharing(name, s.Offset, s.Size); len(others) > 0 && !p.AllowShared {
		return &SharedError{name, others}
	}
	i, _ := slices.BinarySearchFunc(p.pieces, s.Offset, func(x piece, off int64) int { return cmp.Compare(x.off, off) })
	if i < len(p.pieces) && p.pieces[i].off == s.Offset && p.pieces[i].size == s.Size {
		p.pieces[i].data = data // the later one counts
		return nil
	}
	if i > 0 && p.pieces[i-1].off+p.pieces[i-1].size > s.Offset || i < len(p.pieces) && p.pieces[i].off < s.Offset+s.Size {
		return fmt.Errorf("pte: the bytes of %s overlap others that are replaced already", tensor.Quote(name))
	}
	p.pieces = slices.Insert(p.pieces, i, piece{s.Offset, data, s.Size})
	return nil
}

// sharing names what else has bytes in a range.
func (p *Patch) sharing(name string, off, size int64) []string {
	var others []string
	i, _ := slices.BinarySearchFunc(p.uses, off+size, func(x use, end int64) int { return cmp.Compare(x.off, end) })
	self := false
	for i--; i >= 0 && p.uses[i].end > off; i-- {
		u := &p.uses[i]
		if u.off+u.size <= off {
			continue
		}
		if u.name == name && !self {
			self = true
			continue
		}
		others = append(others, u.name)
	}
	slices.Reverse(others)
	return others
}

// Apply writes the new bytes, and nothing else, into a file that has the program: w is usually an *os.File of a copy, open
// for writing. It is not atomic. The Reader must not read the same file.
func (p *Patch) Apply(w io.WriterAt) error {
	for _, x := range p.pieces {
		n, err := x.data.WriteTo(io.NewOffsetWriter(w, x.off))
		if err == nil && n != x.size {
			err = fmt.Errorf("pte: %w: a source gave %d bytes of %d", io.ErrUnexpectedEOF, n, x.size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Write writes the whole file with the new bytes. It never seeks.
func (p *Patch) Write(w io.Writer) error {
	o, err := p.output()
	if err != nil {
		return err
	}
	_, err = o.writeTo(w)
	return err
}

// WriteFile writes the whole file with the new bytes into another one, which appears whole or not at all. It may be the
// file that is being read: the Reader goes on with the old one.
func (p *Patch) WriteFile(name string) error {
	o, err := p.output()
	if err != nil {
		return err
	}
	return o.writeFile(name)
}

func (p *Patch) output() (*output, error) {
	o := &output{size: p.r.src.Size()}
	at := int64(0)
	keep := func(end int64) {
		if end > at {
			o.pieces = append(o.pieces, piece{at, p.r.blob(at, end-at), end - at})
		}
	}
	for _, x := range p.pieces {
		keep(x.off)
		o.pieces = append(o.pieces, x)
		var ok bool
		if at, ok = align.Add(x.off, x.size); !ok {
			return nil, fmt.Errorf("pte: a patch at %d of %d bytes", x.off, x.size)
		}
	}
	keep(o.size)
	return o, nil
}
