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

// A Structure says how the inputs or outputs of a method were nested in the original
// model. The leaves, in order, are the method's inputs or outputs.
type Structure struct {
	// Kind is "leaf", "none", "tuple", "list", "dict", "namedtuple" or the type that the
	// file names.
	Kind string
	// Keys are those of a dict, as many as Children.
	Keys     []string
	Children []*Structure
}

const maxStructure = 64 // levels

// ParseStructure reads what [Method.Structure] returns: JSON as PyTorch writes it, or
// ExecuTorch's compact notation, such as T2#2#0(T2#1#1($,$),D0()). The empty string is
// nil. Errors are tensor.ErrMalformed, or tensor.ErrLimit where it is nested deeper than
// 64.
func ParseStructure(s string) (*Structure, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil, nil
	}
	if s[0] == '[' {
		return parseJSONStructure(s)
	}
	p := structureParser{s: s}
	x, err := p.node(0)
	if err == nil && p.at != len(s) {
		err = p.errorf("%d bytes are left over", len(s)-p.at)
	}
	if err != nil {
		return nil, err
	}
	return x, nil
}

type structureParser struct {
	s  string
	at int
}

func (p *structureParser) errorf(format string, args ...any) error {
	return fmt.Errorf("pte: structure: %w at character %d: %s", tensor.ErrMalformed, p.at,
		fmt.Sprintf(format, args...))
}

func (p *structureParser) peek() byte {
	if p.at < len(p.s) {
		return p.s[p.at]
	}
	return 0
}

// accept skips c, and reports whether it is there.
func (p *structureParser) accept(c byte) bool {
	ok := p.peek() == c
	if ok {
		p.at++
	}
	return ok
}

// errTooDeep is for what is nested deeper than maxStructure.
var errTooDeep = fmt.Errorf("pte: structure: %w: nested deeper than %d", tensor.ErrLimit,
	maxStructure)

func (p *structureParser) node(depth int) (*Structure, error) {
	if depth > maxStructure {
		return nil, errTooDeep
	}
	kinds := map[byte]string{'T': "tuple", 'N': "namedtuple", 'L': "list", 'D': "dict", 'C': "custom"}
	c := p.peek()
	x := &Structure{Kind: kinds[c]}
	switch {
	case p.accept('$'):
		return &Structure{Kind: "leaf"}, nil
	case c == ',' || c == ')' || c == 0:
		return &Structure{Kind: "none"}, nil
	case x.Kind == "":
		return nil, p.errorf("%q begins no node", c)
	}
	p.at++
	n, err := p.number()
	if err != nil {
		return nil, err
	}
	for range n { // how many leaves each child has, which is counted anyway
		if !p.accept('#') {
			return nil, p.errorf("fewer numbers of leaves than children")
		}
		if _, err := p.number(); err != nil {
			return nil, err
		}
	}
	if !p.accept('(') {
		return nil, p.errorf("no children")
	}
	for i := range n {
		if i > 0 && !p.accept(',') {
			return nil, p.errorf("fewer children than the %d declared", n)
		}
		if x.Kind == "dict" {
			key, err := p.key()
			if err != nil {
				return nil, err
			}
			x.Keys = append(x.Keys, key)
		}
		child, err := p.node(depth + 1)
		if err != nil {
			return nil, err
		}
		x.Children = append(x.Children, child)
	}
	if !p.accept(')') {
		return nil, p.errorf("more children than the %d declared", n)
	}
	return x, nil
}

func (p *structureParser) number() (int, error) {
	start := p.at
	for c := p.peek(); c >= '0' && c <= '9'; c = p.peek() {
		p.at++
	}
	n, err := strconv.Atoi(p.s[start:p.at])
	if err != nil || n > len(p.s) {
		return 0, p.errorf("%s is not a number of children", quote.Name(p.s[start:p.at]))
	}
	return n, nil
}

// key reads what is before the colon of a dict's child: an integer, or text between
// single quotes.
func (p *structureParser) key() (string, error) {
	start := p.at
	var key string
	if p.accept('\'') {
		n := strings.IndexByte(p.s[p.at:], '\'')
		if n < 0 {
			p.at = start
			return "", p.errorf("a quote without its end")
		}
		key = p.s[p.at : p.at+n]
		p.at += n + 1
	} else {
		for c := p.peek(); c == '-' || c >= '0' && c <= '9'; c = p.peek() {
			p.at++
		}
		key = p.s[start:p.at]
	}
	if !p.accept(':') {
		return "", p.errorf("no colon after a key")
	}
	return key, nil
}

// parseJSONStructure reads [1, {"type": …, "context": …, "children_spec": […]}].
func parseJSONStructure(s string) (*Structure, error) {
	var top []json.RawMessage
	err := json.Unmarshal([]byte(s), &top)
	if err == nil && len(top) != 2 {
		err = fmt.Errorf("%d elements are not a version and a tree", len(top))
	}
	var tree jsonStructure
	if err == nil {
		if string(top[0]) != "1" {
			return nil, fmt.Errorf("pte: structure: %w: version %s", errors.ErrUnsupported,
				quote.Name(string(top[0])))
		}
		err = json.Unmarshal(top[1], &tree)
	}
	if err != nil {
		return nil, fmt.Errorf("pte: structure: %w: %v", tensor.ErrMalformed, err)
	}
	return tree.structure(0)
}

type jsonStructure struct {
	Type     *string         `json:"type"`
	Context  json.RawMessage `json:"context"`
	Children []jsonStructure `json:"children_spec"`
}

func (j *jsonStructure) structure(depth int) (*Structure, error) {
	if depth > maxStructure {
		return nil, errTooDeep
	}
	if j.Type == nil {
		return &Structure{Kind: "leaf"}, nil
	}
	x := &Structure{Kind: strings.TrimPrefix(*j.Type, "builtins.")}
	switch x.Kind {
	case "NoneType":
		x.Kind = "none"
	case "collections.namedtuple":
		x.Kind = "namedtuple"
	}
	if x.Kind == "dict" {
		// The keys are JSON inside of a JSON string.
		var context string
		var keys []any
		err := json.Unmarshal(j.Context, &context)
		if err == nil {
			err = json.Unmarshal([]byte(context), &keys)
		}
		if err == nil && len(keys) == len(j.Children) {
			for _, k := range keys {
				x.Keys = append(x.Keys, fmt.Sprint(k))
			}
		} else {
			for i := range j.Children {
				x.Keys = append(x.Keys, strconv.Itoa(i))
			}
		}
	}
	for i := range j.Children {
		c, err := j.Children[i].structure(depth + 1)
		if err != nil {
			return nil, err
		}
		x.Children = append(x.Children, c)
	}
	return x, nil
}

// String writes the structure as Python would show it, with * for leaves: ((*, *),
// {'mask': *}).
func (s *Structure) String() string {
	var b strings.Builder
	s.write(&b)
	return b.String()
}

func (s *Structure) write(b *strings.Builder) {
	if s == nil {
		return
	}
	open, end := s.Kind+"(", ")"
	switch s.Kind {
	case "leaf":
		b.WriteByte('*')
		return
	case "none":
		b.WriteString("None")
		return
	case "tuple":
		open = "("
		if len(s.Children) == 1 {
			end = ",)"
		}
	case "list":
		open, end = "[", "]"
	case "dict":
		open, end = "{", "}"
	}
	b.WriteString(open)
	for i, c := range s.Children {
		if i > 0 {
			b.WriteString(", ")
		}
		if s.Kind == "dict" {
			b.WriteString("'" + s.Keys[i] + "': ")
		}
		c.write(b)
	}
	b.WriteString(end)
}

// Leaves names the way to each leaf, such as [0][1] or [1]['mask']: of a method's inputs,
// [0] are the positional arguments and [1] the named ones.
func (s *Structure) Leaves() []string {
	var all []string
	var walk func(s *Structure, path string)
	walk = func(s *Structure, path string) {
		if s.Kind == "leaf" {
			all = append(all, path)
		}
		for i, c := range s.Children {
			step := "[" + strconv.Itoa(i) + "]"
			if s.Kind == "dict" {
				step = "['" + s.Keys[i] + "']"
			}
			walk(c, path+step)
		}
	}
	if s != nil {
		walk(s, "")
	}
	return all
}
