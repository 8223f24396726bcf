package pte

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

const maxStructure = 64 // levels

// LeafPaths returns the path of each input or output of a method in the arguments or
// results of the original model, such as [0][1] or [1]['mask']. For inputs [0] are the
// positional arguments, [1] the named ones. structure is from [Method.Structure], in
// PyTorch's JSON or ExecuTorch's compact notation, such as T2#2#0(T2#1#1($,$),D0()).
// LeafPaths fails with tensor.ErrMalformed if it cannot be parsed, with
// errors.ErrUnsupported if the JSON has another version than 1, and with tensor.ErrLimit
// if it is nested deeper than 64 or the paths are much longer than structure.
func LeafPaths(structure string) ([]string, error) {
	s := strings.TrimSpace(structure)
	p := leafPaths{s: s, left: 64*len(s) + 1<<16}
	switch {
	case s == "":
	case s[0] == '[':
		p.json()
	default:
		if p.node("", 0); p.err == nil && p.at != len(s) {
			p.malformed("%d bytes are left over", len(s)-p.at)
		}
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.all, nil
}

type leafPaths struct {
	s    string
	at   int
	all  []string
	left int   // bytes that paths may still take
	err  error // the first error, which ends parsing
}

func (p *leafPaths) fail(class error, format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("pte: structure: %w"+format, append([]any{class}, args...)...)
	}
}

func (p *leafPaths) malformed(format string, args ...any) {
	p.fail(tensor.ErrMalformed, " at character %d: "+format, append([]any{p.at}, args...)...)
}

// child returns the path of a child, by its index or its key in quotes.
func (p *leafPaths) child(path, step string, depth int) string {
	if p.left -= len(path) + len(step) + 2; p.left < 0 || depth >= maxStructure {
		p.fail(tensor.ErrLimit, ": nested deeper than %d, or long keys for many leaves",
			maxStructure)
	}
	return path + "[" + step + "]"
}

func (p *leafPaths) peek() byte {
	if p.err == nil && p.at < len(p.s) {
		return p.s[p.at]
	}
	return 0
}

// accept reports whether the next byte is c, and skips it if so.
func (p *leafPaths) accept(c byte) bool {
	ok := p.peek() == c
	if ok {
		p.at++
	}
	return ok
}

func (p *leafPaths) expect(c byte) {
	if !p.accept(c) {
		p.malformed("no %q", c)
	}
}

// node reads a node of the compact notation.
func (p *leafPaths) node(path string, depth int) {
	c := p.peek()
	switch {
	case p.accept('$'):
		p.all = append(p.all, path)
		return
	case c == ',' || c == ')' || c == 0: // None
		return
	case !strings.ContainsRune("TNLDC", rune(c)): // tuple, named tuple, list, dict, other
		p.malformed("%q begins no node", c)
		return
	}
	p.at++
	n := p.number()
	for i := 0; i < n && p.err == nil; i++ {
		p.expect('#')
		p.number() // the number of leaves of a child, which is not needed
	}
	p.expect('(')
	for i := 0; i < n && p.err == nil; i++ {
		if i > 0 {
			p.expect(',')
		}
		step := strconv.Itoa(i)
		if c == 'D' {
			step = "'" + p.key() + "'"
			p.expect(':')
		}
		p.node(p.child(path, step, depth), depth+1)
	}
	p.expect(')')
}

// digits reads digits and bytes in also.
func (p *leafPaths) digits(also string) string {
	rest := p.s[p.at:]
	n := len(rest) - len(strings.TrimLeft(rest, "0123456789"+also))
	p.at += n
	return rest[:n]
}

func (p *leafPaths) number() int {
	text := p.digits("")
	n, err := strconv.Atoi(text)
	if err != nil || n > len(p.s) {
		p.malformed("%s is not a number of children", naming.Quote(text))
	}
	return n
}

// key reads the key of a dict's child: an integer, or text between single quotes.
func (p *leafPaths) key() string {
	if !p.accept('\'') {
		return p.digits("-")
	}
	key, _, ok := strings.Cut(p.s[p.at:], "'")
	if !ok {
		p.malformed("a quote without its end")
	}
	p.at += len(key) + 1
	return key
}

// json reads [1, {"type": …, "context": …, "children_spec": […]}].
func (p *leafPaths) json() {
	var top []json.RawMessage
	var tree jsonStructure
	err := json.Unmarshal([]byte(p.s), &top)
	switch {
	case err != nil:
	case len(top) != 2:
		err = fmt.Errorf("%d elements are not a version and a tree", len(top))
	case string(top[0]) != "1":
		p.fail(errors.ErrUnsupported, ": version %s", naming.Quote(string(top[0])))
	default:
		err = json.Unmarshal(top[1], &tree)
	}
	if err != nil {
		p.fail(tensor.ErrMalformed, ": %v", err)
	}
	p.tree(&tree, "", 0)
}

type jsonStructure struct {
	Type     *string         `json:"type"`
	Context  json.RawMessage `json:"context"`
	Children []jsonStructure `json:"children_spec"`
}

func (p *leafPaths) tree(j *jsonStructure, path string, depth int) {
	if j.Type == nil {
		p.all = append(p.all, path)
		return
	}
	dict := strings.TrimPrefix(*j.Type, "builtins.") == "dict"
	var context string // the keys of a dict are JSON inside of a JSON string
	var keys []any
	if dict && json.Unmarshal(j.Context, &context) == nil {
		_ = json.Unmarshal([]byte(context), &keys)
	}
	for i := 0; i < len(j.Children) && p.err == nil; i++ {
		step := strconv.Itoa(i)
		if dict && len(keys) == len(j.Children) {
			step = fmt.Sprint(keys[i])
		}
		if dict {
			step = "'" + step + "'"
		}
		p.tree(&j.Children[i], p.child(path, step, depth), depth+1)
	}
}
