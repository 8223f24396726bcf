package rten

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/tensor"
)

// builtAttrs is a table of attributes, ready to be encoded.
type builtAttrs struct {
	table  *attrTable
	tag    int
	fields []builtAttr // of which some may be absent
}

// A builtAttr holds what its field's type asks for.
type builtAttr struct {
	field *attrField
	set   bool
	bits  uint32 // numbers, bools, enums, scalars
	kind  uint8  // of a scalar: the tag of its union
	text  string
	list  []byte // little-endian elements of four bytes
	graph *GraphBuilder
}

func (a *builtAttrs) graphs() []*GraphBuilder {
	if a == nil {
		return nil
	}
	var list []*GraphBuilder
	for _, f := range a.fields {
		if f.graph != nil {
			list = append(list, f.graph)
		}
	}
	return list
}

// attributes checks the caller's attributes and fills in ONNX's defaults, rank
// dimensions of them where it depends.
func (g *GraphBuilder) attributes(op OpType, attrs Attrs, rank int) (*builtAttrs, error) {
	spec := &operators[op]
	if spec.use == ignored {
		if len(attrs) > 0 {
			return nil, errors.New("it has no attributes")
		}
		return nil, nil
	}
	table := &attrTables[spec.attrs]
	out := &builtAttrs{table: table, tag: int(spec.attrs)}
	var errs []error
	used := 0
	for i := range table.fields {
		f := &table.fields[i]
		v, given := attrs[f.name]
		if given {
			used++
		}
		a := builtAttr{field: f}
		var err error
		switch {
		case given && v != nil:
			err = a.convert(g, v)
		case f.write == demand:
			err = fmt.Errorf("%w: ONNX has no default for it", tensor.ErrMalformed)
		case f.write == fill:
			a.fill(attrs, rank)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("attribute %s: %w", f.name, err))
		}
		out.fields = append(out.fields, a)
	}
	if used < len(attrs) {
		var have, unknown []string
		for i := range table.fields {
			have = append(have, table.fields[i].name)
		}
		for name := range attrs {
			if !slices.Contains(have, name) {
				unknown = append(unknown, tensor.Quote(name))
			}
		}
		slices.Sort(unknown)
		errs = append(errs, fmt.Errorf("no attribute is called %s; there are %s", strings.Join(unknown, ", "), strings.Join(have, ", ")))
	}
	return out, errors.Join(errs...)
}

// fill stores ONNX's default.
func (a *builtAttr) fill(given Attrs, rank int) {
	a.set = true
	f := a.field
	switch f.typ {
	case isFloat32:
		a.bits = math.Float32bits(float32(f.onnx))
	case isInt32:
		a.bits = uint32(int32(f.onnx))
	case isScalar:
		a.kind = 2 // a float of 0
	case isUint32s:
		if pad, ok := given["auto_pad"]; ok && f.name == "pads" {
			if n, err := enumNumber(isAutoPad, pad); err == nil && n == 0 {
				a.set = false // Same: they follow from the input
				return
			}
		}
		n, x := rank, uint32(1)
		if f.fill == zeros4 {
			n, x = 2*rank, 0
		}
		for range n {
			a.list = binary.LittleEndian.AppendUint32(a.list, x)
		}
	default:
		a.bits = uint32(f.onnx)
	}
}

// convert stores what the caller gave.
func (a *builtAttr) convert(g *GraphBuilder, v any) (err error) {
	a.set = true
	switch t := a.field.typ; t {
	case isInt32:
		var n int64
		n, err = integer(v, math.MinInt32, math.MaxInt32)
		a.bits = uint32(int32(n))
	case isUint32:
		var n int64
		n, err = integer(v, 0, math.MaxUint32)
		a.bits = uint32(n)
	case isFloat32:
		var x float64
		x, err = number(v)
		a.bits = math.Float32bits(float32(x))
	case isBool:
		if b, ok := v.(bool); ok {
			if b {
				a.bits = 1
			}
			return nil
		}
		var n int64
		n, err = integer(v, 0, 1)
		a.bits = uint32(n)
	case isString:
		s, ok := v.(string)
		if !ok || !utf8.ValidString(s) {
			return fmt.Errorf("%w: %T where a string in UTF-8 is wanted", tensor.ErrMalformed, v)
		}
		a.text = s
	case isInt32s:
		err = a.vector(v, math.MinInt32, math.MaxInt32)
	case isUint32s:
		err = a.vector(v, 0, math.MaxUint32)
	case isGraph:
		sub, ok := v.(*GraphBuilder)
		switch {
		case !ok || sub == nil:
			return fmt.Errorf("%w: %T where a *GraphBuilder is wanted", tensor.ErrMalformed, v)
		case sub.up != g:
			return fmt.Errorf("%w: the graph was not made by Subgraph of the one that it is used in", tensor.ErrMalformed)
		}
		a.graph = sub
	case isScalar:
		a.kind = 1
		var n int64
		if n, err = integer(v, math.MinInt32, math.MaxInt32); err == nil {
			a.bits = uint32(int32(n))
			return nil
		}
		a.kind = 2
		var x float64
		x, err = number(v)
		a.bits = math.Float32bits(float32(x))
	default:
		a.bits, err = enumNumber(t, v)
	}
	return err
}

func (a *builtAttr) vector(v any, lo, hi int64) error {
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice && list.Kind() != reflect.Array {
		return fmt.Errorf("%w: %T where a slice of integers is wanted", tensor.ErrMalformed, v)
	}
	for i := range list.Len() {
		n, err := integer(list.Index(i).Interface(), lo, hi)
		if err != nil {
			return err
		}
		a.list = binary.LittleEndian.AppendUint32(a.list, uint32(n))
	}
	return nil
}

// integer is any Go integer between lo and hi.
func integer(v any, lo, hi int64) (int64, error) {
	x := reflect.ValueOf(v)
	var n int64
	switch {
	case x.CanInt():
		n = x.Int()
	case x.CanUint() && x.Uint() <= math.MaxInt64:
		n = int64(x.Uint())
	default:
		return 0, fmt.Errorf("%w: %T where an integer is wanted", tensor.ErrMalformed, v)
	}
	if n < lo || n > hi {
		return 0, fmt.Errorf("%w: %d is not between %d and %d", tensor.ErrMalformed, n, lo, hi)
	}
	return n, nil
}

// number is any Go number.
func number(v any) (float64, error) {
	x := reflect.ValueOf(v)
	switch {
	case x.CanFloat():
		return x.Float(), nil
	case x.CanInt():
		return float64(x.Int()), nil
	case x.CanUint():
		return float64(x.Uint()), nil
	}
	return 0, fmt.Errorf("%w: %T where a number is wanted", tensor.ErrMalformed, v)
}

// enumNumber is a value of an enum, by name, number or Enum.
func enumNumber(t attrType, v any) (uint32, error) {
	e := &enums[t-isDataType]
	switch x := v.(type) {
	case Enum:
		if x.Type != e.name {
			return 0, fmt.Errorf("%w: %s where %s is wanted", tensor.ErrMalformed, x.Type, e.name)
		}
		v = x.Number
	case tensor.DType:
		if n, ok := dataTypeNumber(x); ok && t == isDataType {
			return uint32(n), nil
		}
		return 0, fmt.Errorf("%w: %v is no %s", tensor.ErrDType, x, e.name)
	case string:
		var names []string
		for i := range e.values {
			if e.values[i].name == x {
				return uint32(i), nil
			}
			names = append(names, e.values[i].name)
		}
		return 0, fmt.Errorf("%w: %s is no %s; there are %s", tensor.ErrMalformed, tensor.Quote(x), e.name, strings.Join(names, ", "))
	}
	n, err := integer(v, 0, int64(len(e.values)-1))
	return uint32(n), err
}
