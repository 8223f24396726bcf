package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

const (
	magic = "\x93NUMPY"
	// maxHeader bounds the text of a header: numpy itself refuses 10,000 bytes
	// unless told to trust the file.
	maxHeader = 1 << 20
	// headerAlign is what numpy pads the start of the elements to.
	headerAlign = 64
)

// descrs are NumPy's words for element types without the sign of byte order.
var descrs = []struct {
	word string
	d    tensor.DType
}{
	{"b1", tensor.Bool},
	{"i1", tensor.I8}, {"i2", tensor.I16}, {"i4", tensor.I32}, {"i8", tensor.I64},
	{"u1", tensor.U8}, {"u2", tensor.U16}, {"u4", tensor.U32}, {"u8", tensor.U64},
	{"f2", tensor.F16}, {"f4", tensor.F32}, {"f8", tensor.F64},
	{"c8", tensor.C64}, {"c16", tensor.C128},
}

// DTypes returns the element types that an array can hold.
func DTypes() []tensor.DType {
	all := make([]tensor.DType, len(descrs))
	for i := range descrs {
		all[i] = descrs[i].d
	}
	return all
}

// A header is what stands before the elements of one array.
type header struct {
	version string
	d       tensor.DType
	big     bool // big-endian elements of more than a byte
	shape   tensor.Shape
	order   tensor.Order
	size    int64 // of the header: where the elements begin
	bytes   int64 // of the elements
	warning error // nil where all is well
}

func formatError(off int64, field string, class error, format string, args ...any) error {
	return &tensor.FormatError{Format: "npy", Offset: off, Field: field, Err: fmt.Errorf("%w: "+format, append([]any{class}, args...)...)}
}

// readHeader reads an array's header from r, which has size bytes, -1 for
// unknown. base is where it begins in the file, for errors.
func readHeader(r io.Reader, size, base int64, limits tensor.Limits) (*header, error) {
	var head [12]byte
	if err := readFull(r, head[:8], base, "header"); err != nil {
		return nil, err
	}
	if string(head[:6]) != magic {
		return nil, formatError(base, "magic", tensor.ErrMalformed, "not an array")
	}
	major, minor := head[6], head[7]
	h := &header{version: fmt.Sprintf("%d.%d", major, minor)}
	var n int64
	switch {
	case minor != 0 || major == 0 || major > 3:
		return nil, formatError(base+6, "version", errors.ErrUnsupported, "version %s", h.version)
	case major == 1:
		if err := readFull(r, head[8:10], base+8, "header size"); err != nil {
			return nil, err
		}
		n, h.size = int64(binary.LittleEndian.Uint16(head[8:])), 10
	default:
		if err := readFull(r, head[8:12], base+8, "header size"); err != nil {
			return nil, err
		}
		n, h.size = int64(binary.LittleEndian.Uint32(head[8:])), 12
	}
	if size >= 0 && n > size-h.size {
		return nil, formatError(base+8, "header size", io.ErrUnexpectedEOF, "%d bytes", n)
	}
	if n > min(maxHeader, limits.MaxMetadata) {
		return nil, formatError(base+8, "header size", tensor.ErrLimit, "%d bytes, the limit is %d", n, min(maxHeader, limits.MaxMetadata))
	}
	text := make([]byte, n)
	if err := readFull(r, text, base+h.size, "header"); err != nil {
		return nil, err
	}
	if err := h.parse(string(text), base+h.size, limits); err != nil {
		return nil, err
	}
	h.size += n
	return h, nil
}

func readFull(r io.Reader, p []byte, off int64, field string) error {
	_, err := io.ReadFull(r, p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return &tensor.FormatError{Format: "npy", Offset: off, Field: field, Err: err}
	}
	return nil
}

// parse reads the Python dictionary that numpy prints: literals only.
func (h *header) parse(text string, base int64, limits tensor.Limits) error {
	p := &literals{s: text}
	var descr string
	var fortran bool
	seen := map[string]bool{}
	p.expect("{")
	for p.err == "" && !p.take("}") {
		key := p.str()
		p.expect(":")
		if p.err == "" && seen[key] {
			p.fail("the key " + tensor.Quote(key) + " stands twice")
		}
		seen[key] = true
		switch {
		case p.err != "":
		case key == "descr":
			if p.peek() == '[' || p.peek() == '(' {
				return formatError(base+int64(p.i), "descr", errors.ErrUnsupported, "a structured type")
			}
			descr = p.str()
		case key == "fortran_order":
			fortran = p.take("True")
			if !fortran {
				p.expect("False")
			}
		case key == "shape":
			if h.shape = p.tuple(limits.MaxRank); int64(len(h.shape)) > limits.MaxRank {
				return formatError(base, "shape", tensor.ErrLimit, "more than %d dimensions", limits.MaxRank)
			}
		default:
			p.fail("the key " + tensor.Quote(key) + " is unknown")
		}
		if p.err == "" && !p.take(",") && p.peek() != '}' {
			p.fail("expected , or }")
		}
	}
	p.peek()
	if p.err == "" && p.i < len(p.s) {
		p.fail("text after the dictionary")
	}
	if p.err == "" && len(seen) != 3 {
		p.fail("descr, fortran_order or shape is missing")
	}
	if p.err != "" {
		return formatError(base+int64(p.i), "header", tensor.ErrMalformed, "%s", p.err)
	}
	if fortran {
		h.order = tensor.ColumnMajor(len(h.shape))
	}
	return h.setType(descr, base)
}

func (h *header) setType(descr string, base int64) error {
	word := descr
	if word != "" && strings.ContainsRune("<>|=", rune(word[0])) {
		word = word[1:]
	}
	i := slices.IndexFunc(descrs, func(d struct {
		word string
		d    tensor.DType
	}) bool {
		return d.word == word
	})
	if i < 0 {
		return formatError(base, "descr", errors.ErrUnsupported, "the element type %s", tensor.Quote(descr))
	}
	h.d = descrs[i].d
	switch {
	case h.d.Align() == 1:
	case descr[0] == '>':
		h.big = true
	case descr[0] != '<': // the order of the writer's machine, which nobody knows
		h.warning = formatError(base, "descr", tensor.ErrMalformed, "the element type %s does not say its byte order: read as little-endian", tensor.Quote(descr))
	}
	n, ok := h.shape.Elements()
	if ok {
		h.bytes, ok = h.d.Bytes(n)
	}
	if !ok {
		return formatError(base, "shape", tensor.ErrMalformed, "%v of %v is beyond 2^63 bytes", h.shape, h.d)
	}
	return nil
}

// literals scans the few Python literals that a header has.
type literals struct {
	s   string
	i   int
	err string
}

func (p *literals) fail(what string) {
	if p.err == "" {
		p.err = what
	}
}

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

// str takes a string without escapes: no word of ours needs one.
func (p *literals) str() string {
	q := p.peek()
	if p.err != "" || q != '\'' && q != '"' {
		p.fail("expected a string")
		return ""
	}
	end := strings.IndexByte(p.s[p.i+1:], q)
	if end < 0 || strings.ContainsAny(p.s[p.i+1:p.i+1+end], "\\\n") {
		p.fail("a string that does not end, or holds an escape")
		return ""
	}
	s := p.s[p.i+1 : p.i+1+end]
	p.i += end + 2
	return s
}

// tuple takes the dimensions: (), (2,), (2, 3), with the L of Python 2's longs.
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
			p.fail("a dimension that is no plain integer")
			return nil
		}
		p.take("L")
		shape = append(shape, int64(n))
		comma = p.take(",")
		if int64(len(shape)) > maxRank {
			return shape // the caller reports the limit
		}
	}
	if len(shape) == 1 && !comma {
		p.fail("(n) is a number, not a tuple")
	}
	return shape
}

// appendHeader writes the header as numpy does, version 1.0 where it fits.
func appendHeader(b []byte, t *tensor.Tensor) ([]byte, error) {
	i := slices.IndexFunc(descrs, func(d struct {
		word string
		d    tensor.DType
	}) bool {
		return d.d == t.DType
	})
	if i < 0 {
		return nil, fmt.Errorf("%w: npy: tensor %s: %v has no place", tensor.ErrDType, tensor.Quote(t.Name), t.DType)
	}
	sign := "<"
	if t.DType.Align() == 1 {
		sign = "|"
	}
	fortran := "False"
	if !t.Order.RowMajor() {
		fortran = "True"
	}
	var dims strings.Builder
	for i, d := range t.Shape {
		if i > 0 {
			dims.WriteString(", ")
		}
		dims.WriteString(strconv.FormatInt(d, 10))
	}
	if len(t.Shape) == 1 {
		dims.WriteByte(',')
	}
	text := fmt.Sprintf("{'descr': '%s%s', 'fortran_order': %s, 'shape': (%s), }", sign, descrs[i].word, fortran, dims.String())
	// numpy leaves room for the first dimension to grow to 21 digits, so that
	// the array can be appended to in place.
	if n := growthDigits(t); n > 0 {
		text += strings.Repeat(" ", n)
	}
	fixed := 10
	pad := func() int { return headerAlign - (fixed+len(text)+1)%headerAlign } // 1 to 64, as numpy has it
	if len(text)+1+pad() > math.MaxUint16 {
		fixed = 12
	}
	text += strings.Repeat(" ", pad()) + "\n"
	b = append(b, magic...)
	if fixed == 10 {
		b = append(b, 1, 0)
		b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	} else {
		b = append(b, 2, 0)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	}
	return append(b, text...), nil
}

// growthDigits is how many spaces numpy appends: up to 21 digits for the
// dimension that grows, the last one in Fortran order, otherwise the first.
func growthDigits(t *tensor.Tensor) int {
	if len(t.Shape) == 0 {
		return 0
	}
	d := t.Shape[0]
	if !t.Order.RowMajor() {
		d = t.Shape[len(t.Shape)-1]
	}
	return 21 - len(strconv.FormatInt(d, 10))
}
