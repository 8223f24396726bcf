package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

func printable(r rune) bool { return r != utf8.RuneError && unicode.IsPrint(r) }

func quote(s string) string { return strconv.Quote(s) }

func sortBy[T any, K cmp.Ordered](s []T, key func(T) K) {
	slices.SortStableFunc(s, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
}

// count writes a number with its noun: 1 tensor, 2 tensors.
func count[N int | int64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// human writes a size for people: 512 B, 1.5 KiB, 24.0 MiB.
func human(n int64) string {
	if n < 0 {
		return "?"
	}
	v, unit := float64(n), ""
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		if v < 1024 {
			break
		}
		v, unit = v/1024, u
	}
	if unit == "" {
		return strconv.FormatInt(n, 10) + " B"
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " " + unit
}

// A table aligns its columns. A column without any text is not shown.
type table struct {
	head  []string
	right []bool // numbers
	rows  [][]string
}

// maxColumn is how far a column goes: what is longer stands out.
const maxColumn = 60

// newTable makes a table; a column whose title begins with > is aligned to the
// right.
func newTable(titles ...string) *table {
	t := new(table)
	for _, s := range titles {
		s, right := strings.CutPrefix(s, ">")
		t.head = append(t.head, s)
		t.right = append(t.right, right)
	}
	return t
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// print writes the table, with its titles unless it is empty.
func (t *table) print(a *app) {
	if len(t.rows) == 0 {
		return
	}
	width := make([]int, len(t.head))
	for _, r := range t.rows {
		for i, c := range r {
			width[i] = max(width[i], min(utf8.RuneCountInString(c), maxColumn))
		}
	}
	last := 0
	for i := range width {
		if width[i] > 0 {
			width[i] = max(width[i], len(t.head[i]))
			last = i
		}
	}
	var line []byte
	write := func(cells []string, bold bool) {
		line = line[:0]
		if bold {
			line = append(line, a.style(styleHead)...)
		}
		for i, c := range cells {
			if width[i] == 0 {
				continue
			}
			pad := max(width[i]-utf8.RuneCountInString(c), 0)
			if t.right[i] {
				line = appendSpaces(line, pad)
			}
			line = append(line, c...)
			if !t.right[i] && i < last {
				line = appendSpaces(line, pad)
			}
			if i < last {
				line = append(line, "  "...)
			}
		}
		if bold {
			line = append(line, a.style(styleNone)...)
		}
		line = append(line, '\n')
		a.out.Write(line)
	}
	write(t.head, true)
	for _, r := range t.rows {
		write(r, false)
	}
}

func appendSpaces(b []byte, n int) []byte {
	for range n {
		b = append(b, ' ')
	}
	return b
}

// style is an escape sequence, or nothing where colours are not wanted.
func (a *app) style(s string) string {
	if !a.colour {
		return ""
	}
	return s
}

const (
	styleNone    = "\x1b[0m"
	styleHead    = "\x1b[1m"
	styleError   = "\x1b[31m"
	styleWarning = "\x1b[33m"
)

// printObject writes an object as indented lines: what --json has, for people.
func printObject(a *app, o object, indent string) {
	width := 0
	for _, f := range o {
		if !nested(f.value) {
			width = max(width, utf8.RuneCountInString(f.key))
		}
	}
	for _, f := range o {
		key := escape(f.key)
		switch v := f.value.(type) {
		case object:
			if len(v) > 0 {
				fmt.Fprintf(a.out, "%s%s:\n", indent, key)
				printObject(a, v, indent+"  ")
			}
		case []object:
			if len(v) == 0 {
				continue
			}
			fmt.Fprintf(a.out, "%s%s:\n", indent, key)
			for _, e := range v {
				fmt.Fprintf(a.out, "%s  - %s\n", indent, inline(e))
			}
		default:
			fmt.Fprintf(a.out, "%s%-*s %s\n", indent, width+1, key+":", plain(v))
		}
	}
}

func nested(v any) bool {
	switch v.(type) {
	case object, []object:
		return true
	}
	return false
}

// inline writes an object on one line; what is nested in it follows in brackets.
func inline(o object) string {
	var parts []string
	for _, f := range o {
		switch v := f.value.(type) {
		case object:
			parts = append(parts, f.key+"=("+inline(v)+")")
		case []object:
			var all []string
			for _, e := range v {
				all = append(all, "("+inline(e)+")")
			}
			parts = append(parts, f.key+"=["+strings.Join(all, ", ")+"]")
		default:
			parts = append(parts, f.key+"="+plain(v))
		}
	}
	return strings.Join(parts, " ")
}

// plain writes a value that is not nested.
func plain(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case text:
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
	return string(appendJSON(nil, v))
}
