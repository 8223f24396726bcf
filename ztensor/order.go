package ztensor

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// A place is where a value belongs in the dense tensor.
type place struct {
	at    uint64 // element, row-major
	value int    // in values
}

// An orderer takes the values of a sparse tensor as the file has them and hands
// them on in the order of their places. It sorts as many as it has room for. Where
// one may still come that belongs before those, they become a run in a temporary
// file, and the runs are merged at the end. The rows of a csr follow on each other,
// so that only one of more values than there is room for takes the file.
type orderer struct {
	ctx   context.Context
	width int                                 // of a value; 0 where only places count
	most  int                                 // values that there is room for
	fan   int                                 // runs that are merged at a time
	emit  func(at uint64, value []byte) error // value is borrowed

	places []place
	values []byte // of places, where place.value says
	temp   *source.Temp
	off    int64 // in temp, behind the last run
	runs   []run
	last   uint64 // handed on, if some was
	some   bool
}

// A run is a range of the temporary file: records of a place, 8 bytes, and a value.
type run struct{ off, size int64 }

const (
	orderRoom   = 2 << 20
	mergeFan    = 128 // of buffers of mergeBuffer bytes
	mergeBuffer = 8 << 10
)

// newOrderer is for n values.
func newOrderer(ctx context.Context, width int, n int64, emit func(at uint64, value []byte) error) *orderer {
	return &orderer{ctx: ctx, width: width, most: int(max(1, min(n, orderRoom/int64(16+width)))), fan: mergeFan, emit: emit}
}

// add takes a value. Neither its place nor any that is still to come is below
// settled.
func (o *orderer) add(at, settled uint64, value []byte) error {
	switch len(o.places) {
	case o.most:
		if err := o.full(settled); err != nil {
			return err
		}
	case 0:
		o.places, o.values = slices.Grow(o.places, o.most), slices.Grow(o.values, o.most*o.width)
	}
	o.places = append(o.places, place{at, len(o.places)})
	o.values = append(o.values, value...)
	return nil
}

// full makes room.
func (o *orderer) full(settled uint64) error {
	if err := o.ctx.Err(); err != nil {
		return err
	}
	o.sort()
	n := 0
	if len(o.runs) == 0 {
		n = sort.Search(len(o.places), func(i int) bool { return o.places[i].at >= settled })
	}
	if n == 0 {
		return o.spill()
	}
	if err := o.handOn(n); err != nil {
		return err
	}
	rest, values := o.places[n:], make([]byte, 0, (len(o.places)-n)*o.width)
	for i, p := range rest {
		values = append(values, o.value(p)...)
		rest[i].value = i
	}
	o.places, o.values = append(o.places[:0], rest...), append(o.values[:0], values...)
	return nil
}

func (o *orderer) sort() {
	byPlace := func(a, b place) int { return cmp.Compare(a.at, b.at) }
	if !slices.IsSortedFunc(o.places, byPlace) {
		slices.SortFunc(o.places, byPlace)
	}
}

func (o *orderer) value(p place) []byte { return o.values[p.value*o.width:][:o.width] }

// handOn hands on the first n of what is held.
func (o *orderer) handOn(n int) error {
	for _, p := range o.places[:n] {
		if err := o.hand(p.at, o.value(p)); err != nil {
			return err
		}
	}
	return nil
}

// hand passes on one value, whose place must come behind that of the one before.
func (o *orderer) hand(at uint64, value []byte) error {
	if o.some && at <= o.last {
		if at == o.last {
			return &repeated{at}
		}
		return fmt.Errorf("%w: the indices were in order before", tensor.ErrMalformed)
	}
	o.last, o.some = at, true
	return o.emit(at, value)
}

// A repeated place has two values: the format does not say what that means.
type repeated struct{ at uint64 }

func (r *repeated) Error() string {
	return fmt.Sprintf("%v: two values for element %d", r.Unwrap(), r.at)
}
func (r *repeated) Unwrap() error { return errors.ErrUnsupported }

// spill makes a run of what is held.
func (o *orderer) spill() error {
	if o.temp == nil {
		var err error
		if o.temp, err = source.NewTemp(); err != nil {
			return err
		}
	}
	err := o.record(o.temp, func(put func(at uint64, value []byte) error) error {
		for _, p := range o.places {
			if err := put(p.at, o.value(p)); err != nil {
				return err
			}
		}
		return nil
	})
	o.places, o.values = o.places[:0], o.values[:0]
	return err
}

// record makes a run of what all puts.
func (o *orderer) record(to *source.Temp, all func(put func(at uint64, value []byte) error) error) error {
	w := bufio.NewWriterSize(to, 64<<10)
	start := o.off
	if err := all(func(at uint64, value []byte) error {
		o.off += int64(8 + len(value))
		_, err := w.Write(append(binary.LittleEndian.AppendUint64(w.AvailableBuffer(), at), value...))
		return err
	}); err != nil {
		return err
	}
	o.runs = append(o.runs, run{start, o.off - start})
	return w.Flush()
}

// end hands on what is left. All values have been added.
func (o *orderer) end() error {
	o.sort()
	if len(o.runs) == 0 {
		return o.handOn(len(o.places))
	}
	if len(o.places) > 0 {
		if err := o.spill(); err != nil {
			return err
		}
	}
	o.places, o.values = nil, nil
	for len(o.runs) > o.fan {
		if err := o.mergeSome(); err != nil {
			return err
		}
	}
	return o.merge(o.runs, o.hand)
}

// mergeSome makes fewer and longer runs, in another file.
func (o *orderer) mergeSome() error {
	to, err := source.NewTemp()
	if err != nil {
		return err
	}
	runs := o.runs
	o.runs, o.off = nil, 0
	for ; len(runs) > 0 && err == nil; runs = runs[min(o.fan, len(runs)):] {
		err = o.record(to, func(put func(at uint64, value []byte) error) error {
			return o.merge(runs[:min(o.fan, len(runs))], put)
		})
	}
	o.temp.Close()
	o.temp = to
	return err
}

// merge calls f with the records of runs in the order of their places.
func (o *orderer) merge(runs []run, f func(at uint64, value []byte) error) error {
	record := 8 + o.width
	size := mergeBuffer / record * record
	buffers := make([]byte, len(runs)*size)
	heads := make([]head, len(runs)) // a heap
	for i, r := range runs {
		heads[i] = head{run: r, buf: buffers[i*size:][:size]}
		if err := heads[i].fill(o); err != nil {
			return err
		}
	}
	sink := func(i int) {
		for {
			least := i
			for k := 2*i + 1; k <= 2*i+2 && k < len(heads); k++ {
				if heads[k].at < heads[least].at {
					least = k
				}
			}
			if least == i {
				return
			}
			heads[i], heads[least] = heads[least], heads[i]
			i = least
		}
	}
	for i := len(heads)/2 - 1; i >= 0; i-- {
		sink(i)
	}
	for len(heads) > 0 {
		h := &heads[0]
		if err := f(h.at, h.have[8:record]); err != nil {
			return err
		}
		if h.have = h.have[record:]; len(h.have) > 0 {
			h.at = binary.LittleEndian.Uint64(h.have)
		} else if h.size > 0 {
			if err := h.fill(o); err != nil {
				return err
			}
		} else {
			heads[0] = heads[len(heads)-1]
			heads = heads[:len(heads)-1]
		}
		sink(0)
	}
	return nil
}

// A head is the beginning of what is left of a run.
type head struct {
	run
	buf, have []byte
	at        uint64 // of the first record in have
}

func (h *head) fill(o *orderer) error {
	if err := o.ctx.Err(); err != nil {
		return err
	}
	h.have = h.buf[:min(int64(len(h.buf)), h.size)]
	n, err := o.temp.ReadAt(h.have, h.off)
	if n < len(h.have) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	h.off, h.size = h.off+int64(n), h.size-int64(n)
	h.at = binary.LittleEndian.Uint64(h.have)
	return nil
}

// close deletes the temporary file.
func (o *orderer) close() {
	if o.temp != nil {
		o.temp.Close()
	}
}
