package torch

import (
	"math"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/naming"
)

// The values of a pickle are nil, bool, int64, bigInt, float64, complex128, string,
// bytestring, and pointers to the types below: the memo shares a container, never copies
// it.
type (
	bigInt     string // an integer beyond int64, in text
	bytestring string // Python's bytes

	// A sequence is a list, tuple or set.
	sequence struct {
		kind  sequenceKind
		items []any
	}

	// A dict has its items in the order of the pickle; see unique.
	dict struct {
		items      []item
		attributes any // of an OrderedDict: what BUILD gave it
		ordered    bool
		isUnique   bool
	}
	item struct{ key, value any }

	// A global is a name that the pickle refers to. Nothing is behind it.
	global struct {
		module, name string
		kind         globalKind
		at           int  // of its opcode in the pickle
		made         bool // an instance is made of it, without a call
		called       bool
		member       bool // each call has one argument, as that of an enumeration has
		risky        bool // of getattr: it is called for more than a nested class
	}

	// An object is what a pickle would make of a class or by a call, as data.
	object struct {
		class    *global // nil where only a state is known
		args     []any
		of       any  // a value that the class and the state are given to
		subclass bool // a tensor whose elements are in its state: args are those of the call
		state    any
		dict     dict  // what SETITEMS gave it
		list     []any // what APPENDS gave it
	}
)

type sequenceKind uint8

const (
	listKind sequenceKind = iota
	tupleKind
	setKind
)

// String returns the two names in quotes where they need them.
func (g *global) String() string { return printable(g.module) + "." + printable(g.name) }

// printable returns a name of the file as it is, or quoted where a terminal would not
// print it plainly.
func printable(name string) string {
	if q := naming.Quote(name); len(q) != len(name)+2 {
		return q
	}
	return name
}

func tuple(items ...any) *sequence { return &sequence{kind: tupleKind, items: items} }

// tupleOf returns the items of a tuple.
func tupleOf(v any) ([]any, bool) {
	if s, ok := v.(*sequence); ok && s.kind == tupleKind {
		return s.items, true
	}
	return nil, false
}

// itemsOf returns the items of a list, tuple or set.
func itemsOf(v any) ([]any, bool) {
	if s, ok := v.(*sequence); ok {
		return s.items, true
	}
	return nil, false
}

// textOf returns a string: Python 2 writes its strings as bytes.
func textOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bytestring:
		return string(v), true
	}
	return "", false
}

// countOf returns an integer that is not negative.
func countOf(v any) (int64, bool) {
	n, ok := v.(int64)
	return n, ok && n >= 0
}

// countsOf returns the integers of a list or tuple, one a dimension, none of them
// negative.
func countsOf(v any) ([]int64, bool) {
	items, ok := itemsOf(v)
	if !ok || len(items) > maxRank {
		return nil, false
	}
	counts := make([]int64, len(items))
	for i, v := range items {
		if counts[i], ok = countOf(v); !ok {
			return nil, false
		}
	}
	return counts, true
}

// A dictKey is equal for keys that are equal in Python, as 1, True and 1.0 are.
type dictKey struct {
	kind byte
	text string
	num  float64
	int  int64
	ref  any
}

// maxTupleKey bounds a tuple that is a key, with those in it: 8 for an element, and its
// text.
const maxTupleKey = 512

// keyOf returns what a key is compared by, or false for values that cannot be keys.
func keyOf(v any) (dictKey, bool) {
	switch v := v.(type) {
	case nil:
		return dictKey{kind: 'n'}, true
	case bool:
		if v {
			return dictKey{kind: 'i', int: 1}, true
		}
		return dictKey{kind: 'i'}, true
	case int64:
		return dictKey{kind: 'i', int: v}, true
	case float64:
		if n := int64(v); v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return dictKey{kind: 'i', int: n}, true
		}
		return dictKey{kind: 'f', num: v}, true
	case bigInt:
		return dictKey{kind: 'b', text: string(v)}, true
	case string:
		return dictKey{kind: 's', text: v}, true
	case bytestring:
		return dictKey{kind: 'y', text: string(v)}, true
	case *global, *object:
		return dictKey{kind: 'r', ref: v}, true
	case *sequence:
		n := maxTupleKey
		text, ok := appendKey(nil, v, &n)
		return dictKey{kind: 't', text: string(text)}, ok
	}
	return dictKey{}, false
}

// appendKey appends a form of a tuple that is equal for equal tuples.
func appendKey(b []byte, s *sequence, left *int) ([]byte, bool) {
	if s.kind != tupleKind {
		return nil, false
	}
	b = append(b, '(')
	for _, v := range s.items {
		text, _ := textOf(v)
		if *left -= 8 + len(text); *left < 0 {
			return nil, false
		}
		if inner, ok := v.(*sequence); ok {
			if b, ok = appendKey(b, inner, left); !ok {
				return nil, false
			}
			continue
		}
		k, ok := keyOf(v)
		if !ok || k.kind == 'r' {
			return nil, false
		}
		b = append(b, k.kind)
		b = strconv.AppendQuote(b, k.text)
		b = strconv.AppendInt(b, k.int, 10)
		b = strconv.AppendFloat(b, k.num, 'g', -1, 64)
	}
	return append(b, ')'), true
}

// unique returns the items without those whose keys came before: the last value counts,
// at the place of the first.
func (d *dict) unique() []item {
	if d.isUnique {
		return d.items
	}
	d.isUnique = true
	at := make(map[dictKey]int, min(len(d.items), 1<<10))
	kept := d.items[:0]
	for _, it := range d.items {
		k, _ := keyOf(it.key)
		if i, ok := at[k]; ok {
			kept[i].value = it.value
			continue
		}
		at[k] = len(kept)
		kept = append(kept, it)
	}
	clear(d.items[len(kept):])
	d.items = kept
	return kept
}

// lookup returns the value of a key that is a string, nil where there is none.
func (d *dict) lookup(key string) any {
	for _, it := range d.unique() {
		if k, ok := textOf(it.key); ok && k == key {
			return it.value
		}
	}
	return nil
}
