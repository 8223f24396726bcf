package torch

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// keyText returns the part of a name for a key: a string itself, any other value as
// Python writes it.
func keyText(v any) string {
	switch v := v.(type) {
	case string:
		return strings.ToValidUTF8(v, "\uFFFD")
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case bytestring:
		return "b" + strconv.Quote(string(v))
	case *sequence:
		var b strings.Builder
		b.WriteByte('(')
		for i, v := range v.items {
			if i > 0 {
				b.WriteString(", ")
			}
			if s, ok := v.(string); ok {
				b.WriteString(strconv.Quote(s))
			} else {
				b.WriteString(keyText(v))
			}
		}
		if len(v.items) == 1 {
			b.WriteByte(',')
		}
		b.WriteByte(')')
		return b.String()
	case *object:
		return v.class.String()
	}
	return string(appendJSON(nil, v, math.MaxInt))
}

// isScalars reports whether no item contains other values.
func isScalars(items []any) bool {
	for _, v := range items {
		switch v.(type) {
		case *dict, *sequence, *object, *array, *storage:
			return false
		}
	}
	return true
}

// attributeText returns a value as text: a string itself, whose memory is in the pickle,
// or any other value in JSON. It fails if that takes more memory than is left.
func attributeText(v any, left *memory) (string, error) {
	const copies = 3 // of the bytes: two while they grow, and the string
	if s, ok := v.(string); ok && utf8.ValidString(s) {
		return s, nil
	} else if ok {
		return strings.ToValidUTF8(s, "\uFFFD"), left.take(copies * len(s))
	}
	b := appendJSON(nil, v, left.left/copies)
	if err := left.take(copies * len(b)); err != nil {
		return "", err
	}
	return string(b), nil
}

// appendJSON appends a scalar, or a list of scalars, which it cuts after limit bytes. A
// value that JSON has no form for is an object with one key that begins with $.
func appendJSON(b []byte, v any, limit int64) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case bigInt:
		if strings.Contains(string(v), "x") {
			return fmt.Appendf(b, `"%s"`, string(v))
		}
		return append(b, v...)
	case float64:
		return appendFloat(b, v)
	case complex128:
		b = append(b, `{"$complex":[`...)
		b = append(appendFloat(b, real(v)), ',')
		return append(appendFloat(b, imag(v)), "]}"...)
	case bytestring:
		return fmt.Appendf(b, `{"$bytes":"%s"}`, hex.EncodeToString([]byte(v)))
	case *sequence:
		b = append(b, '[')
		for i, v := range v.items {
			if i > 0 {
				b = append(b, ',')
			}
			if b = appendJSON(b, v, limit); int64(len(b)) > limit {
				break
			}
		}
		return append(b, ']')
	case *global:
		return appendString(b, v.module+"."+v.name)
	case *numpyType:
		return appendString(b, v.name)
	case string:
		return appendString(b, v)
	}
	return append(b, "null"...)
}

func appendString(b []byte, s string) []byte {
	q, _ := json.Marshal(s)
	return append(b, q...)
}

func appendFloat(b []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, `{"$float":"nan"}`...)
	case math.IsInf(v, 0):
		return fmt.Appendf(b, `{"$float":"%s"}`,
			strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(v, 'g', -1, 64), "+")))
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}
