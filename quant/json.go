package quant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/internal/naming"
)

// maxJSON bounds the bytes of JSON in a tensor.
const maxJSON = 1 << 20

// An object is a JSON object whose values are not parsed yet.
type object map[string]json.RawMessage

var errJSON = errors.New("not a JSON object")

// parseObject parses one JSON object. It refuses duplicate keys, and data after the
// object.
func parseObject(b []byte) (object, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errJSON
	}
	o := object{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, errJSON
		}
		key, _ := t.(string)
		if _, ok := o[key]; ok {
			return nil, fmt.Errorf("duplicate key %s", naming.Quote(key))
		}
		var v json.RawMessage
		if d.Decode(&v) != nil {
			return nil, errJSON
		}
		o[key] = v
	}
	if _, err := d.Token(); err != nil {
		return nil, errJSON
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("data after the JSON object")
	}
	return o, nil
}

// has reports whether a key has a value that is not null.
func (o object) has(key string) bool {
	v, ok := o[key]
	return ok && string(v) != "null"
}

// object returns the object of a key, nil if there is none.
func (o object) object(key string) object {
	v, ok := o[key]
	if !ok || len(v) == 0 || v[0] != '{' {
		return nil
	}
	sub, _ := parseObject(v)
	return sub
}

// get decodes the value of the first of these keys that has one, and reports whether
// there is one. It fails if the value has another type.
func get[T any](o object, keys ...string) (v T, ok bool, err error) {
	for _, key := range keys {
		if !o.has(key) {
			continue
		}
		if json.Unmarshal(o[key], &v) != nil {
			var zero T
			return zero, true, fmt.Errorf("%s is %s", key, naming.Quote(string(o[key])))
		}
		return v, true, nil
	}
	return v, false, nil
}

// optional is get without an error: a value of another type counts as none.
func optional[T any](o object, keys ...string) T {
	v, _, err := get[T](o, keys...)
	if err != nil {
		var zero T
		return zero
	}
	return v
}

// withDefaults returns the values of these keys in o, or in defaults if o has none.
func (o object) withDefaults(defaults object, keys ...string) object {
	all := object{}
	for _, key := range keys {
		for _, from := range []object{o, defaults} {
			if from.has(key) {
				all[key] = from[key]
				break
			}
		}
	}
	return all
}

// ordered calls f for the entries of a JSON object in their order.
func ordered(raw json.RawMessage, f func(key string, v json.RawMessage)) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return
	}
	for d.More() {
		t, err := d.Token()
		key, _ := t.(string)
		var v json.RawMessage
		if err != nil || d.Decode(&v) != nil {
			return
		}
		f(key, v)
	}
}
