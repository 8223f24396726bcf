package pte

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/pieces"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// Defaults of ExecuTorch's serializer.
const (
	defaultSegmentAlignment = 128
	defaultTensorAlignment  = 16
	headerLength            = 32
	maxAlignment            = 1 << 30
)

// WriterOptions control how a program is written. nil is the zero value.
type WriterOptions struct {
	// SegmentAlignment aligns the segments, in bytes; 0 for ExecuTorch's 128. Unlike
	// ExecuTorch's, our alignments hold in the file, and not only from the first segment
	// on.
	SegmentAlignment int64
	// TensorAlignment aligns constants and initial values; a power of two, 0 for
	// ExecuTorch's 16. A type that needs more gets more.
	TensorAlignment int64
}

// alignments checks the options and fills in ExecuTorch's values.
func (o *WriterOptions) alignments() (segment, data int64, err error) {
	segment, data = o.SegmentAlignment, o.TensorAlignment
	if segment == 0 {
		segment = defaultSegmentAlignment
	}
	if data == 0 {
		data = defaultTensorAlignment
	}
	if min(segment, data) < 1 || max(segment, data) > maxAlignment || data&(data-1) != 0 {
		return 0, 0, fmt.Errorf("pte: bad options: segment alignment %d, tensor alignment %d",
			segment, data)
	}
	return segment, data, nil
}

// A dataSegment is a segment on its way into a file.
type dataSegment struct {
	pieces []pieces.Piece // offsets count from the start of the segment
	size   int64
	align  int64 // the largest that its pieces ask for
	off    int64 // from the base
}

// append adds data of size bytes after what is there and returns where.
func (s *dataSegment) append(data []pieces.Piece, size, alignment int64) (int64, error) {
	off, ok := align.Up(s.size, alignment)
	if !ok || size < 0 || size > math.MaxInt64-off {
		return 0, fmt.Errorf("pte: a segment of more than 2^63 bytes")
	}
	s.align = max(s.align, alignment)
	for _, p := range data {
		p.Off += off
		s.pieces = append(s.pieces, p)
	}
	s.size = off + size
	return off, nil
}

// whole is a blob as a piece.
func whole(name string, b tensor.Blob) []pieces.Piece {
	return []pieces.Piece{{Name: name, Size: b.Size(), Data: b}}
}

// A dataList is a segment of tensors.
type dataList struct {
	data    dataSegment
	offsets []uint64 // the first is a placeholder
}

// put adds bytes and returns their index.
func (l *dataList) put(data []pieces.Piece, size, alignment int64) (int, error) {
	off, err := l.data.append(data, size, alignment)
	l.offsets = append(l.offsets, uint64(off))
	return len(l.offsets) - 1, err
}

// ensureNonEmpty gives a segment of tensors a byte: the runtime finds no tensor in an
// empty one, even if that has no elements.
func (l *dataList) ensureNonEmpty() {
	if len(l.offsets) > 1 && l.data.size == 0 {
		l.data.pieces, l.data.size = whole("empty segment", tensor.BlobOf([]byte{0})), 1
	}
}

// layOut places segments after each other and returns where the last one ends, and what
// the base must be aligned to.
func layOut(segments []dataSegment, alignment int64) (size, base int64, err error) {
	base = alignment
	for i := range segments {
		s := &segments[i]
		off, end, a, ok := executorch.Place(size, s.size, alignment, max(s.align, 1))
		if ok {
			base, ok = executorch.LCM(base, a)
		}
		if !ok {
			return 0, 0, errors.New("pte: alignments without a common multiple of 2^40 or less")
		}
		s.off, size = off, end
	}
	return size, base, nil
}

// An output is a file that is ready to be written: nothing of it has to be gone back to.
type output struct {
	head   []byte // flatbuffer with its header
	pieces []pieces.Piece
	size   int64
}

// finish puts an extended header into a flatbuffer, in which vectors are aligned to
// inner, and the segments after it. tail is what a header of a newer version has after
// the fields that are known. Without bytes in segments there is no header, unless always.
func finish(program []byte, segments []dataSegment, dataSize, baseAlign int64, inner int,
	tail []byte, always bool) (*output, error) {
	if dataSize == 0 && !always {
		return &output{head: program, size: int64(len(program))}, nil
	}
	length := headerLength + int64(len(tail))
	head := fb.Splice(program, int(length+align.Padding(length, int64(max(inner, headerLength)))))
	base, ok := align.Up(int64(len(head)), baseAlign)
	if !ok || dataSize > math.MaxInt64-base || int64(len(head)) >= 1<<31 {
		return nil, fmt.Errorf("pte: %w: a program of %d bytes and %d of data", tensor.ErrLimit,
			len(head), dataSize)
	}
	putHeader(head, int64(len(head)), uint32(length), base, dataSize)
	copy(head[8+headerLength:], tail)
	o := &output{head: head, size: base + dataSize}
	for _, s := range segments {
		for _, p := range s.pieces {
			p.Off += base + s.off
			o.pieces = append(o.pieces, p)
		}
	}
	return o, nil
}

func putHeader(head []byte, size int64, length uint32, base, dataSize int64) {
	copy(head[8:], "eh00")
	binary.LittleEndian.PutUint32(head[12:], length)
	binary.LittleEndian.PutUint64(head[16:], uint64(size))
	binary.LittleEndian.PutUint64(head[24:], uint64(base))
	if length >= 32 {
		binary.LittleEndian.PutUint64(head[32:], uint64(dataSize))
	}
}

// check opens what is about to be written.
func (o *output) check() error {
	src, err := source.OfReaderAt(padded(o.head), o.size)
	if err != nil {
		return err
	}
	r, err := open(src, &ReaderOptions{Limits: tensor.Limits{MaxMetadata: math.MaxInt32,
		MaxTensors: math.MaxInt32}}, false)
	if err != nil {
		return err
	}
	for _, f := range r.checked.All() {
		if f.Severity == tensor.SeverityError {
			return f.Err
		}
	}
	return nil
}

// padded is bytes with any number of zeros after them.
type padded []byte

func (b padded) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	if off < int64(len(b)) {
		n = copy(p, b[off:])
	}
	clear(p[n:])
	return len(p), nil
}

// writeTo writes the file.
func (o *output) writeTo(ctx context.Context, w io.Writer) error {
	all := append(whole("flatbuffer", tensor.BlobOf(o.head)), o.pieces...)
	if _, err := pieces.Write(ctx, w, 0, all, o.size); err != nil {
		return fmt.Errorf("pte: %w", err)
	}
	return nil
}

// writeFile writes the file so that it appears whole or not at all.
func (o *output) writeFile(ctx context.Context, name string) error {
	f, err := atomicfile.Create(name)
	if err != nil {
		return err
	}
	defer f.Abort()
	f.Reserve(o.size)
	if err := o.writeTo(ctx, f); err != nil {
		return err
	}
	return f.Close()
}

// A store gives payloads their places; the same memory or source has one.
type store map[any]int

// share returns what was noted for the same payload before, or notes i.
func (s store) share(b tensor.Blob, i int) (at int, shared bool) {
	id := b.Identity()
	if b.Size() == 0 || id == nil {
		return i, false
	}
	if at, shared = s[id]; !shared {
		s[id], at = i, i
	}
	return at, shared
}

// tooLarge makes a flatbuffer of more than 2 GiB a limit.
func tooLarge(err error) error {
	if errors.Is(err, fb.ErrTooLarge) {
		return fmt.Errorf("pte: %w: %w", tensor.ErrLimit, err)
	}
	return err
}
