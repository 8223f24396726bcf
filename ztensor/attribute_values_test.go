package ztensor

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// What CBOR has and version 2 lacks: undefined becomes null, since fxamacker/cbor decodes
// both to nil, and a map with an array for a key, which it does not decode, is refused.
func TestUndefinedBecomesNullAndArrayKeysAreRefused(t *testing.T) {
	for _, c := range []struct{ name, encoded, in2 string }{
		{"undefined", "\xf7", "\xf6"},
		{"undefined in an array", "\x81\xf7", "\x81\xf6"},
		{"an array key", "\xa1\x81\x01\x02", ""},
		{"a map key", "\xa1\xa0\x02", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var file bytes.Buffer
			w := NewWriter(&file, &WriterOptions{
				Attributes: map[string]any{"a": Value{[]byte(c.encoded)}}})
			switch err := w.Close(); {
			case c.in2 == "" && !errors.Is(err, errors.ErrUnsupported),
				c.in2 != "" && (err != nil || !strings.Contains(file.String(), "\xa1\x61a"+c.in2)):
				t.Errorf("%q, %v", file.String(), err)
			}
		})
	}
}
