package pte

import (
	"fmt"
	"iter"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// Metadata yields what the program's constant getters return, under their names: an
// int64, bool, float64, string, nil for None, []int64, []float64, []bool, or a
// *tensor.Tensor; of a getter with several outputs a []any of those. Exporters of
// language models write get_bos_id, get_eos_ids, get_max_seq_len, get_vocab_size,
// use_kv_cache and others.
func (p *Program) Metadata() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		// Outputs name values by index, any number of times: what is shown stays near to
		// what the file has.
		budget := 4*len(p.buf) + 1<<16
		for m := range p.Methods() {
			if !m.IsGetter() {
				continue
			}
			n := m.t.OutputsLength()
			all := make([]any, 0, min(n, 16))
			for i := range n {
				v := m.Value(int(m.t.Outputs(i)))
				if budget -= v.weight(); budget < 0 {
					return
				}
				all = append(all, v.constant())
			}
			var x any = all
			if len(all) == 1 {
				x = all[0]
			}
			if !yield(m.Name(), x) {
				return
			}
		}
	}
}

// weight is about how many bytes the value takes when it is shown.
func (v Value) weight() int {
	if v.Kind() == KindTensorList || v.Kind() == KindOptionalTensorList {
		return 16
	}
	b, _ := v.items(v.Kind())
	return 16 + len(b)
}

// constant is the value in Go's types, nil when it has none.
func (v Value) constant() any {
	switch v.Kind() {
	case KindInt:
		return v.Int()
	case KindBool:
		return v.Bool()
	case KindDouble:
		return v.Double()
	case KindString:
		return v.Text()
	case KindIntList:
		ints := make([]int64, 0, 16) // 0 is computed while the method runs
		for _, i := range v.Items() {
			ints = append(ints, v.m.Value(i).Int())
		}
		return ints
	case KindDoubleList:
		return v.Doubles()
	case KindBoolList:
		return v.Bools()
	case KindTensor:
		if _, ok := v.table(); ok {
			return v.entry().Tensor
		}
	}
	return nil
}

// metadataText writes a value of Metadata; false for tensors.
func metadataText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case nil:
		return "None", true
	case *tensor.Tensor:
		return "", false
	case []any:
		texts := make([]string, len(v))
		for i, x := range v {
			var ok bool
			if texts[i], ok = metadataText(x); !ok {
				return "", false
			}
		}
		return "[" + strings.Join(texts, ", ") + "]", true
	case []int64, []float64, []bool:
		return strings.ReplaceAll(fmt.Sprint(v), " ", ", "), true
	}
	return fmt.Sprint(v), true
}
