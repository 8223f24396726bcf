package ztensor

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tensorfile/tensorfile/tensor"
)

// appendAttributes appends a map of attributes as version 2 wants it.
func (l *layout2) appendAttributes(b []byte, attributes map[string]any, depth int) ([]byte, error) {
	mode, err := encMode()
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(attributes))
	for name := range attributes {
		if !validUTF8([]byte(name)) {
			return nil, fmt.Errorf("ztensor: %w: attribute %s is not UTF-8", errors.ErrUnsupported, tensor.Quote(name))
		}
		if err := l.checkName(name, "the name of an attribute"); err != nil {
			return nil, fmt.Errorf("ztensor: attribute %s: %w", tensor.Quote(name), err)
		}
		names = append(names, name)
	}
	slices.SortFunc(names, byLength)
	b = appendHead(b, cborMap, uint64(len(names)))
	for _, name := range names {
		fail := func(err error) ([]byte, error) {
			return nil, fmt.Errorf("ztensor: attribute %s: %w", tensor.Quote(name), err)
		}
		v, err := mode.Marshal(attributes[name])
		if err != nil {
			return fail(err)
		}
		c := cursor{b: v, deep: maxNesting}
		v, err = c.deterministic(nil)
		if err == nil {
			err = c.err
		}
		if err != nil {
			return fail(err)
		}
		all := cursor{b: v, deep: maxStrictDepth - depth, strict: true}
		if all.skip(); all.err != nil { // too deep
			return fail(fmt.Errorf("%w: %w", errors.ErrUnsupported, all.err))
		}
		b = append(appendText(b, name), v...)
	}
	return b, nil
}
