package primitiv

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

const errs = format.Errors("primitiv")

// Version is the only version of the format.
const Version = "0.1"

// Limits of the reference.
const (
	maxRank     = 8       // its MAX_DEPTH, counted before trailing ones are taken off
	maxElements = 1 << 30 // of one tensor, exclusive: a bin of 2^32 bytes has no header
)

// A Kind is the kind of content that a file has. The zero value is none of them.
type Kind uint8

// The kinds of files.
const (
	KindShape Kind = iota + 1
	KindTensor
	KindParameter
	KindModel
	KindOptimizer
)

var kindNames = [...]string{KindShape: "shape", KindTensor: "tensor", KindParameter: "parameter",
	KindModel: "model", KindOptimizer: "optimizer"}

// String returns the name of the kind, such as "model".
func (k Kind) String() string {
	if k.valid() {
		return kindNames[k]
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

func (k Kind) valid() bool { return k >= KindShape && k <= KindOptimizer }

// dataType is the third number of a file.
func (k Kind) dataType() uint32 { return uint32(k-1) << 8 }

// prefix is the beginning of a file, up to the low byte of data_type's upper half: what
// all files have in common.
const prefix = "\xce\x00\x00\x00\x00\xce\x00\x00\x00\x01\xce\x00\x00"

const prefixSize = 15

// Detect reports whether r begins like a file of this format, of 0.1 or another version,
// which Open refuses by name.
func Detect(r io.ReaderAt, size int64) bool {
	if size < prefixSize {
		return false
	}
	var b [prefixSize]byte
	if n, err := r.ReadAt(b[:], 0); n < len(b) && err != nil || n != len(b) {
		return false
	}
	b[4], b[9] = 0, 1 // of another version Open says that it is
	return string(b[:len(prefix)]) == prefix && b[prefixSize-2] <= byte(KindOptimizer-1) &&
		b[prefixSize-1] == 0
}

// A Shape is a shape as the format has it: dimensions, from the fastest to the slowest in
// memory, and a batch, the number of samples. Dims of a Shape that was read has no
// trailing ones, which have no meaning.
type Shape struct {
	Dims  []uint32
	Batch uint32 // 0 is taken for 1
}

// Tensor returns the shape of a tensor: the dimensions without trailing ones, then the
// batch if it is above 1.
func (s Shape) Tensor() tensor.Shape {
	t := tensor.Shape{}
	for _, d := range s.stripped() {
		t = append(t, int64(d))
	}
	if s.Batch > 1 {
		t = append(t, int64(s.Batch))
	}
	return t
}

// String writes [2,3]x5 as the reference does.
func (s Shape) String() string {
	dims := strings.ReplaceAll(fmt.Sprint(s.stripped()), " ", ",")
	return fmt.Sprintf("%sx%d", dims, max(s.Batch, 1))
}

func (s Shape) stripped() []uint32 {
	dims := s.Dims
	for len(dims) > 0 && dims[len(dims)-1] == 1 {
		dims = dims[:len(dims)-1]
	}
	return dims
}

// below reports what keeps a shape of fewer than limit elements out of a file.
func (s Shape) below(limit uint64) error {
	dims := s.stripped()
	if len(dims) > maxRank {
		return fmt.Errorf("%w: %d dimensions, primitiv has at most %d",
			errors.ErrUnsupported, len(dims), maxRank)
	}
	elements := uint64(max(s.Batch, 1))
	for i, d := range dims {
		if d == 0 {
			return fmt.Errorf("%w: dimension %d is 0, primitiv has no empty tensors",
				errors.ErrUnsupported, i)
		}
		if elements < limit { // times 2^32, that does not overflow
			elements *= uint64(d)
		}
	}
	if elements >= limit {
		return fmt.Errorf("%w: %v has 2^%d elements or more", errors.ErrUnsupported, s,
			bits.Len64(limit-1))
	}
	return nil
}

// shapeOf turns the shape of a tensor into the format's, the last dimension being the
// batch if batch is above 1.
func shapeOf(t tensor.Shape, batch uint32) (Shape, error) {
	s := Shape{Batch: max(batch, 1)}
	if batch > 1 {
		n := len(t) - 1
		if n < 0 || t[n] != int64(batch) {
			return s, fmt.Errorf("%w: the last dimension of %v is not the batch %d",
				fs.ErrInvalid, t, batch)
		}
		t = t[:n]
	}
	for i, d := range t {
		if d < 0 || d > math.MaxUint32 {
			return s, fmt.Errorf("%w: dimension %d of %v is not a 32-bit number",
				errors.ErrUnsupported, i, t)
		}
		s.Dims = append(s.Dims, uint32(d))
	}
	s.Dims = s.stripped()
	return s, s.below(maxElements)
}

// A Parameter is a trainable array: its value, and what optimizers keep for it.
type Parameter struct {
	Path  []string // names from the root of the model down; empty in a parameter file
	Value *tensor.Tensor
	Stats []Statistic
}

// A Statistic is a tensor that an optimizer keeps for a value, such as Adam.m1.
type Statistic struct {
	Name   string
	Tensor *tensor.Tensor
	Batch  uint32 // above 1, the last dimension of the tensor is the batch
}

// Name returns the path joined with dots, or value for the parameter of a parameter file.
func (p *Parameter) Name() string { return parameterName(p.Path) }

func parameterName(path []string) string {
	if len(path) == 0 {
		return "value"
	}
	return strings.Join(path, ".")
}
