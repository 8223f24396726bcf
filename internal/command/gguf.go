package command

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/tensor"
)

// ggufKeyType splits KEY:TYPE of --set. The type is "" if there is none.
func ggufKeyType(key string) (name, typeName string) {
	i := strings.LastIndexByte(key, ':')
	if i < 0 {
		return key, ""
	}
	elem := strings.TrimPrefix(key[i+1:], "[]")
	for t := gguf.TypeUint8; t <= gguf.TypeFloat64; t++ {
		if elem == t.String() && t != gguf.TypeArray {
			return key[:i], key[i+1:]
		}
	}
	return key, ""
}

// typesOf returns the types of the keys of a .gguf.
func typesOf(r *gguf.Reader) map[string]string {
	types := map[string]string{}
	for key, v := range r.Metadata() {
		types[key] = v.TypeName()
		if _, n, ok := v.Array(); ok {
			types[key] += fmt.Sprintf(", %d", n)
		}
	}
	return types
}

//go:embed gguf_keys.txt
var ggufKeys string

// ggufDefined returns the type of a key that GGUF defines, "" for strings and other keys.
// If value is an array, it returns an array of that type: such keys may have a number for
// each layer.
func ggufDefined(key, value string) (typeName string) {
	_, ofArchitecture, _ := strings.Cut(key, ".")
	for line := range strings.Lines(ggufKeys) {
		switch words := strings.Fields(line); {
		case line[0] == '#':
		case line[0] != ' ':
			typeName = words[0]
		case slices.Contains(words, key), slices.Contains(words, "."+ofArchitecture):
			if strings.HasPrefix(value, "[") && typeName[0] != '[' {
				typeName = "[]" + typeName
			}
			return typeName
		}
	}
	return ""
}

// A ggufEdit is an edit that sets attributes with the types of --set KEY:TYPE=VALUE.
type ggufEdit struct {
	tensorfile.Edit
	own   *gguf.Edit
	types map[string]string // by key
}

func (e *ggufEdit) SetAttribute(key, value string) error {
	typeName, ok := e.types[key]
	if !ok {
		return e.own.SetAttribute(key, value)
	}
	v, err := gguf.ParseValue(typeName, value)
	if err != nil {
		return err
	}
	return e.own.SetValue(key, v)
}

// cutTypes removes the types from the keys of --set for a .gguf, and returns them by key.
func (e *editing) cutTypes(in *input) map[string]string {
	types := map[string]string{}
	for i := range e.attributes {
		c := &e.attributes[i]
		if c.value == nil {
			continue
		}
		key, typeName := ggufKeyType(c.key)
		if _, has := attribute(in.File, key); typeName == "" && !has {
			typeName = ggufDefined(key, *c.value)
		}
		if c.key = key; typeName != "" {
			types[key] = typeName
		} else {
			delete(types, key)
		}
	}
	return types
}

// adviseGGUF notes changes of metadata that may be a mistake: a number that becomes a
// string, and a key that describes how tensors are stored.
func (a *app) adviseGGUF(in *input, c *changes, types map[string]string) {
	if in.Format() != tensorfile.GGUF {
		return
	}
	for _, k := range c.keys {
		if strings.HasPrefix(k, "split.") || k == "general.quantization_version" {
			a.note("%s: %s describes how the tensors are stored, which does not change",
				display(in.name), quote(k))
		}
		v := c.attributes[k]
		if _, has := attribute(in.File, k); v == nil || types[k] != "" || has {
			continue
		}
		_, err := strconv.ParseFloat(*v, 64)
		switch {
		case err == nil:
			a.note("%s: %s becomes a string; %s:uint32=%s for a number, or another type",
				display(in.name), quote(k), k, *v)
		case *v == "true", *v == "false", strings.HasPrefix(*v, "["):
			a.note("%s: %s becomes a string; %s:TYPE=%s for bool, []string, or another type",
				display(in.name), quote(k), k, *v)
		}
	}
}

// attribute returns an attribute of a file, and whether there is one.
func attribute(f *tensorfile.File, key string) (value string, ok bool) {
	for k, v := range f.Attributes() {
		if k == key {
			return v, true
		}
	}
	return "", false
}

// overwriteHeader writes the changed header over the old one, and does not copy data.
func overwriteHeader(name string, ed tensorfile.Edit) error {
	e, ok := ed.Sys().(*gguf.Edit)
	if !ok {
		return fmt.Errorf("%w: --header-only is for .gguf files", errors.ErrUnsupported)
	}
	return suggest("--in-place without --header-only, which writes a new file",
		e.WriteHeader(name))
}

// readFiles reads the values of --set-file.
func (e *editing) readFiles() error {
	for i := range e.attributes {
		c := &e.attributes[i]
		if !c.isFile {
			continue
		}
		text, err := readLimited(*c.value, 64<<20)
		if err != nil {
			return onFile(*c.value, err)
		}
		value := string(text)
		c.value, c.isFile = &value, false
	}
	return nil
}

// readLimited reads a file. It fails with tensor.ErrLimit if the file has more than limit
// bytes.
func readLimited(name string, limit int64) ([]byte, error) {
	name, err := onDisk(name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%w: more than %d bytes", tensor.ErrLimit, limit)
	}
	return b, err
}
