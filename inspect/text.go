package inspect

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// IsText reports whether the elements of a dense tensor are text of NumPy, which
// [WriteValues] writes.
func IsText(t *tensor.Tensor) bool {
	_, ok := charactersOf(t)
	return ok
}

// SliceText returns a slice of text of NumPy, as [tensor.Slice] does of numbers. It fails
// with tensor.ErrDType if [IsText] is false.
func SliceText(t *tensor.Tensor, index ...tensor.Index) (*tensor.Tensor, error) {
	c, ok := charactersOf(t)
	if !ok || len(index) > len(t.Shape) {
		return nil, fmt.Errorf("%w: tensor %s is not text of %d dimensions", tensor.ErrDType,
			naming.Quote(t.Name), len(index))
	}
	part, err := tensor.Slice(c.Tensor, index...)
	if err != nil {
		return nil, err
	}
	st, _ := t.Data.Stored()
	return &tensor.Tensor{Name: t.Name, Shape: part.Shape[:len(part.Shape)-1],
		Data: tensor.NewBlob(&textSource{part.Data.Source(), st.Type})}, nil
}

// A textSource is the data of text, which has a type of NumPy.
type textSource struct {
	tensor.Source
	typeName string
}

// Stored is for tensor.Blob.
func (s *textSource) Stored() (tensor.Stored, bool) {
	return tensor.Stored{Offset: -1, Type: s.typeName}, true
}

// characters are the elements of text, with the characters as the last dimension.
type characters struct {
	*tensor.Tensor      // uint32 code points, or bytes
	length         int  // characters of each element
	isBig          bool // code points are big-endian
}

// charactersOf returns the characters of text: code points of "<U5" and ">U5", bytes of
// "|S5". ok is false if t is not text.
func charactersOf(t *tensor.Tensor) (c characters, ok bool) {
	st, _ := t.Data.Stored()
	word := st.Type
	if t.DType != tensor.Unknown || len(word) < 3 || !strings.Contains("<>|=", word[:1]) {
		return c, false
	}
	d := map[byte]tensor.DType{'U': tensor.U32, 'S': tensor.U8, 'a': tensor.U8}[word[1]]
	n, err := strconv.ParseUint(word[2:], 10, 31)
	if d == tensor.Unknown || err != nil || n == 0 {
		return c, false
	}
	shape := append(slices.Clone(t.Shape), int64(n))
	elements, fits := shape.Elements()
	size, isSized := d.Bytes(elements)
	order := slices.Clone(t.Order)
	if order != nil {
		order = append(order, len(t.Shape))
	}
	chars := &tensor.Tensor{Name: t.Name, DType: d, Shape: shape, Order: order, Data: t.Data}
	return characters{chars, int(n), word[0] == '>'}, fits && isSized && size == t.Data.Size()
}

// texts calls use with each element, in quotes.
func (c *characters) texts(v *valueWriter, t *tensor.Tensor, use func(text []byte) error) error {
	var one, quoted []byte
	n := 0
	for codes, err := range tensor.Values[uint32](t) {
		if err == nil {
			err = v.ctx.Err()
		}
		if err != nil {
			return err
		}
		for _, code := range codes {
			switch {
			case t.DType == tensor.U8:
				one = append(one, byte(code))
			case c.isBig:
				one = utf8.AppendRune(one, rune(bits.ReverseBytes32(code)))
			default:
				one = utf8.AppendRune(one, rune(code))
			}
			if n++; n < c.length {
				continue
			}
			quoted = appendQuoted(quoted[:0], bytes.TrimRight(one, "\x00"), v.JSON)
			if err := use(quoted); err != nil {
				return err
			}
			one, n = one[:0], 0
		}
	}
	return nil
}

// appendQuoted appends text as a JSON string. If isJSON is set, it escapes < and > for
// HTML. Bytes that are not UTF-8 become U+FFFD.
func appendQuoted(b, text []byte, isJSON bool) []byte {
	b = append(b, '"')
	for _, r := range string(text) {
		switch {
		case r == '"', r == '\\':
			b = append(b, '\\', byte(r))
		case unicode.IsPrint(r) && r != utf8.RuneError && (!isJSON || r != '<' && r != '>'):
			b = utf8.AppendRune(b, r)
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				b = fmt.Appendf(b, `\u%04x`, unit)
			}
		}
	}
	return append(b, '"')
}
