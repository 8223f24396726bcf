package pte

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/schema/ptefb"
)

// A Kernel is an operator of a program with the keys of the kernels that its calls need,
// one for each combination of dtypes and orders. A selective build of the runtime must
// contain these kernels.
type Kernel struct {
	Operator string // such as aten::add.out
	// Keys are written as by ExecuTorch's gen_oplist and sorted: v1/, and the dtype and
	// order of each tensor among the arguments of a call. An operator that is in a
	// method's table, but that no instruction calls, has none.
	Keys []string
}

// Kernels returns the operators of all methods, sorted by name.
func (p *Program) Kernels() []Kernel {
	keys := make(map[string]map[string]bool)
	for m := range p.Methods() {
		ops := m.Operators()
		for _, o := range ops {
			if name := o.String(); keys[name] == nil {
				keys[name] = make(map[string]bool)
			}
		}
		for i := range m.Instructions() {
			if op := i.Operator(); op >= 0 && op < len(ops) {
				keys[ops[op].String()][m.kernelKey(i)] = true
			}
		}
	}
	all := make([]Kernel, 0, len(keys))
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		all = append(all, Kernel{name, slices.Sorted(maps.Keys(keys[name]))})
	}
	return all
}

// kernelKey returns the key of one call. A list counts as its first tensor.
func (m Method) kernelKey(i Instruction) string {
	var keys []string
	for _, x := range i.Args() {
		if t, ok := m.firstTensor(m.Value(x)); ok {
			order := strings.ReplaceAll(fmt.Sprint(t.DimOrderBytes()), " ", ",")
			keys = append(keys, fmt.Sprintf("%d;%s", t.ScalarType(), strings.Trim(order, "[]")))
		}
	}
	if keys == nil {
		return "v1"
	}
	return "v1/" + strings.Join(keys, "|")
}

// firstTensor returns a tensor, or the first tensor of a list; false for other values.
func (m Method) firstTensor(v Value) (ptefb.Tensor, bool) {
	k := v.Kind()
	if k != kindTensorList && k != kindOptionalTensorList {
		return v.table()
	}
	items, _ := v.items(k)
	for n := range min(len(items)/4, 1024) { // a few Nones may come first
		if t, ok := m.Value(int(int32(u32s(items, n)))).table(); ok || k == kindTensorList {
			return t, ok
		}
	}
	return ptefb.Tensor{}, false
}

// kernels has a line for each operator that ExecuTorch 1.5.1 has kernels for, sorted: its
// name, and the number of arguments that a call must have.
// TestRuntimeNeedsTheArgumentCountsOfTheTable checks each.
//
//go:embed arguments.txt
var kernels string

// kernelArguments returns how many arguments a call of an operator has, 0 if that is not
// known: the arguments of its schema, outputs included, and its results.
func kernelArguments(operator string) int {
	// line returns the line that has the byte at.
	line := func(at int) (name, count string) {
		start := strings.LastIndexByte(kernels[:at], '\n') + 1
		text, _, _ := strings.Cut(kernels[start:], "\n")
		name, count, _ = strings.Cut(text, " ")
		return name, count
	}
	at := sort.Search(len(kernels), func(at int) bool {
		name, _ := line(at)
		return name >= operator
	})
	name, count := line(at)
	if name != operator {
		return 0
	}
	n, _ := strconv.Atoi(count)
	return n
}
