package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/inspect"
)

// maxListed is how many elements of a list are shown as text.
const maxListed = 30

// A field is a label and a value. If text is not empty, it is shown in place of the
// value.
type field struct {
	label string
	value reflect.Value
	text  string
}

// fieldsOf lists the fields of a struct, under their names in JSON, or of a map.
func fieldsOf(v reflect.Value) (all []field) {
	if list, ok := v.Interface().(inspect.AttributeList); ok {
		for _, a := range list {
			all = append(all, field{label: a.Key, value: reflect.ValueOf(a.Value)})
		}
		return all
	}
	if v.Kind() == reflect.Map {
		for _, key := range v.MapKeys() {
			all = append(all, field{label: key.String(), value: v.MapIndex(key)})
		}
		slices.SortFunc(all, func(a, b field) int { return cmp.Compare(a.label, b.label) })
		return all
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() {
			continue
		}
		if options != "" && (v.Field(i).IsZero() || v.Field(i).Kind() == reflect.Map &&
			v.Field(i).Len() == 0) {
			continue
		}
		all = append(all, field{label: name, value: pointee(v.Field(i))})
	}
	return all
}

// pointee returns the value that a pointer or an interface has; nil stays nil.
func pointee(v reflect.Value) reflect.Value {
	for (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && !v.IsNil() {
		v = v.Elem()
	}
	return v
}

func (f *field) isObject() bool { return f.text == "" && isObject(f.value) }

func isObject(v reflect.Value) bool {
	if !v.IsValid() {
		return false
	}
	switch v.Interface().(type) {
	case inspect.AttributeList:
		return true
	case json.Marshaler:
		return false
	}
	return v.Kind() == reflect.Struct || v.Kind() == reflect.Map && !v.IsNil()
}

// isObjects reports whether the value is a list of objects.
func (f *field) isObjects() bool {
	return f.text == "" && f.value.IsValid() && f.value.Kind() == reflect.Slice &&
		f.value.Len() > 0 && !f.isObject() && isObject(pointee(f.value.Index(0)))
}

func (f *field) isEmpty() bool {
	return f.text == "" && f.value.IsValid() && (f.value.Kind() == reflect.Slice ||
		f.value.Kind() == reflect.Map) && f.value.Len() == 0 && !f.value.IsNil()
}

func (f *field) isNested() bool { return f.isObject() || f.isObjects() }

func (f *field) String() string {
	switch {
	case f.text != "":
		return f.text
	case !f.value.IsValid():
		return plain(nil)
	}
	return plain(f.value.Interface())
}

// printFields prints fields as indented lines. A value that does not fit is on the next
// line.
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
			a.printObjects(f.value, indent+"  ")
		default:
			line := fmt.Sprintf("%s%-*s %s", indent, width+1, label+":", f.String())
			if w := a.width(); w > 0 && columns([]byte(line)) > w {
				line = indent + label + ":\n" + fill(indent+"    "+f.String(), w, "")
			}
			fmt.Fprintln(a.out, line)
		}
	}
}

// printObjects prints each object on a line. If an object has nested objects, its line
// has its first field, and the rest follows indented.
func (a *app) printObjects(list reflect.Value, indent string) {
	for i := range list.Len() {
		if i == maxListed && list.Len() > maxListed+1 {
			fmt.Fprintf(a.out, "%s- … and %d more, which --json has\n", indent, list.Len()-i)
			return
		}
		fields, n := fieldsOf(pointee(list.Index(i))), 1
		isDeep := false
		for _, f := range fields {
			isDeep = isDeep || f.isNested()
		}
		if !isDeep {
			n = len(fields)
		}
		a.printLine(indent + "-" + unbroken + inline(fields[:n]))
		a.printFields(fields[n:], indent+"  ")
	}
}

// inline returns fields as text for printLine, which does not break a line within a
// field.
func inline(fields []field) string {
	var parts []string
	for _, f := range fields {
		parts = append(parts, strings.ReplaceAll(f.label+"="+f.String(), " ", unbroken))
	}
	return strings.Join(parts, " ")
}

// plain returns a value as text on one line.
func plain(v any) string {
	b, err := marshal(v)
	if err != nil {
		return visible(err.Error())
	}
	value := json.RawMessage(b)
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

// sizeInWords returns a size in bytes, followed by a short form such as 1.5 KiB.
func sizeInWords(n int64) string {
	if n < 1024 {
		return human(n)
	}
	return fmt.Sprintf("%d B (%s)", n, human(n))
}
