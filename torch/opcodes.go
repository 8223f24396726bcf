package torch

import (
	"fmt"
	"math"
	"strconv"
)

// The opcodes of Python's pickletools, by protocol:
//
//	0, 1     ( . 0 1 2 F I J K L M N S T U V X ) ] } a b c d e g h j l p q r s t u R Q G
//	2        80 PROTO, 81 NEWOBJ, 85 to 87 TUPLE1 to 3, 88, 89 True, False, 8a, 8b LONG
//	3        B and C bytes
//	4        8c to 95: strings, sets, NEWOBJ_EX, STACK_GLOBAL, MEMOIZE, FRAME
//	5        96 BYTEARRAY8
//
// No checkpoint has INST, OBJ, EXT and PERSID, which are other ways to call, or the
// buffers of protocol 5, which are not in the file: they are refused.

// execute executes one opcode. An error is in m.err.
func (m *machine) execute(op byte) {
	switch op {
	case 0x80: // PROTO
		if v := m.number(1); v > 5 {
			m.unsupported("protocol %d", v)
		}
	case 0x95: // FRAME
		if n := m.number(8); n > uint64(len(m.in)-m.pos) {
			m.check(errShort)
		}
	case 'N':
		m.literal(nil)
	case 0x88:
		m.literal(true)
	case 0x89:
		m.literal(false)
	case 'J': // BININT
		m.literal(int64(int32(m.number(4))))
	case 'K':
		m.literal(int64(m.number(1)))
	case 'M':
		m.literal(int64(m.number(2)))
	case 0x8a: // LONG1
		m.literal(longOf(m.take(m.number(1))))
	case 0x8b: // LONG4
		if n := m.number(4); n > maxLong {
			m.fail("an integer of %d bytes", n)
		} else {
			m.literal(longOf(m.take(n)))
		}
	case 'I', 'L':
		m.literal(m.decimal(m.line()))
	case 'F':
		v, err := strconv.ParseFloat(m.line(), 64)
		if err != nil {
			m.fail("not a number")
		}
		m.literal(v)
	case 'G': // BINFLOAT, big-endian
		var v uint64
		for _, b := range []byte(m.take(8)) {
			v = v<<8 | uint64(b)
		}
		m.literal(math.Float64frombits(v))
	case 'U', 0x8c: // SHORT_BINSTRING, SHORT_BINUNICODE
		m.text(m.number(1))
	case 'T', 'X':
		m.text(m.number(4))
	case 0x8d: // BINUNICODE8
		m.text(m.number(8))
	case 'S':
		m.literal(m.quoted(m.line()))
	case 'V':
		m.literal(m.escaped(m.line()))
	case 'C': // SHORT_BINBYTES
		m.literal(bytestring(m.take(m.number(1))))
	case 'B':
		m.literal(bytestring(m.take(m.number(4))))
	case 0x8e, 0x96: // BINBYTES8, BYTEARRAY8
		m.literal(bytestring(m.take(m.number(8))))
	case '(', '0', '1', '2', 'p', 'q', 'r', 'g', 'h', 'j', 0x94:
		m.stackOp(op)
	case 'c', 0x93, 'R', 0x81, 0x92, 'b', 'Q':
		m.objectOp(op)
	case 'P', 'i', 'o', 0x82, 0x83, 0x84, 0x97, 0x98:
		m.unsupported("no checkpoint has it")
	default:
		m.containerOp(op)
	}
}

// maxText is the maximum number of bytes of a string.
const maxText = 64 << 20

func (m *machine) text(n uint64) {
	if n > maxText && n <= uint64(len(m.in)-m.pos) {
		m.fail("a string of %d bytes", n)
		return
	}
	m.literal(m.take(n))
}

// stackOp executes an opcode of the stack or the memo.
func (m *machine) stackOp(op byte) {
	switch op {
	case '(':
		m.marks = extend(m, m.marks, len(m.stack))
	case '0': // POP, also of a mark
		if n := len(m.marks); n > 0 && len(m.stack) == m.marks[n-1] {
			m.marks = m.marks[:n-1]
			return
		}
		m.pop()
	case '1':
		m.popMark()
	case '2':
		m.push(m.top())
	case 'p':
		m.check(m.memo.put(m.index(), m.top(), m.memory))
	case 'q':
		m.check(m.memo.put(m.number(1), m.top(), m.memory))
	case 'r':
		m.check(m.memo.put(m.number(4), m.top(), m.memory))
	case 0x94:
		m.check(m.memo.put(m.memo.len(), m.top(), m.memory))
	case 'g':
		m.recall(m.index())
	case 'h':
		m.recall(m.number(1))
	case 'j':
		m.recall(m.number(4))
	}
}

func (m *machine) recall(i uint64) {
	v, ok := m.memo.get(i)
	if !ok {
		m.fail("nothing is in slot %d of the memo", i)
	}
	m.push(v)
}

// index reads the decimal number of a slot of the memo.
func (m *machine) index() uint64 {
	v, err := strconv.ParseUint(m.line(), 10, 32)
	if err != nil {
		m.fail("not a slot of the memo")
	}
	return v
}

// containerOp executes an opcode that makes or fills a container.
func (m *machine) containerOp(op byte) {
	switch op {
	case ')':
		m.sequence(tupleKind, nil)
	case 't':
		m.sequence(tupleKind, m.popMark())
	case 0x85, 0x86, 0x87:
		m.sequence(tupleKind, m.popN(int(op)-0x84))
	case ']':
		m.sequence(listKind, nil)
	case 'l':
		m.sequence(listKind, m.popMark())
	case 'a':
		items := m.popN(1)
		m.addItems(listKind, items)
	case 'e':
		items := m.popMark()
		m.addItems(listKind, items)
	case 0x8f: // EMPTY_SET
		m.sequence(setKind, nil)
	case 0x90: // ADDITEMS
		items := m.popMark()
		m.addItems(setKind, items)
	case 0x91: // FROZENSET
		m.sequence(setKind, m.popMark())
	case '}':
		m.charge(containerBytes)
		m.push(new(dict))
	case 'd':
		items, d := m.popMark(), new(dict)
		m.charge(containerBytes)
		m.setItems(d, items)
		m.push(d)
	case 's':
		items := m.popN(2)
		m.setItems(m.top(), items)
	case 'u':
		items := m.popMark()
		m.setItems(m.top(), items)
	default:
		m.fail("not an opcode of pickle")
	}
}

// addItems appends to the list or set on top of the stack.
func (m *machine) addItems(kind sequenceKind, items []any) {
	switch v := m.top().(type) {
	case *sequence:
		if v.kind == kind {
			v.items = extend(m, v.items, items...)
			return
		}
	case *object:
		v.list = extend(m, v.list, items...)
		return
	}
	m.fail("items for a value that takes none")
}

// setItems adds keys and values in turns to a dict.
func (m *machine) setItems(to any, items []any) {
	var d *dict
	switch v := to.(type) {
	case *dict:
		d = v
	case *object:
		d = &v.dict
	}
	switch {
	case d == nil:
		m.fail("items for a value that is not a dict")
		return
	case len(items)%2 != 0:
		m.fail("a key without a value")
		return
	}
	for i := 0; i < len(items); i += 2 {
		if m.checkKey(items[i]); m.err != nil {
			return
		}
		if g, ok := items[i+1].(*global); ok && items[i] == "__setstate__" {
			g.called, g.member = true, false // by a second BUILD
		}
		d.add(m, items[i], items[i+1])
	}
}

// objectOp executes an opcode that names, makes or fills an object.
func (m *machine) objectOp(op byte) {
	switch op {
	case 'c':
		module := m.line()
		m.global(module, m.line())
	case 0x93: // STACK_GLOBAL
		names := m.popN(2)
		if m.err != nil {
			return
		}
		module, ok1 := names[0].(string)
		name, ok2 := names[1].(string)
		if !ok1 || !ok2 {
			m.fail("a global whose name is not a string")
			return
		}
		m.global(module, name)
	case 'R', 0x81: // REDUCE, NEWOBJ
		args := m.pop()
		m.call(m.pop(), args, nil, op == 'R')
	case 0x92: // NEWOBJ_EX
		named, args := m.pop(), m.pop()
		m.call(m.pop(), args, named, false)
	case 'b':
		state := m.pop()
		m.charge(callBytes)
		if v := m.top(); m.err == nil {
			m.check(build(v, state))
		}
	case 'Q':
		id := m.pop()
		if m.charge(callBytes); m.err != nil {
			return
		}
		v, err := m.persistent(id)
		m.check(err)
		m.push(v)
	}
}

func (m *machine) global(module, name string) {
	if m.err != nil {
		return
	}
	m.push(m.newGlobal(python3(module), name))
}

func (m *machine) newGlobal(module, name string) *global {
	m.charge(globalBytes + len(module) + len(name)) // which is compared with others
	g := &global{module: module, name: name, at: m.at, kind: kindOf(module, name, m.script)}
	m.globals = extend(m, m.globals, g)
	return g
}

// call pushes the value of a call of a global (called), or an instance of a class that is
// made without a call.
func (m *machine) call(f, args, named any, called bool) {
	if m.err != nil {
		return
	}
	g, ok := f.(*global)
	if !ok {
		m.fail("a call of what is not a name")
		return
	}
	items, ok := tupleOf(args)
	if !ok {
		m.fail("arguments that are not a tuple")
		return
	}
	if d, ok := named.(*dict); named != nil && (!ok || len(d.items) > 0) {
		m.unsupported("named arguments")
		return
	}
	if called {
		g.member = (g.member || !g.called) && len(items) == 1 && isScalars(items)
		g.called = true
	} else {
		g.made = true
	}
	if m.charge(callBytes + copyBytes(items)); m.err != nil {
		return
	}
	v, err := m.construct(g, items)
	if err != nil {
		err = fmt.Errorf("%v: %w", g, err)
	}
	m.check(err)
	m.push(v)
}

// copyBytes returns the memory of a copy of arguments and of their items.
func copyBytes(args []any) int {
	n := itemBytes * len(args)
	for _, v := range args {
		switch v := v.(type) {
		case *sequence:
			n += 2 * itemBytes * len(v.items)
		case *dict:
			n += 2 * itemBytes * len(v.items)
		default:
			text, _ := textOf(v)
			n += len(text)
		}
	}
	return n
}

// opcodeName returns the name that pickletools has for an opcode, or its byte if it does
// not fail in practice.
func opcodeName(op byte) string {
	names := map[byte]string{
		'R': "REDUCE", 'b': "BUILD", 'Q': "BINPERSID", 'P': "PERSID", 'c': "GLOBAL",
		'i': "INST", 'o': "OBJ", 'a': "APPEND", 'e': "APPENDS", 's': "SETITEM",
		'u': "SETITEMS", 't': "TUPLE", 'X': "BINUNICODE", 'I': "INT", 'L': "LONG",
		'h': "BINGET", 'j': "LONG_BINGET", '.': "STOP", 0x80: "PROTO", 0x81: "NEWOBJ",
		0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4", 0x8b: "LONG4", 0x92: "NEWOBJ_EX",
		0x93: "STACK_GLOBAL", 0x95: "FRAME", 0x97: "NEXT_BUFFER", 0x98: "READONLY_BUFFER",
	}
	if name, ok := names[op]; ok {
		return name
	}
	return fmt.Sprintf("0x%02x", op)
}

// python3 returns Python 3's name for a module of Python 2.
func python3(module string) string {
	switch module {
	case "__builtin__":
		return "builtins"
	case "copy_reg":
		return "copyreg"
	case "UserDict", "UserList", "UserString":
		return "collections"
	}
	return module
}
