package rten

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// writeRule says what the graph builder stores where the caller gives nothing.
type writeRule uint8

const (
	fill   writeRule = iota // ONNX's default, explicitly
	omit                    // nothing: absence has the meaning of ONNX's default
	demand                  // ONNX has no default
)

// An attrFact is what the types of the schema do not say of an attribute.
type attrFact struct {
	onnx  float64 // what ONNX means by an absent one, the schema by most something else
	write writeRule
	since release // 0: as old as the operator
}

func factOf(t *fb.Table, f *fb.Field) attrFact {
	fact := attrFacts[t.Name+"."+f.Name]
	if f.Optional {
		fact.write = omit
	}
	return fact
}

// builtAttrs is a table of attributes, ready to be encoded.
type builtAttrs struct {
	tag    rtenfb.OperatorAttrs
	fields []builtAttr // of which some may be absent
}

// A builtAttr holds what its field's type asks for.
type builtAttr struct {
	field *fb.Field
	set   bool
	bits  uint32        // numbers, bools, enums, scalars
	tag   rtenfb.Scalar // of a scalar
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
	spec := &rules[op]
	if spec.use == ignored {
		if len(attrs) > 0 {
			return nil, errors.New("it has no attributes")
		}
		return nil, nil
	}
	table := attrTable(int(spec.attrs))
	out := &builtAttrs{tag: spec.attrs}
	var errs []error
	used := 0
	for i := range table.Fields {
		f := &table.Fields[i]
		if f.Type == fb.Tag {
			continue
		}
		fact := factOf(table, f)
		v, given := attrs[f.Name]
		if given {
			used++
		}
		a := builtAttr{field: f}
		var err error
		switch {
		case given && v != nil:
			err = a.convert(g, v)
		case fact.write == demand:
			err = fmt.Errorf("%w: ONNX has no default for it", tensor.ErrMalformed)
		case fact.write == fill:
			a.fill(attrs, fact.onnx, rank)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("attribute %s: %w", f.Name, err))
		}
		out.fields = append(out.fields, a)
	}
	if used < len(attrs) {
		var have, unknown []string
		for _, f := range out.fields {
			have = append(have, f.field.Name)
		}
		for name := range attrs {
			if !slices.Contains(have, name) {
				unknown = append(unknown, quote.Name(name))
			}
		}
		slices.Sort(unknown)
		errs = append(errs,
			fmt.Errorf("no attribute is named %s; there are %s", strings.Join(unknown, ", "),
				strings.Join(have, ", ")))
	}
	return out, errors.Join(errs...)
}

// fill stores ONNX's default.
func (a *builtAttr) fill(given Attrs, onnx float64, rank int) {
	a.set = true
	f := a.field
	switch {
	case f.Kind == fb.Union:
		a.tag = rtenfb.ScalarFloatScalar
	case f.Kind == fb.Scalars:
		n, x := rank, byte(1) // strides and dilations
		if f.Name == "pads" {
			n, x = 2*rank, 0
			same, err := enumNumber("AutoPad", given["auto_pad"])
			if err == nil && same == uint32(rtenfb.AutoPadSame) {
				a.set = false // they follow from the input
				return
			}
		}
		a.list = bytes.Repeat([]byte{x, 0, 0, 0}, n)
	case f.Type == fb.Float32:
		a.bits = math.Float32bits(float32(onnx))
	default:
		a.bits = uint32(int32(onnx))
	}
}

// convert stores what the caller gave.
func (a *builtAttr) convert(g *GraphBuilder, v any) (err error) {
	a.set = true
	switch f := a.field; {
	case f.Enum != 0:
		a.bits, err = enumNumber(rtenfb.Schema.Enums[f.Enum-1].Name, v)
	case f.Kind == fb.String:
		s, ok := v.(string)
		if !ok || !utf8.ValidString(s) {
			return mistyped(v, "a string in UTF-8")
		}
		a.text = s
	case f.Kind == fb.Scalars && f.Type == fb.Int32:
		err = a.vector(v, math.MinInt32, math.MaxInt32)
	case f.Kind == fb.Scalars:
		err = a.vector(v, 0, math.MaxUint32)
	case f.Kind == fb.Child:
		sub, ok := v.(*GraphBuilder)
		switch {
		case !ok || sub == nil:
			return mistyped(v, "a *GraphBuilder")
		case sub.up != g:
			return fmt.Errorf("%w: the graph is not a Subgraph of the one that it is used in",
				tensor.ErrMalformed)
		}
		a.graph = sub
	case f.Kind == fb.Union:
		a.tag = rtenfb.ScalarIntScalar
		if a.bits, err = int32Bits(v); err != nil {
			a.tag = rtenfb.ScalarFloatScalar
			a.bits, err = float32Bits(v)
		}
	case f.Type == fb.Int32:
		a.bits, err = int32Bits(v)
	case f.Type == fb.Uint32:
		var n int64
		n, err = integer(v, 0, math.MaxUint32)
		a.bits = uint32(n)
	case f.Type == fb.Float32:
		a.bits, err = float32Bits(v)
	default: // a bool
		if b, ok := v.(bool); ok {
			if b {
				a.bits = 1
			}
			return nil
		}
		var n int64
		n, err = integer(v, 0, 1)
		a.bits = uint32(n)
	}
	return err
}

// mistyped is the error of a value of another type than what is required.
func mistyped(v any, required string) error {
	return fmt.Errorf("%w: %T where %s is required", tensor.ErrMalformed, v, required)
}

func int32Bits(v any) (uint32, error) {
	n, err := integer(v, math.MinInt32, math.MaxInt32)
	return uint32(int32(n)), err
}

func (a *builtAttr) vector(v any, lo, hi int64) error {
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice && list.Kind() != reflect.Array {
		return mistyped(v, "a slice of integers")
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
		return 0, mistyped(v, "an integer")
	}
	if n < lo || n > hi {
		return 0, fmt.Errorf("%w: %d is not between %d and %d", tensor.ErrMalformed, n, lo, hi)
	}
	return n, nil
}

// float32Bits takes any Go number.
func float32Bits(v any) (uint32, error) {
	x := reflect.ValueOf(v)
	var n float64
	switch {
	case x.CanFloat():
		n = x.Float()
	case x.CanInt():
		n = float64(x.Int())
	case x.CanUint():
		n = float64(x.Uint())
	default:
		return 0, mistyped(v, "a number")
	}
	return math.Float32bits(float32(n)), nil
}

// enumNumber is a value of an enum, by name, number or Enum.
func enumNumber(enum string, v any) (uint32, error) {
	names := enumNames(enum)
	switch x := v.(type) {
	case Enum:
		if x.Type != enum {
			return 0, fmt.Errorf("%w: %s where %s is required", tensor.ErrMalformed, x.Type, enum)
		}
		v = x.Number
	case tensor.DType:
		if n, ok := dataTypeNumber(x); ok && enum == dataTypeEnum {
			return uint32(n), nil
		}
		return 0, fmt.Errorf("%w: %v is not a %s", tensor.ErrDType, x, enum)
	case string:
		if n := slices.Index(names, x); n >= 0 {
			return uint32(n), nil
		}
		return 0, fmt.Errorf("%w: %s is not a %s; there are %s", tensor.ErrMalformed,
			quote.Name(x), enum, strings.Join(names, ", "))
	}
	n, err := integer(v, 0, int64(len(names)-1))
	return uint32(n), err
}
