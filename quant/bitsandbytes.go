package quant

import (
	"fmt"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// stateSuffix begins the last part of the name of a tensor of JSON, before its type.
const stateSuffix = ".quant_state.bitsandbytes__"

// readStates finds the tensors of JSON that make other tensors weights of 4 bits.
func (f *finder) readStates() {
	for _, t := range f.order {
		if i := strings.Index(t.Name, stateSuffix); i >= 0 && f.stored[t.Name[:i]] != nil {
			f.states[t.Name[:i]] = t
		}
	}
}

// readJSON reads the object that a tensor of bytes holds.
func (f *finder) readJSON(t *tensor.Tensor) (object, error) {
	if f.get(t.Name) != t || t.DType != tensor.U8 || t.Data.Size() > maxJSON {
		return nil, fmt.Errorf("%v of %v is no JSON", t.Shape, t.DType)
	}
	b, err := t.Data.ReadAll()
	if err != nil {
		return nil, err
	}
	return parseObject(b)
}

// maxRank bounds the shapes in JSON.
const maxRank = 64

// bitsAndBytes is for NF4 and FP4: a stream of nibbles, the high one first, in blocks
// that run over the ends of rows.
func (f *finder) bitsAndBytes(t *tensor.Tensor) {
	state := f.states[t.Name]
	w := f.weight(t.Name, "bnb-"+state.Name[len(t.Name)+len(stateSuffix):], t)
	absmax, mapping := f.stored[t.Name+".absmax"], f.stored[t.Name+".quant_map"]
	nested, nestedMap := f.stored[t.Name+".nested_absmax"], f.stored[t.Name+".nested_quant_map"]
	f.add(f.add(f.add(w, "scale", absmax), "map", mapping), "state", state)
	f.add(f.add(w, "nested-scale", nested), "nested-map", nestedMap)
	o, err := f.readJSON(state)
	if err != nil {
		f.refuse(w, QuantizationState, "quant_state: %v", err)
		return
	}
	kind, _, err := get[string](o, "quant_type")
	size, err := block(o, "blocksize", err)
	shape, _, err := getAfter[tensor.Shape](o, "shape", err)
	n, ok := shape.Elements()
	known := map[string]*[16]float32{"nf4": nf4, "fp4": fp4}[kind]
	if err == nil && (known == nil || !ok || len(shape) > maxRank || shape == nil) {
		err = fmt.Errorf("quant_type %q, shape %v", kind, shape)
	}
	if err != nil {
		f.refuse(w, QuantizationState, "quant_state: %v", err)
		return
	}
	w.Scheme = "bnb-" + kind
	if w.Tensor.Shape = shape; t.Data.Size() != n/2+n%2 || f.get(t.Name) == nil {
		w.Tensor.Shape = nil
		f.refuse(w, QuantizationState, "quant_state: shape %v, of %d bytes", shape,
			t.Data.Size())
		return
	}
	if absmax == nil || mapping == nil {
		f.refuse(w, MissingScale, "no %s.absmax or .quant_map", t.Name)
		return
	}
	if !isVector(f.get(absmax.Name), absmax.DType, ceil(n, size)) ||
		!isVector(f.get(mapping.Name), tensor.F32, 16) {
		f.refuse(w, ScaleShape, "absmax is %v, quant_map %v; [%d] and [16] are due",
			absmax.Shape,
			mapping.Shape, ceil(n, size))
		return
	}
	values := new([16]float32)
	m := &matrix{batch: 1, rows: 1, cols: n, codes: nibblesOf(t.Data, 1, t.Data.Size(), true,
		values)}
	scale := table(absmax, 1, 1, ceil(n, size))
	var nestedValues *[256]float32
	switch {
	case absmax.DType == tensor.F32:
	case absmax.DType != tensor.U8:
		f.refuse(w, ScaleDType, "absmax is %v", absmax.DType)
		return
	case nested == nil || nestedMap == nil:
		f.refuse(w, MissingScale,
			"absmax is uint8, and no %s.nested_absmax or .nested_quant_map", t.Name)
		return
	default:
		nestedSize, err := block(o, "nested_blocksize", nil)
		offset, has, err := getAfter[float64](o, "nested_offset", err)
		if err != nil || !has {
			f.refuse(w, QuantizationState, "quant_state: no nested_offset, or %v", err)
			return
		}
		if !isVector(f.get(nested.Name), tensor.F32, ceil(scale.cols, nestedSize)) ||
			!isVector(f.get(nestedMap.Name), tensor.F32, 256) {
			f.refuse(w, ScaleShape,
				"nested_absmax is %v, nested_quant_map %v; [%d] and [256] are due",
				nested.Shape, nestedMap.Shape, ceil(scale.cols, nestedSize))
			return
		}
		nestedValues = new([256]float32)
		scale.codes.(*packed).unpack = bytesOf(nestedValues)
		scale.ops = []operation{
			each(multiply, table(nested, 1, 1, ceil(scale.cols, nestedSize)), 1, nestedSize),
			all(add, constantOf(float32(offset)), 1, scale.cols)}
	}
	m.ops = []operation{each(multiply, scale, 1, size)}
	f.complete("bnb4", w, shape, m, false, func() error {
		if err := readMap(mapping, values[:]); err != nil {
			return err
		}
		for i, v := range known {
			if v != values[i] {
				return errorf(tensor.ErrMalformed, mapping.Name, "not the values of %s", kind)
			}
		}
		if nestedValues != nil {
			return readMap(nestedMap, nestedValues[:])
		}
		return nil
	})
	if d, err := tensor.ParseDType(optional[string](o, "dtype")); err == nil && w.Err == nil {
		w.DType = d
	}
}

// block returns a size of blocks.
func block(o object, key string, err error) (int64, error) {
	size, ok, err := getAfter[int64](o, key, err)
	if err == nil && (!ok || size < 1 || size > maxGroup) {
		err = fmt.Errorf("%s is %d", key, size)
	}
	return max(size, 1), err
}

// getAfter is get, unless there is an error already.
func getAfter[T any](o object, key string, err error) (v T, ok bool, _ error) {
	if err != nil {
		return v, false, err
	}
	return get[T](o, key)
}

func isVector(t *tensor.Tensor, d tensor.DType, n int64) bool {
	return t != nil && t.DType == d && t.Shape.Equal(tensor.Shape{n})
}

// readMap reads the values of codes.
func readMap(t *tensor.Tensor, values []float32) error {
	return tensor.LoadInto(values, t)
}

// nf4 are the values of NF4, by code.
var nf4 = &[16]float32{-1, -.6961928, -.52507305, -.3949175, -.28444138, -.18477343, -.091050036,
	0,
	.0795803, .1609302, .24611230, .33791524, .44070983, .562617, .72295684, 1}

// fp4 are the values of FP4 of bitsandbytes, by code; code 8 is 0 or -0.
var fp4 = &[16]float32{0, .0052083335, .6666667, 1, .33333334, .5, .16666667, .25,
	0, -.0052083335, -.6666667, -1, -.33333334, -.5, -.16666667, -.25}

// bnbInt8 is for LLM.int8: a scale for each row, times 1/127.
func (f *finder) bnbInt8(t *tensor.Tensor, base string, scb *tensor.Tensor) {
	format := f.stored[base+".weight_format"]
	w := f.add(f.add(f.weight(t.Name, "bnb-int8", t), "scale", scb), "state", format)
	w.Tensor.Shape = t.Shape
	if format != nil {
		b, err := []byte(nil), fmt.Errorf("%v of %v", format.Shape, format.DType)
		if f.get(format.Name) != nil && format.DType == tensor.U8 && format.Data.Size() == 1 {
			b, err = format.Data.ReadAll()
		}
		if err != nil {
			f.refuse(w, QuantizationState, "weight_format: %v", err)
			return
		}
		if b[0] != 0 {
			f.refuse(w, UnknownQuantization, "weight_format is %d: not rows", b[0])
			return
		}
	}
	if f.get(scb.Name) == nil {
		f.refuse(w, ScaleShape, "SCB has no data of its shape")
		return
	}
	rows, cols := t.Shape[0], t.Shape[1]
	m := table(t, 1, rows, cols)
	m.ops = []operation{each(multiply, table(scb, 1, rows, 1), 1, max(cols, 1)),
		all(multiply, constantOf(1.0/127), rows, cols)}
	f.complete("bnb8", w, t.Shape, m, false, nil)
}
