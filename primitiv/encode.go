package primitiv

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

// An encoder writes the items of a file. Headers gather in head until the payload after
// them goes out.
type encoder struct {
	out   io.Writer
	n     int64 // bytes that went out
	head  bytes.Buffer
	enc   *msgpack.Encoder
	align int
}

// A head is what comes before the shape of a tensor: the path of a parameter in a model,
// the name of a statistic, or nothing.
type head struct {
	path   []string
	isStat bool
	stat   string
}

// begin writes what all files begin with. Nothing that msgpack's encoder does can fail
// here: it writes to memory.
func (e *encoder) begin(k Kind) {
	e.enc = msgpack.NewEncoder(&e.head)
	e.uint32(0)
	e.uint32(1)
	e.uint32(k.dataType())
}

func (e *encoder) uint32(v uint32) { e.enc.EncodeUint32(v) }

// flush lets the headers go out.
func (e *encoder) flush() error {
	n, err := e.out.Write(e.head.Bytes())
	e.n += int64(n)
	e.head.Reset()
	return err
}

func (e *encoder) settings(o *Optimizer) {
	e.enc.EncodeMapLen(len(o.Uints))
	for _, s := range o.Uints {
		e.enc.EncodeString(s.Name)
		e.uint32(s.Value)
	}
	e.enc.EncodeMapLen(len(o.Floats))
	for _, s := range o.Floats {
		e.enc.EncodeString(s.Name)
		e.enc.EncodeFloat32(s.Value)
	}
}

// shapeHead writes a shape, with so many trailing ones, and a header that is so many
// bytes longer than need be.
func (e *encoder) shapeHead(s Shape, longer, ones int) {
	dims := s.stripped()
	e.arrayLen(len(dims)+ones, longer)
	for _, d := range dims {
		e.uint32(d)
	}
	for range ones {
		e.uint32(1)
	}
	e.uint32(max(s.Batch, 1))
}

// tensorOf writes a tensor with what precedes it.
func (e *encoder) tensorOf(h head, t *tensor.Tensor, batch uint32) error {
	s, err := shapeOf(t.Shape, batch)
	if err != nil {
		return err
	}
	if !columnMajor(t) {
		if t, err = tensor.Reordered(t, tensor.ColumnMajor(len(t.Shape))); err != nil {
			return err
		}
	}
	size := t.Data.Size()
	start := e.head.Len()
	e.tensorHead(h, s, size, nil)
	if e.align > 1 {
		if extra := slack(h, s, size, e.n+int64(e.head.Len()), e.align); extra != nil {
			e.head.Truncate(start)
			e.tensorHead(h, s, size, extra)
		}
	}
	return e.payload(t, size)
}

// tensorHead writes everything up to the data. extra are the bytes that places take more
// than they need: see places.
func (e *encoder) tensorHead(h head, s Shape, size int64, extra []int) {
	next := func() (n int) {
		if len(extra) > 0 {
			n, extra = extra[0], extra[1:]
		}
		return n
	}
	if h.path != nil {
		e.arrayLen(len(h.path), next())
		for i, name := range h.path {
			if i < maxSlackNames {
				e.str(name, next())
			} else {
				e.str(name, 0)
			}
		}
	}
	if h.isStat {
		e.str(h.stat, next())
	}
	longer := next()
	e.shapeHead(s, longer, next()/uintSize)
	e.binLen(size, next())
}

// payload lets the headers and the data of t go out.
func (e *encoder) payload(t *tensor.Tensor, size int64) error {
	if err := e.flush(); err != nil {
		return err
	}
	n, err := t.Data.WriteTo(e.out)
	e.n += n
	switch {
	case err != nil:
		return err
	case n != size:
		return fmt.Errorf("%s: tensor %s: %w: %d bytes of data where %d were promised",
			format, quote.Name(t.Name), tensor.ErrMalformed, n, size)
	}
	return nil
}

// Sizes of headers, by family, from the shortest to the longest; and of an integer.
var (
	strSizes   = []int{1, 2, 3, 5}
	binSizes   = []int{2, 3, 5}
	arraySizes = []int{1, 3, 5}
)

const uintSize = 5

func strSize(n int) int {
	switch {
	case n < 32:
		return 1
	case n <= math.MaxUint8:
		return 2
	case n <= math.MaxUint16:
		return 3
	}
	return 5
}

func binSize(n int64) int {
	switch {
	case n <= math.MaxUint8:
		return 2
	case n <= math.MaxUint16:
		return 3
	}
	return 5
}

func arraySize(n int) int {
	switch {
	case n < 16:
		return 1
	case n <= math.MaxUint16:
		return 3
	}
	return 5
}

// str writes a string with a header that is so many bytes longer than need be; arrayLen
// and binLen do likewise.
func (e *encoder) str(s string, longer int) {
	if longer == 0 {
		e.enc.EncodeString(s)
		return
	}
	e.long(0xd9, strSize(len(s))+longer, uint32(len(s)))
	e.head.WriteString(s)
}

func (e *encoder) arrayLen(n, longer int) {
	if longer == 0 {
		e.enc.EncodeArrayLen(n)
		return
	}
	e.long(0xdb, arraySize(n)+longer, uint32(n)) // there is no array 8
}

func (e *encoder) binLen(n int64, longer int) {
	if longer == 0 && n <= math.MaxInt32 { // msgpack takes an int
		e.enc.EncodeBytesLen(int(n))
		return
	}
	e.long(0xc4, binSize(n)+longer, uint32(n))
}

// long writes a header of that size, where code8 is the family's code for lengths of 8
// bits.
func (e *encoder) long(code8 byte, size int, n uint32) {
	switch size {
	case 2:
		e.head.Write([]byte{code8, byte(n)})
	case 3:
		e.head.Write(binary.BigEndian.AppendUint16([]byte{code8 + 1}, uint16(n)))
	case 5:
		e.head.Write(binary.BigEndian.AppendUint32([]byte{code8 + 2}, n))
	}
}

// maxSlackNames is how many names of a path may get a longer header.
const maxSlackNames = 16

// places lists what each place before the data of a tensor may take more than it needs,
// in the order in which tensorHead writes them.
func places(h head, s Shape, size int64) (menus [][]int) {
	longer := func(sizes []int, need int) {
		var menu []int
		for _, n := range sizes {
			if n >= need {
				menu = append(menu, n-need)
			}
		}
		menus = append(menus, menu)
	}
	if h.path != nil {
		longer(arraySizes, arraySize(len(h.path)))
		for _, name := range h.path[:min(len(h.path), maxSlackNames)] {
			longer(strSizes, strSize(len(name)))
		}
	}
	if h.isStat {
		longer(strSizes, strSize(len(h.stat)))
	}
	longer(arraySizes, 1)
	var ones []int
	for n := len(s.stripped()); n <= maxRank; n++ {
		ones = append(ones, len(ones)*uintSize)
	}
	menus = append(menus, ones)
	longer(binSizes, binSize(size))
	return menus
}

// slack chooses what each place takes more than it needs, so that data which would begin
// at pos begins on a multiple of to, or of the largest smaller power of two that can be
// had, with as few bytes as possible. nil means none.
func slack(h head, s Shape, size, pos int64, to int) []int {
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
