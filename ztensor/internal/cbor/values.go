package cbor

import (
	"math"

	fxcbor "github.com/fxamacker/cbor/v2"
)

// Marshal encodes v, with maps sorted and all in its shortest form, floats and NaN
// included. A value of a file stays as it is there.
func Marshal(v any) ([]byte, error) {
	m, err := fxcbor.CoreDetEncOptions().EncMode()
	if err != nil {
		return nil, err
	}
	return m.Marshal(v)
}

// Unmarshal stores an item in what p points to.
func Unmarshal(b []byte, p any) error { return unmarshal(b, p, fxcbor.TagsAllowed) }

func unmarshal(b []byte, p any, tags fxcbor.TagsMode) error {
	m, err := fxcbor.DecOptions{DupMapKey: fxcbor.DupMapKeyEnforcedAPF, TagsMd: tags,
		MaxNestedLevels: MaxNesting, MaxArrayElements: math.MaxInt32,
		MaxMapPairs: math.MaxInt32}.DecMode()
	if err != nil {
		return err
	}
	return m.Unmarshal(b, p)
}

// Deterministic returns an item in the one form that version 2 has for it. Files of
// version 1 have others, and tags, which are an error.
func Deterministic(b []byte) ([]byte, error) {
	var v any
	if err := unmarshal(b, &v, fxcbor.TagsForbidden); err != nil {
		return nil, err
	}
	return Marshal(v)
}
