// Package numpy reads and writes the header of NumPy's arrays, at the start
// of an .npy file and of each array of an .npz archive.
package numpy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// Magic is the start of every array.
const Magic = "\x93NUMPY"

// Suffix is the file name extension of arrays, also of the members of an archive.
const Suffix = ".npy"

// Alignment is the multiple at which NumPy puts the elements.
const Alignment = 64

// maxRank is NumPy's NPY_MAXDIMS.
const maxRank = 64

// maxHeader bounds the text of a header: numpy itself refuses 10,000 bytes unless told to
// trust the file.
const maxHeader = 1 << 20

// descrs are NumPy's names of dtypes without the sign of their byte order.
var descrs = []struct {
	typeName string
	d        tensor.DType
}{
	{"b1", tensor.Bool},
	{"i1", tensor.I8}, {"i2", tensor.I16}, {"i4", tensor.I32}, {"i8", tensor.I64},
	{"u1", tensor.U8}, {"u2", tensor.U16}, {"u4", tensor.U32}, {"u8", tensor.U64},
	{"f2", tensor.F16}, {"f4", tensor.F32}, {"f8", tensor.F64},
	{"c8", tensor.C64}, {"c16", tensor.C128},
}

// DTypes returns the dtypes that an array can hold.
func DTypes() []tensor.DType {
	all := make([]tensor.DType, len(descrs))
	for i := range descrs {
		all[i] = descrs[i].d
	}
	return all
}

func typeName(d tensor.DType) (word string, ok bool) {
	for i := range descrs {
		if descrs[i].d == d {
			return descrs[i].typeName, true
		}
	}
	return "", false
}

// spellings are other names that NumPy reads, each for a word of descrs or of itemSize.
// Codes of one letter may follow the sign of a byte order.
var spellings = map[string]string{
	"?": "b1", "b": "i1", "B": "u1", "h": "i2", "H": "u2", "i": "i4", "I": "u4", "l": "i8",
	"L": "u8", "q": "i8", "Q": "u8", "p": "i8", "P": "u8", "e": "f2", "f": "f4", "d": "f8",
	"F": "c8", "D": "c16", "g": "f16", "G": "c32",
	"bool_": "b1", "byte": "i1", "ubyte": "u1", "short": "i2", "ushort": "u2", "intc": "i4",
	"uintc": "u4", "int": "i8", "uint": "u8", "long": "i8", "ulong": "u8", "longlong": "i8",
	"ulonglong": "u8", "intp": "i8", "uintp": "u8", "half": "f2", "single": "f4",
	"double": "f8", "float": "f8", "longdouble": "f16", "csingle": "c8", "cdouble": "c16",
	"complex": "c16", "clongdouble": "c32",
	// Names that ml_dtypes registers, of types that have no dtype here: one byte each.
	"float8_e3m4": "V1", "float8_e4m3": "V1", "float8_e4m3b11fnuz": "V1",
	"float4_e2m1fn": "V1", "float6_e2m3fn": "V1", "float6_e3m2fn": "V1", "bcomplex32": "V4",
	"int4": "V1", "uint4": "V1", "int2": "V1", "uint2": "V1", "int1": "V1", "uint1": "V1",
}

// registered are the dtypes that NumPy knows by name when ml_dtypes is imported.
var registered = []tensor.DType{tensor.BF16, tensor.C32, tensor.F8E4M3FN, tensor.F8E5M2,
	tensor.F8E4M3FNUZ, tensor.F8E5M2FNUZ, tensor.F8E8M0FNU}

// dtypeOf returns the dtype of a word without the sign of its byte order, or of a name,
// such as float64; and the word for it.
func dtypeOf(word string, signed bool) (tensor.DType, string) {
	if w, ok := spellings[word]; ok && (!signed || len(word) == 1) {
		word = w
	}
	if word == "f1" { // as ml_dtypes has it
		return tensor.F8E5M2, word
	}
	for _, t := range descrs {
		if t.typeName == word || !signed && t.d.String() == word {
			return t.d, t.typeName
		}
	}
	if i := slices.IndexFunc(registered, func(d tensor.DType) bool {
		return !signed && d.String() == word
	}); i >= 0 {
		return registered[i], word
	}
	return tensor.Unknown, word
}

// A Header is what precedes the elements of one array.
type Header struct {
	Version   string
	Descr     string       // NumPy's text for the type
	DescrAt   int64        // where it is in the file
	DType     tensor.DType // Unknown for types that are not plain numbers
	BigEndian bool         // elements of more than a byte
	Shape     tensor.Shape
	Order     tensor.Order
	Size      int64 // of the header: the elements begin after it
	Bytes     int64 // of the elements, -1 where the type does not say
	Warning   error // nil where nothing is unusual

	shapeAt int64 // in the file
}

const errs = format.Errors("npy")

// Error makes the error of an array at byte off of a file.
func Error(off int64, field string, class error, text string, args ...any) error {
	return errs.At(off, field, class, text, args...)
}

// ReadHeader reads the header of an array from r, which has size bytes, -1 for unknown.
// base is where it begins in the file, for errors.
func ReadHeader(r io.Reader, size, base int64, limits tensor.Limits) (*Header, error) {
	var head [12]byte
	if err := readFull(r, head[:8], base, "header"); err != nil {
		return nil, err
	}
	if string(head[:6]) != Magic {
		return nil, Error(base, "magic", tensor.ErrMalformed, "not an array")
	}
	major, minor := head[6], head[7]
	h := &Header{Version: fmt.Sprintf("%d.%d", major, minor)}
	var n int64
	switch {
	case minor != 0 || major == 0 || major > 3:
		return nil, Error(base+6, "version", errors.ErrUnsupported, "version %s", h.Version)
	case major == 1:
		if err := readFull(r, head[8:10], base+8, "header size"); err != nil {
			return nil, err
		}
		n, h.Size = int64(binary.LittleEndian.Uint16(head[8:])), 10
	default:
		if err := readFull(r, head[8:12], base+8, "header size"); err != nil {
			return nil, err
		}
		n, h.Size = int64(binary.LittleEndian.Uint32(head[8:])), 12
	}
	if size >= 0 && n > size-h.Size {
		return nil, Error(base+8, "header size", io.ErrUnexpectedEOF, "%d bytes", n)
	}
	if limit := min(maxHeader, limits.MaxMetadata); n > limit {
		return nil, Error(base+8, "header size", tensor.ErrLimit, "%d bytes, the limit is %d",
			n, limit)
	}
	text := make([]byte, n)
	if err := readFull(r, text, base+h.Size, "header"); err != nil {
		return nil, err
	}
	if err := h.parse(string(text), base+h.Size, limits); err != nil {
		return nil, err
	}
	h.Size += n
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

// parse reads the Python dictionary that numpy prints, in which only literals occur.
func (h *Header) parse(text string, base int64, limits tensor.Limits) error {
	p := &literals{s: text}
	var fortran bool
	seen := map[string]bool{}
	p.expect("{")
	for p.err == "" && !p.take("}") {
		key := p.str()
		p.expect(":")
		if p.err == "" && seen[key] {
			p.fail("duplicate key " + naming.Quote(key))
		}
		seen[key] = true
		switch {
		case p.err != "":
		case key == "descr":
			c := p.peek()
			h.DescrAt = base + int64(p.i)
			if c == '[' || c == '(' {
				h.Descr = p.nested()
			} else {
				h.Descr = p.str()
			}
		case key == "fortran_order":
			fortran = p.take("True")
			if !fortran {
				p.expect("False")
			}
		case key == "shape":
			p.peek()
			h.shapeAt = base + int64(p.i)
			if h.Shape = p.tuple(limits.MaxRank); int64(len(h.Shape)) > limits.MaxRank {
				return Error(h.shapeAt, "shape", tensor.ErrLimit, "more than %d dimensions",
					limits.MaxRank)
			}
		default:
			p.fail("unknown key " + naming.Quote(key))
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
		return Error(base+int64(p.i), "header", tensor.ErrMalformed, "%s", p.err)
	}
	if fortran {
		h.Order = tensor.ColumnMajor(len(h.Shape))
	}
	return h.setType()
}

func (h *Header) setType() error {
	typeName, sign := h.Descr, byte(0)
	if typeName != "" && strings.IndexByte("<>|=", typeName[0]) >= 0 {
		typeName, sign = typeName[1:], typeName[0]
	}
	h.DType, typeName = dtypeOf(typeName, sign != 0)
	switch {
	case h.DType == tensor.Unknown:
	case h.DType.Align() == 1:
	case sign == '>':
		h.BigEndian = true
	case sign != '<': // the order of the writer's machine, which is not recorded
		h.Warning = Error(h.DescrAt, "descr", tensor.ErrMalformed,
			"the dtype %s does not give its byte order: read as little-endian",
			naming.Quote(h.Descr))
	}
	if len(h.Shape) > maxRank {
		h.Warning = Error(h.shapeAt, "shape", tensor.ErrMalformed,
			"%d dimensions: NumPy reads at most %d", len(h.Shape), maxRank)
	}
	n, ok := h.Shape.Elements()
	size, sized := int64(0), true
	if h.DType == tensor.Unknown {
		size, sized = itemSize(typeName)
	}
	switch {
	case ok && !sized:
		h.Bytes = -1
	case ok && h.DType == tensor.Unknown:
		h.Bytes, ok = align.Mul(n, size)
	case ok:
		h.Bytes, ok = h.DType.Bytes(n)
	}
	if !ok {
		return Error(h.shapeAt, "shape", tensor.ErrMalformed, "%v of %s is beyond 2^63 bytes",
			h.Shape, h.TypeName())
	}
	return nil
}

// itemSize returns the bytes of an element that is no plain number: text, raw bytes,
// dates and wide floats have a size, objects and structures none that the word gives.
func itemSize(typeName string) (size int64, ok bool) {
	if typeName == "" {
		return 0, false
	}
	unit := int64(1)
	switch typeName[0] {
	case 'U':
		unit = 4
	case 'M', 'm':
		return 8, strings.HasPrefix(typeName[1:], "8")
	case 'S', 'a', 'V', 'f', 'c', 'W': // W are pairs of ml_dtypes
	default:
		return 0, false
	}
	n, err := strconv.ParseUint(typeName[1:], 10, 31)
	return int64(n) * unit, err == nil
}

// Listed reports whether the elements are of a type that NumPy has, though it may be no
// plain number: one with a size, objects, or a structure.
func (h *Header) Listed() bool {
	word := strings.TrimLeft(h.Descr, "<>|=")
	return h.Bytes >= 0 || word == "O" || strings.HasPrefix(word, "[") ||
		strings.HasPrefix(word, "(")
}

// TypeName is the type for people.
func (h *Header) TypeName() string {
	if h.DType == tensor.Unknown {
		return naming.Quote(h.Descr)
	}
	return h.DType.String()
}

// Check reports why t, whose description was checked, cannot be an array.
func Check(f format.Errors, t *tensor.Tensor) error {
	refuse := func(text string, args ...any) error {
		return f.Tensor(t.Name, errors.ErrUnsupported, text, args...)
	}
	_, ok := typeName(t.DType)
	switch {
	case !t.Dense() || t.External || len(t.Parts) > 0:
		return refuse("only dense tensors can be represented")
	case !t.Order.RowMajor() && !slices.Equal(t.Order, tensor.ColumnMajor(len(t.Shape))):
		return refuse("its order is neither row-major nor column-major (tensor.Reordered)")
	case t.Data.Size() < 0:
		return refuse("its size is only known after decoding")
	case !ok:
		return refuse("the format does not have %v", t.DType)
	case len(t.Shape) > maxRank:
		return refuse("%d dimensions, NumPy has at most %d", len(t.Shape), maxRank)
	}
	return nil
}

// AppendHeader appends the header that numpy writes for t, of version 1.0 where it fits.
// t passes Check, but its data is not used.
func AppendHeader(b []byte, t *tensor.Tensor) ([]byte, error) {
	word, ok := typeName(t.DType)
	if !ok {
		return nil, errs.Tensor(t.Name, errors.ErrUnsupported, "the format does not have %v",
			t.DType)
	}
	sign := "<"
	if t.DType.Align() == 1 {
		sign = "|"
	}
	fortran := "False"
	if !t.Order.RowMajor() {
		fortran = "True"
	}
	dims := make([]string, len(t.Shape))
	for i, d := range t.Shape {
		dims[i] = fmt.Sprint(d)
	}
	shape := strings.Join(dims, ", ")
	if len(dims) == 1 {
		shape += ","
	}
	text := fmt.Sprintf("{'descr': '%s%s', 'fortran_order': %s, 'shape': (%s), }", sign, word,
		fortran, shape)
	text += strings.Repeat(" ", growth(t, dims))
	fixed := 10
	// 1 to 64, as numpy has it
	padding := func() int { return Alignment - (fixed+len(text)+1)%Alignment }
	if len(text)+1+padding() > math.MaxUint16 {
		fixed = 12
	}
	text += strings.Repeat(" ", padding()) + "\n"
	b = append(b, Magic...)
	if fixed == 10 {
		b = append(b, 1, 0)
		b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	} else {
		b = append(b, 2, 0)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	}
	return append(b, text...), nil
}

// growth is how many spaces numpy appends, so that the dimension that grows when the
// array is appended to can have 21 digits: the last one in Fortran order, otherwise the
// first.
func growth(t *tensor.Tensor, dims []string) int {
	switch {
	case len(dims) == 0:
		return 0
	case t.Order.RowMajor():
		return 21 - len(dims[0])
	}
	return 21 - len(dims[len(dims)-1])
}

// WriteArray writes t, which passes Check, as numpy does.
func WriteArray(w io.Writer, t *tensor.Tensor) (n int64, err error) {
	head, err := AppendHeader(nil, t)
	if err != nil {
		return 0, err
	}
	if _, err := w.Write(head); err != nil {
		return 0, err
	}
	n, err = format.CopyBlob(w, t.Data, t.Data.Size())
	return int64(len(head)) + n, err
}
