package torch

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tensorfile/tensorfile/tensor"
)

// A machine builds the data that a pickle describes. It cannot call or import anything: a
// global is a name, and a call of an unknown global is an object with its arguments. Each
// opcode makes at most one value, so that a pickle of n bytes makes at most n values.
type machine struct {
	in     string  // the pickle; strings in it share this memory
	pos    int     // of the next byte
	at     int     // of the opcode
	err    error   // the first
	steps  int64   // opcodes left
	memory *memory // of all values

	stack   []any
	marks   []int
	memo    memo
	globals []*global

	// persistent makes the value of a persistent id.
	persistent func(id any) (any, error)
	script     bool // the pickle is of TorchScript, whose classes are known
}

// errShort is the error of a pickle without an end.
var errShort = fmt.Errorf("the pickle ends before its STOP: %w", io.ErrUnexpectedEOF)

// maxSteps is the maximum number of opcodes of a pickle.
const maxSteps = 50_000_000

// newMachine returns a machine for a pickle that takes stored bytes in the file.
func newMachine(in string, stored int64, left *memory) *machine {
	return &machine{in: in, steps: min(maxSteps, 1<<20+16*stored), memory: left}
}

// run executes the pickle at pos up to its STOP and returns its value.
func (m *machine) run() (any, error) {
	m.stack, m.marks, m.memo = m.stack[:0], m.marks[:0], memo{}
	for {
		m.at = m.pos
		if m.pos >= len(m.in) {
			return nil, errShort
		}
		if m.steps--; m.steps < 0 {
			return nil, fmt.Errorf("%w: too many opcodes", tensor.ErrLimit)
		}
		op := m.in[m.pos]
		m.pos++
		if op == '.' {
			return m.stop()
		}
		m.execute(op)
		m.memory.grow(m.pos - m.at)
		if m.err != nil {
			if errors.Is(m.err, errShort) {
				return nil, m.err
			}
			return nil, fmt.Errorf("opcode %s: %w", opcodeName(op), m.err)
		}
	}
}

func (m *machine) stop() (any, error) {
	if len(m.stack) == 0 || len(m.marks) > 0 {
		return nil, fmt.Errorf("%w: STOP without a value", tensor.ErrMalformed)
	}
	v := m.stack[len(m.stack)-1]
	clear(m.stack)
	return v, nil
}

func (m *machine) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf("%w: "+format, append([]any{tensor.ErrMalformed}, args...)...)
	}
}

func (m *machine) unsupported(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf("%w: "+format, append([]any{errors.ErrUnsupported}, args...)...)
	}
}

// check sets the error, unless there is one.
func (m *machine) check(err error) {
	if m.err == nil {
		m.err = err
	}
}

// take returns the next n bytes. If the pickle has fewer, it sets the error errShort.
func (m *machine) take(n uint64) string {
	if n > uint64(len(m.in)-m.pos) {
		m.check(errShort)
		return ""
	}
	s := m.in[m.pos : m.pos+int(n)]
	m.pos += int(n)
	return s
}

// number reads an unsigned little-endian integer of n bytes.
func (m *machine) number(n uint64) (v uint64) {
	for i, b := range []byte(m.take(n)) {
		v |= uint64(b) << (8 * i)
	}
	return v
}

// line reads up to a newline, which is not part of the result.
func (m *machine) line() string {
	for i := m.pos; i < len(m.in); i++ {
		if m.in[i] == '\n' {
			s := m.in[m.pos:i]
			m.pos = i + 1
			return s
		}
	}
	m.pos = len(m.in)
	m.check(errShort)
	return ""
}

// charge counts the memory that an opcode takes, also for copies of values: each opcode
// could copy the same large value.
func (m *machine) charge(n int) { m.check(m.memory.take(n)) }

// checkKey refuses a key that cannot be hashed.
func (m *machine) checkKey(v any) {
	key, err := keyOf(v)
	m.check(err)
	m.charge(len(key))
}

func (m *machine) push(v any) { m.stack = extend(m, m.stack, v) }

// literal pushes a value that has no other values in it.
func (m *machine) literal(v any) {
	if m.pos-m.at > 1 { // else None or a bool, which take no memory
		m.charge(literalBytes)
	}
	m.push(v)
}

// sequence pushes a sequence of a copy of items.
func (m *machine) sequence(kind sequenceKind, items []any) {
	if m.charge(containerBytes + itemBytes*len(items)); m.err == nil {
		m.push(&sequence{kind, slices.Clone(items)})
	}
}

// extend appends values to a list.
func extend[T any](m *machine, list []T, values ...T) []T {
	list, err := appendTo(m.memory, list, values...)
	m.check(err)
	return list
}

// fence returns the index in the stack of the first value above the last mark.
func (m *machine) fence() int {
	if n := len(m.marks); n > 0 {
		return m.marks[n-1]
	}
	return 0
}

func (m *machine) pop() any {
	if len(m.stack) <= m.fence() {
		m.fail("the stack is empty")
		return nil
	}
	v := m.stack[len(m.stack)-1]
	m.stack[len(m.stack)-1] = nil
	m.stack = m.stack[:len(m.stack)-1]
	return v
}

// top returns the value on top of the stack, which stays there.
func (m *machine) top() any {
	if len(m.stack) <= m.fence() {
		m.fail("the stack is empty")
		return nil
	}
	return m.stack[len(m.stack)-1]
}

// popMark removes the values above the last mark, and the mark. The slice is valid until
// the next push.
func (m *machine) popMark() []any {
	if len(m.marks) == 0 {
		m.fail("no mark on the stack")
		return nil
	}
	from := m.fence()
	m.marks = m.marks[:len(m.marks)-1]
	items := m.stack[from:]
	m.stack = m.stack[:from]
	return items
}

// popN removes n values, the last of them on top.
func (m *machine) popN(n int) []any {
	if len(m.stack)-m.fence() < n {
		m.fail("the stack is empty")
		return nil
	}
	from := len(m.stack) - n
	items := m.stack[from:]
	m.stack = m.stack[:from]
	return items
}

// A memo has values by number: in a list while the numbers are in order, else in a map,
// so that no number decides how much is allocated.
type memo struct {
	dense  []any
	sparse map[uint64]any
}

func (m *memo) put(i uint64, v any, left *memory) (err error) {
	switch n := uint64(len(m.dense)); {
	case i < n:
		m.dense[i] = v
	case i == n:
		m.dense, err = appendTo(left, m.dense, v)
		delete(m.sparse, i)
	default:
		if m.sparse == nil {
			m.sparse = map[uint64]any{}
		}
		m.sparse[i] = v
		return left.take(slotBytes)
	}
	return err
}

func (m *memo) get(i uint64) (v any, ok bool) {
	if i < uint64(len(m.dense)) {
		return m.dense[i], true
	}
	v, ok = m.sparse[i]
	return v, ok
}

func (m *memo) len() uint64 { return uint64(len(m.dense) + len(m.sparse)) }
