package ztensor

import (
	"errors"
	"io"
	"testing"
)

// What CBOR has and version 2 lacks: undefined becomes null, since fxamacker/cbor decodes
// both to nil, and a map with an array for a key, which it does not decode, is refused.
// 1.2 keeps both as they are.
func TestAttributesOfUndefinedAndOfArrayKeys(t *testing.T) {
	for _, c := range []struct{ name, encoded, in2 string }{
		{"undefined", "\xf7", "\xf6"},
		{"undefined in an array", "\x81\xf7", "\x81\xf6"},
		{"an array key", "\xa1\x81\x01\x02", ""},
		{"a map key", "\xa1\xa0\x02", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for version, want := range map[string]string{"1.2": c.encoded, "2": c.in2} {
				w := NewWriter(io.Discard, &WriterOptions{Version: version,
					Attributes: map[string]any{"a": Value{[]byte(c.encoded)}}}).w
				switch have := string(w.Attributes); {
				case want == "" && !errors.Is(w.Err, errors.ErrUnsupported),
					want != "" && (w.Err != nil || have != "\xa1\x61a"+want):
					t.Errorf("version %s: %q, %v", version, have, w.Err)
				}
			}
		})
	}
}
