package ptn

import (
	"fmt"
	"strconv"
	"strings"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/schema/ptnfb"
)

// An Argument is a value, a number, a text, a list, or a graph that the operator runs.
type Argument struct {
	Name    string // of the operator's parameter, "" where it is not known
	Mutated bool   // the operator writes the value in place
	// Text has names of values as they are, numbers, lists, and quoted text.
	Text string
	// References are the names of values in it.
	References []string
	Graph      *Graph // nil if it is none

	// The lengths of a list and of the list next to it, which must be equal; else 0.
	length, parallel int
}

func argumentOf(t *ptnfb.NamedArgument) Argument {
	a := Argument{Name: le.String(t.Name()), Mutated: t.Mutated()}
	one := func(name []byte, literal string) string {
		if len(name) > 0 {
			literal = le.String(name)
			a.References = append(a.References, literal)
		}
		return literal
	}
	list := func(n int, at func(i int) ([]byte, string)) {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = one(at(i))
		}
		a.Text, a.length, a.parallel = "["+strings.Join(parts, ", ")+"]", n, n
	}
	var x flatbuffers.Table
	v := t.Arg(nil)
	if !v.Value(&x) { // which the runtime takes for none
		a.Text = "none"
		return a
	}
	switch kind := v.ValueType(); kind {
	case ptnfb.ArgumentValueTensorArg:
		a.Text = one(as[ptnfb.TensorArg](x).Name(), "")
	case ptnfb.ArgumentValueNoneArg:
		a.Text = "none"
	case ptnfb.ArgumentValueIntArg:
		t := as[ptnfb.IntArg](x)
		a.Text = one(t.Ref(), fmt.Sprint(t.Value()))
	case ptnfb.ArgumentValueFloatArg:
		t := as[ptnfb.FloatArg](x)
		a.Text = one(t.Ref(), fmt.Sprint(t.Value()))
	case ptnfb.ArgumentValueBoolArg:
		t := as[ptnfb.BoolArg](x)
		a.Text = one(t.Ref(), fmt.Sprint(t.Value()))
	case ptnfb.ArgumentValueStringArg:
		a.Text = strconv.Quote(string(as[ptnfb.StringArg](x).Value()))
	case ptnfb.ArgumentValueScalarTypeArg:
		a.Text = dtypes[as[ptnfb.ScalarTypeArg](x).Value()].String()
	case ptnfb.ArgumentValueIntListArg:
		t := as[ptnfb.IntListArg](x)
		refs := t.RefsLength()
		list(t.ValuesLength(), func(i int) (ref []byte, _ string) {
			if i < refs {
				ref = t.Refs(i)
			}
			return ref, fmt.Sprint(t.Values(i))
		})
		if refs > 0 {
			a.parallel = refs
		}
	case ptnfb.ArgumentValueFloatListArg:
		t := as[ptnfb.FloatListArg](x)
		list(t.ValuesLength(), func(i int) ([]byte, string) {
			return nil, fmt.Sprint(t.Values(i))
		})
	case ptnfb.ArgumentValueBoolListArg:
		t := as[ptnfb.BoolListArg](x)
		list(t.ValuesLength(), func(i int) ([]byte, string) {
			return nil, fmt.Sprint(t.Values(i))
		})
	case ptnfb.ArgumentValueTensorListArg:
		t := as[ptnfb.TensorListArg](x)
		list(t.NamesLength(), func(i int) ([]byte, string) { return t.Names(i), "" })
	case ptnfb.ArgumentValueOptionalTensorListArg:
		t := as[ptnfb.OptionalTensorListArg](x)
		list(t.NamesLength(), func(i int) ([]byte, string) {
			if i < t.HasValueLength() && t.HasValue(i) {
				return t.Names(i), ""
			}
			return nil, "none"
		})
		a.parallel = t.HasValueLength()
	case ptnfb.ArgumentValueGraphArg:
		t := as[ptnfb.GraphArg](x)
		a.Text, a.Graph = "graph "+strconv.Quote(string(t.Name())), graphOf(t.Graph(nil))
	default:
		a.Text = fmt.Sprintf("argument of type %d", kind)
	}
	return a
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
