package quant

import (
	"fmt"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// stateSuffix follows the name of a weight in the name of its state, before nf4 or fp4.
const stateSuffix = ".quant_state.bitsandbytes__"

// readStates finds the states of bitsandbytes: tensors of JSON, each for a weight of 4
// bits.
func (f *finder) readStates() {
	for _, t := range f.order {
		if i := strings.Index(t.Name, stateSuffix); i >= 0 && f.stored[t.Name[:i]] != nil {
			f.states[t.Name[:i]] = t
		}
	}
}

// readJSON returns the JSON object in a tensor of bytes.
func (f *finder) readJSON(t *tensor.Tensor) (object, error) {
	if f.get(t.Name) != t || t.DType != tensor.U8 || t.Data.Size() > maxJSON {
		return nil, fmt.Errorf("%v of %v is no JSON", t.Shape, t.DType)
	}
	b, err := f.loaded(t).Data.ReadAll()
	if err != nil {
		return nil, err
	}
	return parseObject(b)
}

// A bnbState is the state of a weight: nested fields are for scales that are quantised
// too.
type bnbState struct {
	kind             string       // nf4 or fp4
	values           *[16]float32 // of codes
	size, nestedSize int64        // elements that share a scale, scales that share one
	offset           float64      // is added to nested scales
	shape            tensor.Shape
	dtype            string
	elements         int64
}

// maxRank bounds the shapes in JSON.
const maxRank = 64

func readState(o object) (s bnbState, err error) {
	number := func(key string) (n int64, ok bool) {
		n, ok, e := get[int64](o, key)
		if e != nil || ok && (n < 1 || n > maxGroup) {
			err = fmt.Errorf("%s is %s", key, o[key])
		}
		return max(n, 1), ok
	}
	var ok, elements bool
	if s.size, ok = number("blocksize"); !ok {
		err = errorf(tensor.ErrMalformed, "blocksize", "absent")
	}
	s.nestedSize, _ = number("nested_blocksize")
	s.offset = optional[float64](o, "nested_offset")
	s.shape = optional[tensor.Shape](o, "shape")
	s.dtype = optional[string](o, "dtype")
	s.kind = optional[string](o, "quant_type")
	s.values = map[string]*[16]float32{"nf4": nf4, "fp4": fp4}[s.kind]
	s.elements, elements = s.shape.Elements()
	if err == nil && (s.values == nil || !elements || s.shape == nil || len(s.shape) > maxRank) {
		err = fmt.Errorf("quant_type %q, shape %v", s.kind, s.shape)
	}
	return s, err
}

// bitsAndBytes makes a weight of NF4 or FP4 codes: a stream of nibbles, the high one
// first, in blocks that do not end with rows.
func (f *finder) bitsAndBytes(t *tensor.Tensor) {
	b := f.begin("bnb4", "bnb", t.Name, t.Name, t, nil)
	b.expected = true
	f.add(b.Weight, "state", f.states[t.Name])
	absmax, mapping := b.part("scale", ".absmax"), b.part("map", ".quant_map")
	nested, nestedMap := b.part("nested-scale", ".nested_absmax"),
		b.part("nested-map", ".nested_quant_map")
	o, err := f.readJSON(f.states[t.Name])
	var s bnbState
	if err == nil {
		s, err = readState(o)
	}
	if err == nil && (f.get(t.Name) != t || t.Data.Size() != s.elements/2+s.elements%2) {
		err = fmt.Errorf("shape %v, of %d bytes", s.shape, t.Data.Size())
	}
	if !b.check(QuantizationState, err) {
		return
	}
	b.Scheme, b.Tensor.Shape = "bnb-"+s.kind, s.shape
	blocks := ceil(s.elements, s.size)
	f32 := []tensor.DType{tensor.F32}
	if !b.needs(absmax, ".absmax", []tensor.DType{tensor.F32, tensor.U8},
		tensor.Shape{blocks}) ||
		!b.needs(mapping, ".quant_map", f32, tensor.Shape{16}) {
		return
	}
	values, nestedValues := new([16]float32), new([256]float32)
	m := &matrix{batch: 1, rows: 1, cols: s.elements,
		codes: nibblesOf(t.Data, 1, t.Data.Size(), true, values)}
	m.scaled(absmax, 1, s.size)
	isNested := absmax.DType == tensor.U8
	if isNested {
		count := ceil(blocks, s.nestedSize)
		if !o.has("nested_offset") || !o.has("nested_blocksize") {
			b.refuse(QuantizationState, "no nested_offset or nested_blocksize")
		}
		if !b.needs(nested, ".nested_absmax", f32, tensor.Shape{count}) ||
			!b.needs(nestedMap, ".nested_quant_map", f32, tensor.Shape{256}) {
			return
		}
		grid := m.ops[0].grid
		grid.codes.(*packed).unpack = bytesOf(nestedValues)
		grid.scaled(nested, 1, s.nestedSize)
		grid.ops = append(grid.ops, all(add, constantOf(float32(s.offset)), 1, blocks))
	}
	b.complete(m, false, func() error {
		if err := tensor.LoadInto(values[:], mapping); err != nil {
			return err
		}
		if *values != *s.values {
			return errorf(tensor.ErrMalformed, mapping.Name, "not the values of %s", s.kind)
		}
		if isNested {
			return tensor.LoadInto(nestedValues[:], nestedMap)
		}
		return nil
	})
	if d, err := tensor.ParseDType(s.dtype); err == nil {
		b.DType = d
	}
}

// nf4 has the values of NF4, by code.
var nf4 = &[16]float32{-1, -.6961928, -.52507305, -.3949175, -.28444138, -.18477343, -.091050036,
	0, .0795803, .1609302, .24611230, .33791524, .44070983, .562617, .72295684, 1}

// fp4 has the values of FP4 of bitsandbytes, by code; code 8 is 0 or -0.
var fp4 = &[16]float32{0, .0052083335, .6666667, 1, .33333334, .5, .16666667, .25,
	0, -.0052083335, -.6666667, -1, -.33333334, -.5, -.16666667, -.25}

// bnbInt8 makes a weight of LLM.int8: codes times the scale of their row times 1/127.
func (f *finder) bnbInt8(t *tensor.Tensor, base string) {
	b := f.begin("bnb8", "bnb-int8", t.Name, base, t, t.Shape)
	scb, format := b.part("scale", ".SCB"), b.part("state", ".weight_format")
	if format != nil {
		if f.get(format.Name) == nil || format.DType != tensor.U8 || format.Data.Size() != 1 {
			b.refuse(QuantizationState, "weight_format is %v of %v", format.Shape, format.DType)
			return
		}
		v, err := f.loaded(format).Data.ReadAll()
		if !b.check(QuantizationState, err) {
			return
		}
		if v[0] != 0 {
			b.refuse(UnknownQuantization, "weight_format is %d: not rows", v[0])
		}
	}
	rows, cols := t.Shape[0], t.Shape[1]
	if b.needs(scb, ".SCB", []tensor.DType{tensor.F32}, tensor.Shape{rows}) {
		m := table(t, 1, rows, cols).scaled(scb, 1, cols)
		m.ops = append(m.ops, all(multiply, constantOf(1.0/127), rows, cols))
		b.complete(m, false, nil)
	}
}
