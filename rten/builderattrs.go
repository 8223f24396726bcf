package rten

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// writeRule says what the graph builder stores for an attribute that the caller does not
// give.
type writeRule uint8

const (
	fill   writeRule = iota // ONNX's default, explicitly
	omit                    // nothing: absence has the meaning of ONNX's default
	demand                  // ONNX has no default
)

// An attrFact has properties of an attribute that the schema does not have.
type attrFact struct {
	onnx  float64 // the default of ONNX; the schema has another for most
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

// attributes checks the caller's attributes and adds ONNX's defaults. rank is the number
// of spatial dimensions.
func (g *GraphBuilder) attributes(n *builtNode, attrs Attrs, rank int) error {
	spec := &rules[n.op]
	if spec.use == ignored {
		if len(attrs) > 0 {
			return fmt.Errorf("%w: it has no attributes", fs.ErrInvalid)
		}
		return nil
	}
	table := attrTable(int(spec.attrs))
	n.attrs = new(fb.Node)
	var have []string
	var errs []error
	for i := range table.Fields {
		f := &table.Fields[i]
		if f.Type == fb.Tag {
			continue
		}
		have = append(have, f.Name)
		fact := factOf(table, f)
		var err error
		switch v := attrs[f.Name]; {
		case v != nil:
			err = n.set(f, v, g)
		case fact.write == demand:
			err = fmt.Errorf("%w: ONNX has no default for it", fs.ErrInvalid)
		case fact.write == fill:
			n.fill(f, attrs, fact.onnx, rank)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("attribute %s: %w", f.Name, err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		if !slices.Contains(have, name) {
			errs = append(errs, fmt.Errorf("%w: no attribute is named %s; there are %s",
				fs.ErrInvalid, naming.Quote(name), strings.Join(have, ", ")))
		}
	}
	return errors.Join(errs...)
}

func (n *builtNode) setBits(f *fb.Field, bits uint32) {
	n.attrs.SetScalar(int(f.Slot), int(f.Size), uint64(bits))
}

// setUnion stores a member of the union Scalar.
func (n *builtNode) setUnion(f *fb.Field, tag rtenfb.Scalar, slot int, bits uint32) {
	n.attrs.SetScalar(int(f.TagSlot()), 1, uint64(tag))
	n.attrs.SetChild(int(f.Slot), new(fb.Node).SetScalar(slot, 4, uint64(bits)))
}

// fill stores ONNX's default.
func (n *builtNode) fill(f *fb.Field, given Attrs, onnx float64, rank int) {
	switch {
	case f.Kind == fb.Union:
		n.setUnion(f, rtenfb.ScalarFloatScalar, rtenfb.SlotFloatScalarValue, 0)
	case f.Kind == fb.Scalars:
		k, x := rank, byte(1) // strides and dilations
		if f.Name == "pads" {
			k, x = 2*rank, 0
			same, err := enumNumber("AutoPad", given["auto_pad"])
			if err == nil && same == uint32(rtenfb.AutoPadSame) {
				return // they follow from the input
			}
		}
		n.attrs.SetVector(int(f.Slot), bytes.Repeat([]byte{x, 0, 0, 0}, k), 4)
	case f.Type == fb.Float32:
		n.setBits(f, math.Float32bits(float32(onnx)))
	default:
		n.setBits(f, uint32(int32(onnx)))
	}
}

// set stores what the caller gave for an attribute of an operator of g.
func (n *builtNode) set(f *fb.Field, v any, g *GraphBuilder) error {
	switch f.Kind {
	case fb.String:
		s, ok := v.(string)
		if !ok || !utf8.ValidString(s) {
			return mistyped(v, "a string in UTF-8")
		}
		n.attrs.SetString(int(f.Slot), s)
	case fb.Scalars:
		list, err := vector(f, v)
		if err != nil {
			return err
		}
		n.attrs.SetVector(int(f.Slot), list, 4)
	case fb.Child:
		sub, ok := v.(*GraphBuilder)
		switch {
		case !ok || sub == nil:
			return mistyped(v, "a *GraphBuilder")
		case sub.up != g:
			return fmt.Errorf("%w: the graph is not a Subgraph of the one that it is used in",
				fs.ErrInvalid)
		}
		n.graphs = append(n.graphs, subgraph{int(f.Slot), sub})
	case fb.Union:
		if x, err := integer(v, math.MinInt32, math.MaxInt32); err == nil {
			n.setUnion(f, rtenfb.ScalarIntScalar, rtenfb.SlotIntScalarValue, uint32(x))
			return nil
		}
		bits, err := float32Bits(v)
		n.setUnion(f, rtenfb.ScalarFloatScalar, rtenfb.SlotFloatScalarValue, bits)
		return err
	default:
		bits, err := scalarBits(f, v)
		n.setBits(f, bits)
		return err
	}
	return nil
}

// mistyped returns the error of a value of a wrong type.
func mistyped(v any, required string) error {
	return fmt.Errorf("%w: %T where %s is required", fs.ErrInvalid, v, required)
}

// scalarBits returns a number, an enum or a bool as it is stored.
func scalarBits(f *fb.Field, v any) (uint32, error) {
	switch {
	case f.Enum != 0:
		return enumNumber(rtenfb.Schema.Enums[f.Enum-1].Name, v)
	case f.Type == fb.Float32:
		return float32Bits(v)
	case f.Type == fb.Bool && v == true:
		return 1, nil
	case f.Type == fb.Bool && v == false:
		return 0, nil
	}
	lo, hi := int64(0), int64(math.MaxUint32)
	switch f.Type {
	case fb.Bool:
		hi = 1
	case fb.Int32:
		lo, hi = math.MinInt32, math.MaxInt32
	}
	n, err := integer(v, lo, hi)
	return uint32(n), err
}

func vector(f *fb.Field, v any) (b []byte, err error) {
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice && list.Kind() != reflect.Array {
		return nil, mistyped(v, "a slice of integers")
	}
	for i := range list.Len() {
		bits, err := scalarBits(f, list.Index(i).Interface())
		if err != nil {
			return nil, err
		}
		b = binary.LittleEndian.AppendUint32(b, bits)
	}
	return b, nil
}

// integer returns any Go integer from lo to hi.
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
		return 0, fmt.Errorf("%w: %d is not between %d and %d", fs.ErrInvalid, n, lo, hi)
	}
	return n, nil
}

// float32Bits returns the bits of any Go number as a float32.
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

// enumNumber returns the number of an enum, given its name, its number or an Enum.
func enumNumber(enum string, v any) (uint32, error) {
	names := enumNames(enum)
	switch x := v.(type) {
	case Enum:
		if x.Type != enum {
			return 0, fmt.Errorf("%w: %s where %s is required", fs.ErrInvalid, x.Type, enum)
		}
		v = x.Number
	case tensor.DType:
		if n, ok := dataTypeNumber(x); ok && enum == dataTypeEnum {
			return uint32(n), nil
		}
		return 0, fmt.Errorf("%w: %v is not a %s", errors.ErrUnsupported, x, enum)
	case string:
		if n := slices.Index(names, x); n >= 0 {
			return uint32(n), nil
		}
		return 0, fmt.Errorf("%w: %s is not a %s; there are %s", fs.ErrInvalid,
			naming.Quote(x), enum, strings.Join(names, ", "))
	}
	n, err := integer(v, 0, int64(len(names)-1))
	return uint32(n), err
}
