package ptn

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptnfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A TensorInfo describes a tensor of a program.
type TensorInfo struct {
	DType tensor.DType // tensor.Unknown for numbers that the schema does not name
	Dims  []Dim
	// Order is the order of the value in the graph: weights are stored row-major. It
	// may be no permutation of the dimensions.
	Order tensor.Order
	// Quant says what packed elements mean; nil if they are not packed.
	Quant *Quant
}

// A Dim is the range of sizes that a dimension may have. Max is negative where there is
// no upper bound.
type Dim struct{ Min, Max int64 }

// String writes one number where the size is fixed, else a range such as 2…16 or 2….
func (d Dim) String() string {
	s := strconv.FormatInt(d.Min, 10)
	switch {
	case d.Max < 0:
		return s + "…"
	case d.Min != d.Max:
		return s + "…" + strconv.FormatInt(d.Max, 10)
	}
	return s
}

// A Quant describes packed elements: by a Codec, or, for an unsigned integer q and a
// group of elements along the last dimension, as Scale × (q + Min − ZeroPoint).
type Quant struct {
	Codec string // "": groups
	// Scale and ZeroPoint are names of tensors; ZeroPoint is "" where it is 0.
	Scale, ZeroPoint           string
	ScaleDType, ZeroPointDType tensor.DType
	Min, Max                   int32
	GroupSize                  int32 // 0 is all of the dimension
}

// Bits returns how many bits an element takes, 0 where that is not a whole number.
func (q *Quant) Bits() int {
	n := int64(q.Max) - int64(q.Min) + 1
	if n <= 0 || n&(n-1) != 0 {
		return 0
	}
	return bits.Len64(uint64(n)) - 1
}

func infoOf(t *ptnfb.TensorMeta) TensorInfo {
	i := TensorInfo{DType: dtypes[t.Dtype()], Dims: make([]Dim, 0, t.SizesLength())}
	for _, d := range fb.Each(t.SizesLength(), t.Sizes) {
		i.Dims = append(i.Dims, Dim{d.Min(), d.Max()})
	}
	for k := range t.DimOrderLength() {
		i.Order = append(i.Order, int(t.DimOrder(k)))
	}
	var x flatbuffers.Table
	if q := t.Quant(nil); q != nil && q.Scheme(&x) {
		switch q.SchemeType() {
		case ptnfb.QuantSchemeAffineGroup:
			a := as[ptnfb.AffineGroup](x)
			i.Quant = &Quant{Scale: string(a.ScaleDataKey()), Min: a.QuantMin(), Max: a.QuantMax(),
				ZeroPoint: string(a.ZeroPointDataKey()), ScaleDType: dtypes[a.ScaleDtype()],
				ZeroPointDType: dtypes[a.ZeroPointDtype()], GroupSize: a.GroupSize()}
		case ptnfb.QuantSchemePackedQuant:
			i.Quant = &Quant{Codec: string(as[ptnfb.PackedQuant](x).Codec())}
		}
	}
	return i
}

// Shape returns the largest shape that the tensor may have. A dimension without an upper
// bound has its least size.
func (i TensorInfo) Shape() tensor.Shape {
	s := make(tensor.Shape, len(i.Dims))
	for k, d := range i.Dims {
		if s[k] = d.Max; d.Max < 0 {
			s[k] = d.Min
		}
	}
	return s
}

// String writes dtype and shape and, where they matter, order and packing, such as
// float32[2, 1…16], or uint8[8, 64] of 4 bits.
func (i TensorInfo) String() string {
	parts := make([]string, len(i.Dims))
	for k, d := range i.Dims {
		parts[k] = d.String()
	}
	s := i.DType.String() + "[" + strings.Join(parts, ", ") + "]"
	if !i.Order.RowMajor() {
		s += fmt.Sprintf(" order %v", []int(i.Order))
	}
	switch q := i.Quant; {
	case q == nil:
		return s
	case q.Codec != "":
		return s + " of " + strconv.Quote(q.Codec)
	default:
		return s + fmt.Sprintf(" of %d bits", q.Bits())
	}
}

var dtypes = map[ptnfb.ScalarType]tensor.DType{
	ptnfb.ScalarTypeBYTE: tensor.U8, ptnfb.ScalarTypeCHAR: tensor.I8,
	ptnfb.ScalarTypeSHORT: tensor.I16, ptnfb.ScalarTypeINT: tensor.I32,
	ptnfb.ScalarTypeLONG: tensor.I64, ptnfb.ScalarTypeHALF: tensor.F16,
	ptnfb.ScalarTypeFLOAT: tensor.F32, ptnfb.ScalarTypeDOUBLE: tensor.F64,
	ptnfb.ScalarTypeBOOL: tensor.Bool, ptnfb.ScalarTypeBFLOAT16: tensor.BF16,
	ptnfb.ScalarTypeUINT16: tensor.U16, ptnfb.ScalarTypeUINT32: tensor.U32,
	ptnfb.ScalarTypeUINT64: tensor.U64,
}
