package command

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// maxListed is how much of a list people are shown.
const maxListed = 30

// A labelled is a field of a document and its label.
type labelled struct {
	label string
	value reflect.Value
}

// printFields shows a struct, or pairs, to people as indented lines: what --json has.
func printFields(a *app, v any, indent string) {
	fields, width := fieldsOf(reflect.ValueOf(v)), 0
	for _, f := range fields {
		if !isNested(f.value) {
			width = max(width, columns([]byte(f.label)))
		}
	}
	for _, f := range fields {
		label := escape(f.label)
		switch {
		case isRecord(f.value):
			if inner := fieldsOf(f.value); len(inner) > 0 {
				fmt.Fprintf(a.out, "%s%s:\n", indent, label)
				printFields(a, f.value.Interface(), indent+"  ")
			}
		case isRecords(f.value):
			printRecords(a, label, indirect(f.value), indent)
		default:
			fmt.Fprintf(a.out, "%s%-*s %s\n", indent, width+1, label+":", plain(f.value.Interface()))
		}
	}
}

// printRecords shows a list of structs: on a line each, or where they have structs in
// them under their first field, by which they are known.
func printRecords(a *app, label string, list reflect.Value, indent string) {
	if list.Len() == 0 {
		return
	}
	fmt.Fprintf(a.out, "%s%s:\n", indent, label)
	for i := range list.Len() {
		if i == maxListed && list.Len() > maxListed+1 {
			fmt.Fprintf(a.out, "%s  - … and %d more, which --json has\n", indent, list.Len()-i)
			return
		}
		fields, deep := fieldsOf(list.Index(i)), false
		for _, f := range fields {
			deep = deep || isNested(f.value)
		}
		if !deep {
			fmt.Fprintf(a.out, "%s  - %s\n", indent, inline(fields))
			continue
		}
		fmt.Fprintf(a.out, "%s  - %s\n", indent, inline(fields[:1]))
		rest := pairs[any]{}
		for _, f := range fields[1:] {
			rest.add(f.label, f.value.Interface())
		}
		printFields(a, rest, indent+"    ")
	}
}

// fieldsOf lists the fields of a struct as encoding/json has them, or those of pairs.
func fieldsOf(v reflect.Value) (all []labelled) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if p, ok := v.Interface().(interface{ eachPair(func(string, any)) }); ok {
		p.eachPair(func(key string, value any) { all = append(all, labelled{key, reflect.ValueOf(&value).Elem()}) })
		return all
	}
	eachField(v, func(key string, v reflect.Value) { all = append(all, labelled{key, v}) })
	return all
}

func indirect(v reflect.Value) reflect.Value {
	for (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && !v.IsNil() {
		v = v.Elem()
	}
	return v
}

// isRecord reports a struct or pairs, isRecords a list of structs.
func isRecord(v reflect.Value) bool {
	v = indirect(v)
	if !v.IsValid() {
		return false
	}
	_, ok := v.Interface().(interface{ eachPair(func(string, any)) })
	return ok || v.Kind() == reflect.Struct && !v.Type().Implements(reflect.TypeFor[json.Marshaler]())
}

func isRecords(v reflect.Value) bool {
	v = indirect(v)
	return v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct && !isRecord(v)
}

func isNested(v reflect.Value) bool { return isRecord(v) || isRecords(v) }

// inline writes fields on one line; what is nested in them follows in brackets.
func inline(fields []labelled) string {
	var parts []string
	for _, f := range fields {
		switch {
		case isRecord(f.value):
			parts = append(parts, f.label+"=("+inline(fieldsOf(f.value))+")")
		case isRecords(f.value):
			var all []string
			for i := range indirect(f.value).Len() {
				all = append(all, "("+inline(fieldsOf(indirect(f.value).Index(i)))+")")
			}
			parts = append(parts, f.label+"=["+strings.Join(all, ", ")+"]")
		default:
			parts = append(parts, f.label+"="+plain(f.value.Interface()))
		}
	}
	return strings.Join(parts, " ")
}

// plain writes a value that is not nested.
func plain(v any) string {
	if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer {
		if r.IsNil() {
			return "-"
		}
		if _, ok := v.(fmt.Stringer); !ok {
			return plain(r.Elem().Interface())
		}
	}
	switch v := v.(type) {
	case nil:
		return "-"
	case byteSize:
		return v.String()
	case plainText:
		return string(v)
	case string:
		if v == "" {
			return "-"
		}
		return escape(v)
	case []string:
		all := make([]string, len(v))
		for i, s := range v {
			all[i] = escape(s)
		}
		if len(all) == 0 {
			return "-"
		}
		return strings.Join(all, ", ")
	}
	b, err := marshal(v)
	if err != nil {
		return visible(err.Error())
	}
	return string(appendSpaced(nil, b))
}

// plainText is shown to people as it is.
type plainText string

// A byteSize is a number of bytes, which people see in words too.
type byteSize int64

func (n byteSize) String() string {
	if n < 1024 {
		return fmt.Sprintf("%d B", int64(n))
	}
	return fmt.Sprintf("%d B (%s)", int64(n), human(int64(n)))
}
