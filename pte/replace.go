package pte

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tensorfile/tensorfile/internal/pieces"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

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

// others returns what else has bytes in a range of the file.
func (e *Edit) others(name string, off, size int64) (others []string) {
	if e.users == nil {
		e.users = new(pieces.Users)
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
	if !e.AllowShared {
		if others := e.others(name, s.Offset, s.Size); len(others) > 0 {
			return &SharedError{name, others}
		}
	}
	// Of two for the same bytes the later one counts.
	e.data[extent{s.Offset, s.Size}] = pieces.Piece{Name: name, Off: s.Offset, Size: s.Size,
		Data: t.Data}
	return nil
}
