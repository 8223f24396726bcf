package ptn

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/schema/ptnfb"
)

// An Argument is a value, a number, a text, a list, or a graph that the operator runs.
type Argument struct{ t ptnfb.NamedArgument }

// Name is the name of the operator's parameter, "" where it is not known.
func (a Argument) Name() string { return string(a.t.Name()) }

// Mutated reports whether the operator writes the value in place.
func (a Argument) Mutated() bool { return a.t.Mutated() }

// Graph returns the graph that is the argument, and whether it is one.
func (a Argument) Graph() (Graph, bool) {
	x, kind := a.value()
	if kind != ptnfb.ArgumentValueGraphArg {
		return Graph{}, false
	}
	return Graph{*as[ptnfb.GraphArg](x).Graph(nil)}, true
}

// References yields the names of the values that the argument refers to.
func (a Argument) References() iter.Seq[string] {
	return func(yield func(string) bool) {
		a.each(func(name []byte,
			_ string) bool {
			return len(name) == 0 || yield(le.String(name))
		})
	}
}

// String writes names of values as they are, numbers, lists, and quoted text.
func (a Argument) String() string {
	var parts []string
	n, _ := a.each(func(name []byte, literal string) bool {
		if len(name) > 0 {
			literal = string(name)
		}
		parts = append(parts, literal)
		return true
	})
	if s := strings.Join(parts, ", "); n < 0 {
		return s
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// value returns the table of the argument's value, and what it is. The runtime takes an
// argument without one for none.
func (a Argument) value() (x flatbuffers.Table, kind ptnfb.ArgumentValue) {
	v := a.t.Arg(nil)
	if !v.Value(&x) {
		return x, ptnfb.ArgumentValueNoneArg
	}
	return x, v.ValueType()
}

// as returns the member of a union.
func as[T any, P interface {
	*T
	Init([]byte, flatbuffers.UOffsetT)
}](x flatbuffers.Table) *T {
	t := new(T)
	P(t).Init(x.Bytes, x.Pos)
	return t
}

// each calls yield with the elements of the argument until it is false: each is the
// name of a value or, without one, a literal. It returns the number of elements of a
// list, -1 for anything else, and how many elements the list next to it has that must
// be as long.
func (a Argument) each(yield func(name []byte, literal string) bool) (n, parallel int) {
	x, kind := a.value()
	list := func(n, parallel int, at func(i int) ([]byte, string)) (int, int) {
		for i := range n {
			if !yield(at(i)) {
				break
			}
		}
		return n, parallel
	}
	switch kind {
	case ptnfb.ArgumentValueTensorArg:
		yield(as[ptnfb.TensorArg](x).Name(), "")
	case ptnfb.ArgumentValueNoneArg:
		yield(nil, "none")
	case ptnfb.ArgumentValueIntArg:
		t := as[ptnfb.IntArg](x)
		yield(t.Ref(), strconv.FormatInt(t.Value(), 10))
	case ptnfb.ArgumentValueFloatArg:
		t := as[ptnfb.FloatArg](x)
		yield(t.Ref(), fmt.Sprint(t.Value()))
	case ptnfb.ArgumentValueBoolArg:
		t := as[ptnfb.BoolArg](x)
		yield(t.Ref(), strconv.FormatBool(t.Value()))
	case ptnfb.ArgumentValueStringArg:
		yield(nil, strconv.Quote(string(as[ptnfb.StringArg](x).Value())))
	case ptnfb.ArgumentValueScalarTypeArg:
		yield(nil, dtypeName(as[ptnfb.ScalarTypeArg](x).Value()))
	case ptnfb.ArgumentValueIntListArg:
		t := as[ptnfb.IntListArg](x)
		refs := t.RefsLength()
		if n = t.ValuesLength(); refs == 0 {
			return list(n, n, func(i int) ([]byte, string) {
				return nil, strconv.FormatInt(t.Values(i), 10)
			})
		}
		return list(n, refs, func(i int) (ref []byte, _ string) {
			if i < refs {
				ref = t.Refs(i)
			}
			return ref, strconv.FormatInt(t.Values(i), 10)
		})
	case ptnfb.ArgumentValueFloatListArg:
		t := as[ptnfb.FloatListArg](x)
		n = t.ValuesLength()
		return list(n, n, func(i int) ([]byte, string) { return nil, fmt.Sprint(t.Values(i)) })
	case ptnfb.ArgumentValueBoolListArg:
		t := as[ptnfb.BoolListArg](x)
		n = t.ValuesLength()
		return list(n, n, func(i int) ([]byte, string) { return nil, fmt.Sprint(t.Values(i)) })
	case ptnfb.ArgumentValueTensorListArg:
		t := as[ptnfb.TensorListArg](x)
		n = t.NamesLength()
		return list(n, n, func(i int) ([]byte, string) { return t.Names(i), "" })
	case ptnfb.ArgumentValueOptionalTensorListArg:
		t := as[ptnfb.OptionalTensorListArg](x)
		return list(t.NamesLength(), t.HasValueLength(), func(i int) ([]byte, string) {
			if i < t.HasValueLength() && t.HasValue(i) {
				return t.Names(i), ""
			}
			return nil, "none"
		})
	case ptnfb.ArgumentValueGraphArg:
		yield(nil, "graph "+strconv.Quote(string(as[ptnfb.GraphArg](x).Name())))
	default:
		yield(nil, fmt.Sprintf("argument of type %d", kind))
	}
	return -1, -1
}
