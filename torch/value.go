package torch

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// The values of a pickle are nil, bool, int64, bigInt, float64, complex128, string,
// bytestring, and pointers to the types below, because several values may refer to one.
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
		attributes any // that BUILD gave an OrderedDict
		ordered    bool
		isUnique   bool
	}
	item struct{ key, value any }

	// A global is the name of a class or function of Python, and no more.
	global struct {
		module, name string
		kind         globalKind
		at           int  // of its opcode in the pickle
		made         bool // an instance of it is made without a call
		called       bool
		member       bool // each call has one argument, as for members of an enumeration
		risky        bool // getattr is called for more than a nested class
	}

	// An object is an instance of a class, or the result of a call, as data.
	object struct {
		class    *global // nil if only a state is known
		args     []any
		of       any  // the tensor that has this class and state; nil for other objects
		subclass bool // a tensor whose elements are in its state; see func subclass
		state    any
		dict     dict  // items of SETITEMS
		list     []any // items of APPENDS
	}
)

type sequenceKind uint8

const (
	listKind sequenceKind = iota
	tupleKind
	setKind
)

// String returns the module and the name, quoted if they are not printable.
func (g *global) String() string { return printable(g.module) + "." + printable(g.name) }

// printable returns a name of the file, quoted if it has characters that a terminal does
// not print.
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

// countOf returns v if it is an integer that is not negative.
func countOf(v any) (int64, bool) {
	n, ok := v.(int64)
	return n, ok && n >= 0
}

// countsOf returns the items of a list or tuple of at most maxRank integers that are not
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

// maxTupleKey bounds a tuple that is a key, and the tuples in it: 8 bytes for each
// element, and the bytes of its text.
const maxTupleKey = 512

// keyOf returns equal text for keys that are equal in Python, such as 1, True and 1.0.
// For a string it is the string, for other values it begins with a zero byte. It fails
// for values that cannot be keys.
func keyOf(v any) (string, error) {
	kind, text := byte(0), ""
	switch v := v.(type) {
	case nil:
		kind = 'n'
	case bool:
		kind, text = 'i', "0"
		if v {
			text = "1"
		}
	case int64:
		kind, text = 'i', strconv.FormatInt(v, 10)
	case float64:
		kind, text = 'f', strconv.FormatFloat(v, 'g', -1, 64)
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			kind, text = 'i', strconv.FormatInt(int64(v), 10)
		}
	case bigInt:
		kind, text = 'b', string(v)
	case string:
		if kind, text = 's', v; !strings.HasPrefix(v, "\x00") {
			return v, nil
		}
	case bytestring:
		kind, text = 'y', string(v)
	case *global, *object:
		kind, text = 'r', fmt.Sprintf("%p", v)
	case *sequence:
		left := maxTupleKey
		b, err := appendKey(nil, v, &left)
		if err != nil {
			return "", err
		}
		kind, text = 't', string(b)
	default:
		return "", errKey
	}
	return string(append([]byte{0, kind}, text...)), nil
}

var errKey = malformed("a key that cannot be hashed")

// appendKey appends equal text for equal tuples.
func appendKey(b []byte, s *sequence, left *int) ([]byte, error) {
	if s.kind != tupleKind {
		return nil, errKey
	}
	b = append(b, '(')
	for _, v := range s.items {
		key, err := "", error(nil)
		inner, ok := v.(*sequence)
		if !ok {
			key, err = keyOf(v)
		}
		if err != nil {
			return nil, err
		}
		if *left -= 8 + len(key); *left < 0 {
			return nil, fmt.Errorf("%w: a tuple of more than %d bytes as a key",
				tensor.ErrLimit, maxTupleKey)
		}
		if ok {
			b, err = appendKey(b, inner, left)
		} else {
			b = strconv.AppendQuote(b, key)
		}
		if err != nil {
			return nil, err
		}
	}
	return append(b, ')'), nil
}

// add adds an item. checkKey has checked its key.
func (d *dict) add(m *machine, key, value any) {
	m.charge(keyBytes)
	d.items, d.isUnique = extend(m, d.items, item{key, value}), false
}

// unique returns the items, each key once: at its first place, with its last value.
func (d *dict) unique() []item {
	if d.isUnique {
		return d.items
	}
	d.isUnique = true
	keys := naming.New(len(d.items), func(i int) string {
		key, _ := keyOf(d.items[i].key)
		return key
	})
	remaining := d.items[:0]
	for _, it := range d.items {
		n := len(remaining)
		remaining = append(remaining, it)
		if f, ok := it.key.(float64); ok && f != f || keys.Add(n) { // NaN is equal to none
			continue
		}
		key, _ := keyOf(it.key)
		remaining[keys.Lookup(key)].value = it.value
		remaining = remaining[:n]
	}
	clear(d.items[len(remaining):])
	d.items = remaining
	return remaining
}

// lookup returns the value of a key that is a string, nil if there is none.
func (d *dict) lookup(key string) any {
	for _, it := range d.unique() {
		if k, ok := textOf(it.key); ok && k == key {
			return it.value
		}
	}
	return nil
}
