package v2

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// AppendAttributes appends a map of attributes in the form of version 2.
func (l *Layout) AppendAttributes(attributes map[string]any, depth int) ([]byte, error) {
	mode, err := core.EncMode()
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(attributes))
	for name := range attributes {
		if !cbor.ValidUTF8([]byte(name)) {
			return nil, fmt.Errorf("ztensor: %w: attribute %s is not UTF-8", errors.ErrUnsupported,
				quote.Name(name))
		}
		if err := l.checkName(name, "the name of an attribute"); err != nil {
			return nil, fmt.Errorf("ztensor: attribute %s: %w", quote.Name(name), err)
		}
		names = append(names, name)
	}
	slices.SortFunc(names, byLength)
	b := cbor.AppendHead(nil, cbor.Map, uint64(len(names)))
	for _, name := range names {
		fail := func(err error) ([]byte, error) {
			return nil, fmt.Errorf("ztensor: attribute %s: %w", quote.Name(name), err)
		}
		v, err := mode.Marshal(attributes[name])
		if err != nil {
			return fail(err)
		}
		c := cbor.Cursor{B: v, Deep: cbor.MaxNesting}
		v, err = c.Deterministic(nil)
		if err == nil {
			err = c.Err
		}
		if err != nil {
			return fail(err)
		}
		all := cbor.Cursor{B: v, Deep: cbor.MaxStrictDepth - depth, Strict: true}
		if all.Skip(); all.Err != nil { // too deep
			return fail(fmt.Errorf("%w: %w", errors.ErrUnsupported, all.Err))
		}
		b = append(cbor.AppendText(b, name), v...)
	}
	return b, nil
}
