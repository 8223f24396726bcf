package command

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

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

// A table aligns its columns. A column without any text is not shown. All cells
// stand in one piece of memory, since a file may have very many.
type table struct {
	head  []string
	right []bool // numbers
	width []int
	spare bool // the last column is left out where it does not fit
	text  []byte
	ends  []int // of the cells in text
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
	t.width = make([]int, len(t.head))
	return t
}

// grow makes room for n rows.
func (t *table) grow(n int) {
	t.text = slices.Grow(t.text, 64*n)
	t.ends = slices.Grow(t.ends, len(t.head)*n)
}

// add takes a row as it is.
func (t *table) add(cells ...string) {
	b := t.row()
	for i, c := range cells {
		if i > 0 {
			b = t.cell(b)
		}
		b = append(b, c...)
	}
	t.done(b)
}

// row begins a row: the caller appends its first cell to the result, calls cell
// for the next ones, and done.
func (t *table) row() []byte { return t.text }

// cell ends a cell.
func (t *table) cell(b []byte) []byte {
	start := len(t.text)
	if n := len(t.ends); n > 0 {
		start = t.ends[n-1]
	}
	col := len(t.ends) % len(t.head)
	t.ends = append(t.ends, len(b))
	t.width[col] = max(t.width[col], min(columns(b[start:]), maxColumn))
	return b
}

// done ends the last cell, and the row.
func (t *table) done(b []byte) {
	b = t.cell(b)
	for len(t.ends)%len(t.head) != 0 {
		b = t.cell(b)
	}
	t.text = b
}

// print writes the table, with its titles where it has some, unless it is empty.
func (t *table) print(a *app) {
	if len(t.ends) == 0 {
		return
	}
	last := 0
	for i := range t.width {
		if t.width[i] > 0 {
			t.width[i] = max(t.width[i], len(t.head[i]))
			last = i
		}
	}
	if n := len(t.width) - 1; t.spare && last == n && a.terminal {
		all := 2 * n
		for _, w := range t.width {
			all += w
		}
		if wide, _, err := term.GetSize(int(a.tty.Fd())); err == nil && all > wide {
			t.width[n] = 0
			for last = n - 1; last > 0 && t.width[last] == 0; {
				last--
			}
		}
	}
	var line []byte
	cell := func(i int, c []byte) {
		if t.width[i] == 0 {
			return
		}
		pad := max(t.width[i]-columns(c), 0)
		if t.right[i] {
			line = appendSpaces(line, pad)
		}
		line = append(line, c...)
		if i == last {
			return
		}
		if !t.right[i] {
			line = appendSpaces(line, pad)
		}
		line = append(line, "  "...)
	}
	if strings.Join(t.head, "") != "" {
		line = append(line, a.style(styleHead)...)
		for i, h := range t.head {
			cell(i, []byte(h))
		}
		line = append(append(line, a.style(styleNone)...), '\n')
	}
	start := 0
	for i, end := range t.ends {
		col := i % len(t.head)
		cell(col, t.text[start:end])
		start = end
		if col < len(t.head)-1 {
			continue
		}
		line = append(line, '\n')
		if len(line) > 32<<10 {
			a.out.Write(line)
			line = line[:0]
		}
	}
	a.out.Write(line)
}

// columns is how many places of a terminal a text takes: two for the letters of
// East Asia and for pictures, none for marks on other letters.
func columns(b []byte) int {
	n := 0
	for len(b) > 0 {
		if b[0] < utf8.RuneSelf {
			n++
			b = b[1:]
			continue
		}
		r, size := utf8.DecodeRune(b)
		b = b[size:]
		switch {
		case unicode.Is(unicode.Mn, r):
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul), r >= 0xff01 && r <= 0xff60, r >= 0x1f300 && r <= 0x1faff:
			n += 2
		default:
			n++
		}
	}
	return n
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

// mostListed is how much of a list people are shown.
const mostListed = 30

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
			for i, e := range v {
				if i == mostListed && len(v) > mostListed+1 {
					fmt.Fprintf(a.out, "%s  - … and %d more, which --json has\n", indent, len(v)-i)
					break
				}
				if !slices.ContainsFunc(e, func(f field) bool { return nested(f.value) }) {
					fmt.Fprintf(a.out, "%s  - %s\n", indent, inline(e))
					continue
				}
				// The first field is what an element is known by.
				fmt.Fprintf(a.out, "%s  - %s\n", indent, inline(e[:1]))
				printObject(a, e[1:], indent+"    ")
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
