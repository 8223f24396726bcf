package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// maxListed is how much of a list is shown as text.
const maxListed = 30

// A field is a label and what people are shown under it: text or, without it, what
// --json has.
type field struct {
	label string
	value json.RawMessage
	text  string
}

// fieldsOf lists the fields of an object.
func fieldsOf(object json.RawMessage) (all []field) {
	d := json.NewDecoder(bytes.NewReader(object))
	d.Token()
	for d.More() {
		f := field{}
		if key, err := d.Token(); err == nil {
			f.label, _ = key.(string)
		}
		if d.Decode(&f.value) != nil {
			return all
		}
		all = append(all, f)
	}
	return all
}

// elementsOf lists the elements of a list.
func elementsOf(list json.RawMessage) (all []json.RawMessage) {
	json.Unmarshal(list, &all)
	return all
}

func (f *field) isObject() bool {
	return bytes.HasPrefix(f.value, []byte{'{'}) && !bytes.HasPrefix(f.value, []byte(`{"$`))
}

func (f *field) isEmpty() bool {
	s := string(f.value)
	return f.text == "" &&
		(s == "{}" || s == "[]")
}

// isObjects reports a list of objects.
func (f *field) isObjects() bool { return bytes.HasPrefix(f.value, []byte("[{")) }

func (f *field) isNested() bool { return f.isObject() || f.isObjects() }

func (f *field) String() string {
	if f.text != "" {
		return f.text
	}
	return plainJSON(f.value)
}

// printFields prints fields as indented lines.
func (a *app) printFields(fields []field, indent string) {
	width := 0
	for _, f := range fields {
		if !f.isNested() && !f.isEmpty() {
			width = max(width, columns([]byte(f.label)))
		}
	}
	for _, f := range fields {
		label := escape(f.label)
		switch {
		case f.isEmpty():
		case f.isObject():
			fmt.Fprintf(a.out, "%s%s:\n", indent, label)
			a.printFields(fieldsOf(f.value), indent+"  ")
		case f.isObjects():
			fmt.Fprintf(a.out, "%s%s:\n", indent, label)
			a.printObjects(elementsOf(f.value), indent+"  ")
		default:
			fmt.Fprintf(a.out, "%s%-*s %s\n", indent, width+1, label+":", f.String())
		}
	}
}

// printObjects shows objects on a line each, or where they have others in them under
// their first field, by which they are known.
func (a *app) printObjects(list []json.RawMessage, indent string) {
	for i, object := range list {
		if i == maxListed && len(list) > maxListed+1 {
			fmt.Fprintf(a.out, "%s- … and %d more, which --json has\n", indent, len(list)-i)
			return
		}
		fields, n := fieldsOf(object), 1
		isDeep := false
		for _, f := range fields {
			isDeep = isDeep || f.isNested()
		}
		if !isDeep {
			n = len(fields)
		}
		fmt.Fprintf(a.out, "%s- %s\n", indent, inline(fields[:n]))
		a.printFields(fields[n:], indent+"  ")
	}
}

// inline writes fields on one line.
func inline(fields []field) string {
	var parts []string
	for _, f := range fields {
		parts = append(parts, f.label+"="+f.String())
	}
	return strings.Join(parts, " ")
}

// plain writes a value on one line for people.
func plain(v any) string {
	b, err := marshal(v)
	if err != nil {
		return visible(err.Error())
	}
	return plainJSON(b)
}

func plainJSON(value json.RawMessage) string {
	var text string
	var list []string
	var float struct {
		Text string `json:"$float"`
	}
	switch {
	case json.Unmarshal(value, &list) == nil && list != nil:
		for i, s := range list {
			list[i] = escape(s)
		}
		text = strings.Join(list, ", ")
	case json.Unmarshal(value, &text) == nil && text != "":
		return escape(text)
	case json.Unmarshal(value, &float) == nil && float.Text != "":
		return float.Text
	case string(value) != `""` && string(value) != "null":
		return string(appendJSON(nil, value, oneLine))
	}
	if text == "" {
		return "-"
	}
	return text
}

// sizeInWords is a size of a file, in words too where they differ.
func sizeInWords(n int64) string {
	if n < 1024 {
		return human(n)
	}
	return fmt.Sprintf("%d B (%s)", n, human(n))
}
