package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// A region is what a slice such as [0, 2:8:2, ...] takes of a tensor: along each
// dimension count indices from first, step apart. A dropped dimension was given
// one index, and is not in the shape of the result.
type region []along

type along struct {
	first, count, step int64
	drop               bool
}

// splitSlice separates NAME[SLICE]. Names may have brackets themselves, so the
// caller looks for the whole text first.
func splitSlice(arg string) (name, slice string, ok bool) {
	if !strings.HasSuffix(arg, "]") {
		return arg, "", false
	}
	i := strings.LastIndexByte(arg, '[')
	if i < 0 {
		return arg, "", false
	}
	return arg[:i], arg[i+1 : len(arg)-1], true
}

// whole is all of a shape.
func whole(s tensor.Shape) region {
	r := make(region, len(s))
	for i, n := range s {
		r[i] = along{0, n, 1, false}
	}
	return r
}

// parseSlice reads what stands between the brackets, as Python would.
func parseSlice(text string, s tensor.Shape) (region, error) {
	r := whole(s)
	if strings.TrimSpace(text) == "" {
		return r, nil
	}
	items := strings.Split(strings.TrimSuffix(strings.TrimSpace(text), ","), ",")
	d := 0
	dots := false
	for i, item := range items {
		item = strings.TrimSpace(item)
		if item == "..." {
			if dots {
				return nil, errors.New("a slice has one ... at most")
			}
			dots = true
			d = len(s) - (len(items) - 1 - i)
			if d < 0 {
				return nil, fmt.Errorf("%s for %s", count(len(items)-1, "index"), count(len(s), "dimension"))
			}
			continue
		}
		if d >= len(s) {
			return nil, fmt.Errorf("more indices than the %s of %v", count(len(s), "dimension"), s)
		}
		a, err := parseAlong(item, s[d])
		if err != nil {
			return nil, fmt.Errorf("dimension %d: %w", d, err)
		}
		r[d] = a
		d++
	}
	return r, nil
}

func parseAlong(item string, n int64) (along, error) {
	fields := strings.Split(item, ":")
	number := func(i int, missing int64) (int64, error) {
		if i >= len(fields) || strings.TrimSpace(fields[i]) == "" {
			return missing, nil
		}
		v, err := strconv.ParseInt(strings.TrimSpace(fields[i]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is no number", fields[i])
		}
		return v, nil
	}
	if len(fields) == 1 {
		v, err := number(0, math.MinInt64)
		if err != nil {
			return along{}, err
		}
		at := v
		if at < 0 {
			at += n
		}
		if item == "" || at < 0 || at >= n {
			return along{}, fmt.Errorf("index %s of %d", item, n)
		}
		return along{at, 1, 1, true}, nil
	}
	if len(fields) > 3 {
		return along{}, fmt.Errorf("%q has more than start:stop:step", item)
	}
	step, err := number(2, 1)
	if err != nil {
		return along{}, err
	}
	if step == 0 || step == math.MinInt64 {
		return along{}, errors.New("a step of 0")
	}
	lo, hi := int64(0), n // where a missing end stands, and the range of both
	first, last := lo, hi
	if step < 0 {
		lo, hi = -1, n-1
		first, last = hi, lo
	}
	clamp := func(i int, missing int64) (int64, error) {
		v, err := number(i, math.MinInt64)
		if err != nil || v == math.MinInt64 {
			return missing, err
		}
		if v < 0 {
			v += n
		}
		return min(max(v, lo), hi), nil
	}
	start, err := clamp(0, first)
	if err != nil {
		return along{}, err
	}
	stop, err := clamp(1, last)
	if err != nil {
		return along{}, err
	}
	length := int64(0)
	if step > 0 && stop > start {
		length = (stop-start-1)/step + 1
	} else if step < 0 && stop < start {
		length = (start-stop-1)/-step + 1
	}
	return along{start, length, step, false}, nil
}

// shape is that of the result.
func (r region) shape() tensor.Shape {
	s := tensor.Shape{}
	for _, a := range r {
		if !a.drop {
			s = append(s, a.count)
		}
	}
	return s
}

// elements is how many there are; they are at most as many as the tensor has.
func (r region) elements() int64 {
	n := int64(1)
	for _, a := range r {
		if a.count == 0 {
			return 0
		}
	}
	for _, a := range r {
		n *= a.count
	}
	return n
}

// places gives the storage index of one element after the other, in row-major
// order of the result. It must not be called more often than there are elements.
func (r region) places(t *tensor.Tensor) (next func() int64, err error) {
	strides, ok := t.Order.Strides(t.Shape)
	if !ok {
		return nil, fmt.Errorf("%w: shape %v", tensor.ErrMalformed, t.Shape)
	}
	index := make([]int64, len(r))
	at := int64(0)
	for d, a := range r {
		at += a.first * strides[d]
	}
	return func() int64 {
		now := at
		for d := len(r) - 1; d >= 0; d-- {
			a := r[d]
			if index[d]++; index[d] < a.count {
				at += a.step * strides[d]
				break
			}
			at -= (a.count - 1) * a.step * strides[d]
			index[d] = 0
		}
		return now
	}, nil
}

// walk calls f with the storage index of every element, in row-major order of
// the result, until f fails.
func (r region) walk(t *tensor.Tensor, f func(storage int64) error) error {
	next, err := r.places(t)
	if err != nil {
		return err
	}
	for range r.elements() {
		if err := f(next()); err != nil {
			return err
		}
	}
	return nil
}

// A window reads single elements of a blob by pieces, so that a small slice of a
// large tensor touches little of it, and memory stays small. What must be decoded
// from its start is streamed; only going back in it needs all of it.
type window struct {
	ctx    context.Context // of the call that made it
	b      tensor.Blob
	bits   int64
	size   int64
	off    int64 // of buf in the blob
	buf    []byte
	plain  bool          // bytes of the file: any piece can be read
	stream io.ReadCloser // else: what comes after buf
}

const windowSize = 3 << 18

func newWindow(ctx context.Context, b tensor.Blob, bits int) *window {
	st, ok := b.Stored()
	return &window{ctx: ctx, b: b, bits: int64(bits), size: b.Size(), plain: ok && st.Encoding == "raw"}
}

func (w *window) close() {
	if w.stream != nil {
		w.stream.Close()
	}
}

// at gives the bytes in which element i lies, and its index there.
func (w *window) at(i int64) ([]byte, int, error) {
	// Units of 8 elements are whole bytes for every width.
	unit := i / 8 * w.bits
	end := min(unit+w.bits, w.size)
	for unit < w.off || end > w.off+int64(len(w.buf)) {
		if err := w.fill(unit); err != nil {
			return nil, 0, err
		}
	}
	return w.buf[unit-w.off:], int(i % 8), nil
}

// fill brings the piece with byte off into buf, or for a stream the next piece.
func (w *window) fill(off int64) error {
	const most = 1 << 30
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if w.plain {
		w.resize(off / windowSize * windowSize)
		n, err := w.b.ReadAt(w.buf, w.off)
		if n == len(w.buf) {
			err = nil
		}
		return err
	}
	if off < w.off && w.size <= most {
		all, err := readAll(w.ctx, w.b)
		w.off, w.buf = 0, all
		return err
	}
	if w.stream == nil || off < w.off {
		w.close()
		r, err := w.b.Open()
		if err != nil {
			return err
		}
		w.stream, w.off, w.buf = r, 0, w.buf[:0]
	}
	w.resize(w.off + int64(len(w.buf)))
	_, err := io.ReadFull(ctxReader{w.ctx, w.stream}, w.buf)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

func (w *window) resize(off int64) {
	n := int(min(w.size-off, windowSize))
	if cap(w.buf) < n {
		w.buf = make([]byte, n)
	}
	w.off, w.buf = off, w.buf[:n]
}
