package numpy

import (
	"math"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// literals scans the few Python literals that a header has.
type literals struct {
	s   string
	i   int
	err string
}

func (p *literals) fail(reason string) {
	if p.err == "" {
		p.err = reason
	}
}

// peek returns the next byte after white space, 0 at the end.
func (p *literals) peek() byte {
	for p.i < len(p.s) && strings.IndexByte(" \t\r\n\f", p.s[p.i]) >= 0 {
		p.i++
	}
	if p.i == len(p.s) {
		return 0
	}
	return p.s[p.i]
}

func (p *literals) take(word string) bool {
	p.peek()
	if p.err != "" || !strings.HasPrefix(p.s[p.i:], word) {
		return false
	}
	p.i += len(word)
	return true
}

func (p *literals) expect(word string) {
	if !p.take(word) {
		p.fail("expected " + word)
	}
}

// str reads a string without escapes, which no valid key or plain type has.
func (p *literals) str() string {
	q := p.peek()
	if p.err != "" || q != '\'' && q != '"' {
		p.fail("expected a string")
		return ""
	}
	end := strings.IndexByte(p.s[p.i+1:], q)
	if end < 0 || strings.ContainsAny(p.s[p.i+1:p.i+1+end], "\\\n") {
		p.fail("a string that does not end, or has an escape")
		return ""
	}
	s := p.s[p.i+1 : p.i+1+end]
	p.i += end + 2
	return s
}

// nested returns the text of a list or tuple of literals, as a structured type has it.
func (p *literals) nested() string {
	p.peek()
	start := p.i
	for depth := 0; p.err == ""; {
		switch p.peek() {
		case 0:
			p.fail("a list that does not end")
		case '\'', '"':
			p.str()
		case '[', '(':
			depth++
			p.i++
		case ']', ')':
			p.i++
			if depth--; depth == 0 {
				return p.s[start:p.i]
			}
		default:
			p.i++
		}
	}
	return ""
}

// tuple reads dimensions: (), (2,), (2, 3), with the L of Python 2's long integers. It
// stops after maxRank+1 of them, for the caller to report the limit.
func (p *literals) tuple(maxRank int64) tensor.Shape {
	shape := tensor.Shape{}
	p.expect("(")
	comma := true
	for p.err == "" && !p.take(")") {
		start := p.i
		for p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' {
			p.i++
		}
		n, err := strconv.ParseUint(p.s[start:p.i], 10, 64)
		if err != nil || n > math.MaxInt64 || p.s[start] == '0' && p.i > start+1 || !comma {
			p.fail("a dimension that is not a plain integer")
			return nil
		}
		p.take("L")
		shape = append(shape, int64(n))
		comma = p.take(",")
		if int64(len(shape)) > maxRank {
			return shape
		}
	}
	if len(shape) == 1 && !comma {
		p.fail("(n) is a number, not a tuple")
	}
	return shape
}
