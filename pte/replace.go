package pte

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/pieces"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

// A use is a range of the file that something is stored in.
type use struct {
	off, size int64
	end       int64 // the largest end of this range and all before it
	name      string
}

// A SharedError names what else would change with a tensor that is replaced.
type SharedError struct {
	Name   string   // of the tensor
	Others []string // tensors and payloads, as Reader.Tensors and Reader.Blobs name them
}

func (e *SharedError) Error() string {
	const limit = 8
	others := make([]string, 0, limit)
	for _, o := range e.Others[:min(len(e.Others), limit)] {
		others = append(others, quote.Name(o))
	}
	rest := ""
	if n := len(e.Others) - limit; n > 0 {
		rest = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("pte: the bytes of %s are also those of %s%s", quote.Name(e.Name),
		strings.Join(others, ", "), rest)
}

// findUses lists the ranges of the file that something is stored in.
func (e *Edit) findUses() {
	if e.uses != nil {
		return
	}
	add := func(name string, b tensor.Blob) {
		if s, ok := b.Stored(); ok && s.Size > 0 && s.Offset >= 0 {
			e.uses = append(e.uses, use{off: s.Offset, size: s.Size, name: name})
		}
	}
	for x := range e.r.Entries() {
		add(x.Name, x.Data)
	}
	for name, b := range e.r.Blobs() {
		add(name, b)
	}
	slices.SortStableFunc(e.uses, func(a, b use) int { return cmp.Compare(a.off, b.off) })
	end := int64(0)
	for i := range e.uses {
		end = max(end, e.uses[i].off+e.uses[i].size)
		e.uses[i].end = end
	}
}

// replace replaces the bytes of the tensor at a place.
func (e *Edit) replace(p place, name string, t *tensor.Tensor) error {
	x := e.r.entry(p)
	if x.Buffer == 0 || x.Role != RoleConstant && x.Role != RoleState {
		return fmt.Errorf("pte: %w: %s has no bytes in the program", errors.ErrUnsupported,
			quote.Name(name))
	}
	if bad, ok := x.Data.Source().(*missing); ok {
		return bad.err
	}
	if t == nil {
		return fmt.Errorf("pte: %w: nothing for %s", tensor.ErrNoTensor, quote.Name(name))
	}
	if err := t.Check(); err != nil {
		return err
	}
	if t.External || !t.Dense() {
		return fmt.Errorf("pte: %w: tensor %s has no dense data", tensor.ErrNoView,
			quote.Name(t.Name))
	}
	if t.DType != x.DType || !t.Shape.Equal(x.Shape) || !t.Order.Equal(x.Order) {
		return fmt.Errorf("pte: %w: %s is %v of %v, order %v; not %v of %v, order %v",
			tensor.ErrDType, quote.Name(name),
			x.Shape, x.DType, []int(x.Order), t.Shape, t.DType, []int(t.Order))
	}
	s, ok := x.Data.Stored()
	if !ok || s.Size == 0 {
		return nil // no bytes, no change
	}
	if others := e.sharing(name, s.Offset, s.Size); len(others) > 0 && !e.AllowShared {
		return &SharedError{name, others}
	}
	// Of two for the same bytes the later one counts.
	e.data[extent{s.Offset, s.Size}] = pieces.Piece{Name: name, Off: s.Offset, Size: s.Size,
		Data: t.Data}
	return nil
}

// sortReplaced sorts what is replaced by offset.
func (e *Edit) sortReplaced() error {
	e.replaced = slices.SortedFunc(maps.Values(e.data),
		func(a, b pieces.Piece) int { return cmp.Compare(a.Off, b.Off) })
	for i := 1; i < len(e.replaced); i++ {
		if a, b := e.replaced[i-1], e.replaced[i]; a.Off+a.Size > b.Off {
			return fmt.Errorf("pte: %w: tensors at bytes %d and %d overlap, and both are replaced",
				errors.ErrUnsupported, a.Off, b.Off)
		}
	}
	return nil
}

// replaces reports whether bytes of a range are replaced.
func (e *Edit) replaces(x extent) bool {
	return slices.ContainsFunc(e.replaced,
		func(p pieces.Piece) bool { return p.Off < x.off+x.size && p.Off+p.Size > x.off })
}

// sharing names what else has bytes in a range.
func (e *Edit) sharing(name string, off, size int64) []string {
	e.findUses()
	var others []string
	i, _ := slices.BinarySearchFunc(e.uses, off+size,
		func(x use, end int64) int { return cmp.Compare(x.off, end) })
	for i--; i >= 0 && e.uses[i].end > off; i-- {
		if u := &e.uses[i]; u.off+u.size > off && u.name != name {
			others = append(others, u.name)
		}
	}
	slices.Reverse(others)
	return others
}
