package core

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
)

// EncodeAttributes encodes a map with its names in that order. check returns each value
// as it is to be written.
func EncodeAttributes(attributes map[string]any, order func(a, b string) int,
	check func(name string, value []byte) ([]byte, error)) ([]byte, error) {
	b := cbor.AppendHead(nil, cbor.Map, uint64(len(attributes)))
	for _, name := range slices.SortedFunc(maps.Keys(attributes), order) {
		v, err := cbor.Marshal(attributes[name])
		if err == nil && !utf8.ValidString(name) {
			err = Unsupported("the name is not UTF-8")
		}
		if err == nil {
			v, err = check(name, v)
		}
		if err != nil {
			return nil, fmt.Errorf("ztensor: attribute %s: %w", quote.Name(name), err)
		}
		b = append(cbor.AppendText(b, name), v...)
	}
	return b, nil
}
