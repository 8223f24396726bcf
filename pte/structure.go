package pte

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

const maxStructure = 64 // levels

// LeafPaths returns where each input or output of a method was in the arguments or
// results of the original model, such as [0][1] or [1]['mask']: [0] are the positional
// arguments, [1] the named ones. structure is from [Method.Structure]: JSON of PyTorch,
// or ExecuTorch's compact notation, such as T2#2#0(T2#1#1($,$),D0()). tensor.ErrLimit is
// one nested deeper than 64, or with paths much longer than it.
func LeafPaths(structure string) ([]string, error) {
	s := strings.TrimSpace(structure)
	p := leafPaths{s: s, left: 64*len(s) + 1<<16}
	var err error
	switch {
	case s == "":
	case s[0] == '[':
		err = p.json()
	default:
		if err = p.node("", 0); err == nil && p.at != len(s) {
			err = p.malformed("%d bytes are left over", len(s)-p.at)
		}
	}
	if err != nil {
		return nil, err
	}
	return p.all, nil
}

type leafPaths struct {
	s    string
	at   int
	all  []string
	left int // bytes of paths
}

func (p *leafPaths) malformed(format string, args ...any) error {
	return fmt.Errorf("pte: structure: %w at character %d: %s", tensor.ErrMalformed, p.at,
		fmt.Sprintf(format, args...))
}

// child returns the path of a child, by its key in a dict or else by its index.
func (p *leafPaths) child(path string, index int, key *string, depth int) (string, error) {
	step := "[" + strconv.Itoa(index) + "]"
	if key != nil {
		step = "['" + *key + "']"
	}
	if p.left -= len(path) + len(step); p.left < 0 || depth >= maxStructure {
		return "", fmt.Errorf("pte: structure: %w: nested deeper than %d, or long keys "+
			"for many leaves", tensor.ErrLimit, maxStructure)
	}
	return path + step, nil
}

func (p *leafPaths) peek() byte {
	if p.at < len(p.s) {
		return p.s[p.at]
	}
	return 0
}

// accept skips c, and reports whether it is there.
func (p *leafPaths) accept(c byte) bool {
	ok := p.peek() == c
	if ok {
		p.at++
	}
	return ok
}

// node reads a node of the compact notation.
func (p *leafPaths) node(path string, depth int) error {
	c := p.peek()
	switch {
	case p.accept('$'):
		p.all = append(p.all, path)
		return nil
	case c == ',' || c == ')' || c == 0: // None
		return nil
	case !strings.ContainsRune("TNLDC", rune(c)): // tuple, named tuple, list, dict, other
		return p.malformed("%q begins no node", c)
	}
	p.at++
	n, err := p.number()
	if err != nil {
		return err
	}
	for range n { // how many leaves each child has, which is counted anyway
		if !p.accept('#') {
			return p.malformed("fewer numbers of leaves than children")
		}
		if _, err := p.number(); err != nil {
			return err
		}
	}
	if !p.accept('(') {
		return p.malformed("no children")
	}
	for i := range n {
		if i > 0 && !p.accept(',') {
			return p.malformed("fewer children than the %d declared", n)
		}
		var key *string
		if c == 'D' {
			if key, err = p.key(); err != nil {
				return err
			}
		}
		child, err := p.child(path, i, key, depth)
		if err != nil {
			return err
		}
		if err := p.node(child, depth+1); err != nil {
			return err
		}
	}
	if !p.accept(')') {
		return p.malformed("more children than the %d declared", n)
	}
	return nil
}

// digits reads digits, and any of the bytes also.
func (p *leafPaths) digits(also string) string {
	rest := p.s[p.at:]
	n := len(rest) - len(strings.TrimLeft(rest, "0123456789"+also))
	p.at += n
	return rest[:n]
}

func (p *leafPaths) number() (int, error) {
	text := p.digits("")
	n, err := strconv.Atoi(text)
	if err != nil || n > len(p.s) {
		return 0, p.malformed("%s is not a number of children", quote.Name(text))
	}
	return n, nil
}

// key reads what is before the colon of a dict's child: an integer, or text between
// single quotes.
func (p *leafPaths) key() (*string, error) {
	var key string
	if p.accept('\'') {
		var ok bool
		if key, _, ok = strings.Cut(p.s[p.at:], "'"); !ok {
			return nil, p.malformed("a quote without its end")
		}
		p.at += len(key) + 1
	} else {
		key = p.digits("-")
	}
	if !p.accept(':') {
		return nil, p.malformed("no colon after a key")
	}
	return &key, nil
}

// json reads [1, {"type": …, "context": …, "children_spec": […]}].
func (p *leafPaths) json() error {
	var top []json.RawMessage
	err := json.Unmarshal([]byte(p.s), &top)
	if err == nil && len(top) != 2 {
		err = fmt.Errorf("%d elements are not a version and a tree", len(top))
	}
	var tree jsonStructure
	if err == nil {
		if string(top[0]) != "1" {
			return fmt.Errorf("pte: structure: %w: version %s", errors.ErrUnsupported,
				quote.Name(string(top[0])))
		}
		err = json.Unmarshal(top[1], &tree)
	}
	if err != nil {
		return fmt.Errorf("pte: structure: %w: %v", tensor.ErrMalformed, err)
	}
	return p.tree(&tree, "", 0)
}

type jsonStructure struct {
	Type     *string         `json:"type"`
	Context  json.RawMessage `json:"context"`
	Children []jsonStructure `json:"children_spec"`
}

func (p *leafPaths) tree(j *jsonStructure, path string, depth int) error {
	if j.Type == nil {
		p.all = append(p.all, path)
		return nil
	}
	dict := strings.TrimPrefix(*j.Type, "builtins.") == "dict"
	var context string // the keys of a dict are JSON inside of a JSON string
	var keys []any
	if dict && json.Unmarshal(j.Context, &context) == nil {
		_ = json.Unmarshal([]byte(context), &keys)
	}
	for i := range j.Children {
		var key *string
		if dict {
			text := strconv.Itoa(i)
			if len(keys) == len(j.Children) {
				text = fmt.Sprint(keys[i])
			}
			key = &text
		}
		child, err := p.child(path, i, key, depth)
		if err != nil {
			return err
		}
		if err := p.tree(&j.Children[i], child, depth+1); err != nil {
			return err
		}
	}
	return nil
}
