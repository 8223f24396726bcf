package quant

import (
	"encoding/binary"

	"github.com/tensorfile/tensorfile/tensor"
)

// affine codes are the elements of a quantised tensor of torch. Its scales and zero
// points are parts of the tensor: one of each, or one for each index of a dimension,
// which the matrix has as rows. torch computes in float32 with one scale, and in float64
// with several; if the zero points are floats, always in float32.
type affine struct {
	packed
	dtype       tensor.DType
	scale, zero *tensor.Tensor
	scales      []float64 // read with integer zero points
	zeros       []int64
	scales32    []float32 // read with zero points that are floats
	zeros32     []float32
}

// elementTypes are the dtypes of quantised tensors, with the beginning of their scheme.
var elementTypes = map[tensor.DType]string{tensor.QI8: "int8", tensor.QU8: "uint8",
	tensor.QI32: "int32"}

// affine makes a weight of t, and reports true, if t is a quantised tensor of torch.
func (f *finder) affine(t *tensor.Tensor) bool {
	kind, ok := elementTypes[t.DType]
	if !ok || t.Part("scale") == nil && t.Part("scales") == nil {
		return false
	}
	b := f.begin("torch", kind+"-tensor", t.Name, t.Name, t, t.Shape)
	a := &affine{dtype: t.DType}
	m := &matrix{codes: a}
	m.batch, m.rows, m.cols = matrixOf(t.Shape)
	count := tensor.Shape{}
	roles := [2]string{"scale", "zero_point"}
	if t.Part("scale") == nil {
		roles = [2]string{"scales", "zero_points"}
		b.Scheme = kind + "-channel"
		axis, err := tensor.Load[int64](partOf(t, "axis", count))
		if err != nil || len(axis) != 1 || axis[0] < 0 || axis[0] >= int64(len(t.Shape)) {
			b.refuse(QuantizationState, "the axis of its scales")
			return true
		}
		at := int(axis[0])
		count = tensor.Shape{t.Shape[at]}
		m.batch, _ = t.Shape[:at].Elements()
		m.rows = t.Shape[at]
		m.cols, _ = t.Shape[at+1:].Elements()
	}
	a.scale, a.zero = partOf(t, roles[0], count), partOf(t, roles[1], count)
	if a.scale.Check() != nil || a.zero.Check() != nil ||
		!(a.scale.DType == tensor.F64 && a.zero.DType == tensor.I64 ||
			a.scale.DType == tensor.F32 && a.zero.DType == tensor.F32) {
		b.refuse(ScaleShape, "%s and %s of %v do not fit it", roles[0], roles[1], a.zero.DType)
		return true
	}
	size := int64(t.DType.Size())
	a.packed = packed{input: input{t.Data}, rows: m.rows, rowBytes: m.cols * size, per: 1,
		unit: size}
	b.complete(m, false, a.read)
	return true
}

// partOf returns a part as a tensor, which has no data if there is no such part.
func partOf(t *tensor.Tensor, role string, shape tensor.Shape) *tensor.Tensor {
	x := &tensor.Tensor{Name: t.Name + ":" + role, Shape: shape}
	if p := t.Part(role); p != nil {
		x.DType, x.Data = p.DType, p.Data
	}
	return x
}

// read reads the scales and zero points.
func (a *affine) read() (err error) {
	if a.zero.DType == tensor.F32 {
		if a.scales32, err = tensor.Load[float32](a.scale); err == nil {
			a.zeros32, err = tensor.Load[float32](a.zero)
		}
		return err
	}
	if a.scales, err = tensor.Load[float64](a.scale); err == nil {
		a.zeros, err = tensor.Load[int64](a.zero)
	}
	return err
}

// countScales counts scales, and zero points that are floats, after read.
func (a *affine) countScales() (scales, zeros counts) {
	for _, x := range a.scales {
		scales.add(x)
	}
	for i, x := range a.scales32 {
		scales.add(float64(x))
		zeros.add(float64(a.zeros32[i]))
	}
	return scales, zeros
}

func (a *affine) inputs() []*input { return []*input{&a.input} }

func (a *affine) decode(dst []float32, in []byte, from area, r, c int64) {
	first, end := a.span(from)
	row := in[(r-from.r0)*(end-first):][c*a.unit-first:]
	k := int(r)
	if len(a.scale.Shape) == 0 {
		k = 0
	}
	for i := range dst {
		q := a.element(row, i)
		switch {
		case a.scales32 != nil:
			dst[i] = (float32(q) - a.zeros32[k]) * a.scales32[k]
		case len(a.scale.Shape) == 0:
			dst[i] = float32(q-a.zeros[k]) * float32(a.scales[k])
		default:
			dst[i] = float32(float64(float32(q)-float32(a.zeros[k])) * a.scales[k])
		}
	}
}

// element returns an element of a row.
func (a *affine) element(row []byte, i int) int64 {
	switch a.dtype {
	case tensor.QI8:
		return int64(int8(row[i]))
	case tensor.QU8:
		return int64(row[i])
	}
	return int64(int32(binary.LittleEndian.Uint32(row[4*i:])))
}
