package command

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// count returns a number with its noun: 1 tensor, 2 tensors.
func count[N int | int64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// countInWords is count with a short number: 30.7M parameters.
func countInWords(n int64, noun string) string {
	return strings.Replace(count(n, noun), strconv.FormatInt(n, 10), shortCount(n), 1)
}

// shortCount returns a number in short form: 576, 30.7M, 8.0B.
func shortCount(n int64) string {
	v, unit := float64(n), ""
	for _, u := range []string{"K", "M", "B", "T"} {
		if v < 999.95 {
			break
		}
		v, unit = v/1000, u
	}
	if unit == "" {
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + unit
}

// withCommas returns a number with a comma before each three digits: 30,745,088.
func withCommas(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// human returns a size in bytes in short form: 512 B, 1.5 KiB, 24.0 MiB.
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

// wrap fills the paragraphs of a help text, except paragraphs with indented lines.
func wrap(text string, width int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if strings.HasPrefix(p, " ") || strings.Contains(p, "\n ") {
			continue
		}
		paragraphs[i] = fill(p, width, "")
	}
	return strings.Join(paragraphs, "\n\n")
}

// fill breaks text between words into lines of at most width columns; 0 means no limit.
// Lines after the first have the indentation of the first, and indent.
func fill(text string, width int, indent string) string {
	if width == 0 {
		return strings.ReplaceAll(text, unbroken, " ")
	}
	start := text[:len(text)-len(strings.TrimLeft(text, " "))]
	line := start
	var lines []string
	for i, word := range wordsOf(text) {
		switch {
		case i == 0:
			line += word
		case columns([]byte(line))+1+columns([]byte(word)) > width:
			lines, line = append(lines, strings.TrimRight(line, " ")), start+indent+word
		default:
			line += " " + word
		}
	}
	return strings.ReplaceAll(strings.Join(append(lines, line), "\n"), unbroken, " ")
}

// wordsOf splits text after its first spaces at each space and line end; a string in
// double quotes is in one word.
func wordsOf(text string) (all []string) {
	text = strings.TrimLeft(text, " ")
	begin := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ' ', '\n':
			all, begin = append(all, text[begin:i]), i+1
		case '"':
			if quoted, err := strconv.QuotedPrefix(text[i:]); err == nil {
				i += len(quoted) - 1
			}
		}
	}
	return append(all, text[begin:])
}

// printLine prints a sentence, on lines that fit.
func (a *app) printLine(text string) { fmt.Fprintln(a.out, fill(text, a.width(), "  ")) }

// printFinding prints a sentence after a label in a colour, on lines that fit.
func (a *app) printFinding(indent, colour, label, text string) {
	label += ":"
	lines := fill(indent+label+" "+visible(text), a.width(), "  ")
	coloured := a.style(colour) + label + a.style(styleNone)
	fmt.Fprintln(a.out, strings.Replace(lines, label, coloured, 1))
}

// A table is printed with aligned columns. A column without text is not printed. All
// cells are in one slice of bytes: a file may have very many tensors.
type table struct {
	head  []string
	right []bool // columns that are aligned to the right
	width []int
	spare []int // columns that are left out where the table does not fit, in order; 0 is
	// cut, last unless it is among them
	text []byte
	ends []int // of the cells in text
}

// maxColumn is the largest width of a column. Longer cells extend beyond it.
const maxColumn = 120

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

// add adds a row of cells.
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

// totalWidth returns how many columns of the terminal the table takes.
func (t *table) totalWidth() int {
	n := -2
	for _, w := range t.width {
		if w > 0 {
			n += w + 2
		}
	}
	return n
}

// fit makes the table fit width, and returns the cells of the first column: names. It
// leaves out parts of names that all names share, first at their start and then
// elsewhere, then spare columns, and then the middle of names. Names that differ stay
// different.
func (t *table) fit(width int) (shown [][]byte) {
	const shortest = 12
	var names [][]byte
	start := 0
	for i, end := range t.ends {
		if i%len(t.head) == 0 {
			names = append(names, t.text[start:end])
		}
		start = end
	}
	widest := func(names [][]byte) int {
		n := columns([]byte(t.head[0]))
		for _, name := range names {
			n = max(n, columns(name))
		}
		return n
	}
	shown, t.width[0] = names, widest(names)
	if t.totalWidth() <= width {
		return names
	}
	begin, shared := sharedParts(names)
	for _, parts := range [][]string{shared[:begin], shared} {
		if t.totalWidth() <= width || len(parts) == 0 {
			continue
		}
		without := make([][]byte, len(names))
		for i, name := range names {
			without[i] = withoutParts(name, parts)
		}
		if areDistinct(names, without, math.MaxInt) {
			shown, t.width[0] = without, widest(without)
		}
	}
	most := t.width[0]
	for _, i := range append(slices.Clip(t.spare), 0) {
		over := t.totalWidth() - width
		switch {
		case over <= 0:
			return shown
		case i > 0:
			t.width[i] = 0
		case t.width[0] > shortest:
			t.width[0] = max(shortest, t.width[0]-over)
		}
	}
	for _, i := range t.spare { // more columns go before names become equal
		if areDistinct(names, shown, t.width[0]) {
			break
		}
		if i > 0 && t.width[i] > 0 {
			t.width[0] = min(most, t.width[0]+t.width[i]+2)
			t.width[i] = 0
		}
	}
	for t.width[0] < most && !areDistinct(names, shown, t.width[0]) {
		t.width[0] = min(most, t.width[0]+max(1, t.width[0]/8))
	}
	if t.totalWidth() > width { // a row has several lines
		t.width[0] = max(t.width[0], min(most, width))
	}
	return shown
}

// sharedParts returns the parts that all names have in this order, and how many of them
// are at the start of all names. The last part of a name does not count, nor do indented
// rows, which are not names.
func sharedParts(names [][]byte) (start int, shared []string) {
	isFirst := true
	for _, name := range names {
		if len(name) > 0 && name[0] == ' ' {
			continue
		}
		parts := partsOf(name)
		parts = parts[:len(parts)-1]
		if isFirst {
			isFirst, start, shared = false, len(parts), parts
			continue
		}
		same := 0
		for same < min(start, len(parts)) && parts[same] == shared[same] {
			same++
		}
		common := shared[:same:same]
		rest := parts[same:]
		for _, part := range shared[same:] {
			if i := slices.Index(rest, part); i >= 0 {
				common, rest = append(common, part), rest[i+1:]
			}
		}
		start, shared = same, common
	}
	return start, shared
}

// partsOf splits a name after dots and slashes.
func partsOf(name []byte) (parts []string) {
	const maxParts = 32 // the rest is one part
	for len(parts) < maxParts {
		i := bytes.IndexAny(name, "./") + 1
		if i == 0 {
			break
		}
		parts, name = append(parts, string(name[:i])), name[i:]
	}
	return append(parts, string(name))
}

// withoutParts returns a name with an ellipsis in place of the shared parts.
func withoutParts(name []byte, shared []string) []byte {
	const minLength = 4 // of parts that an ellipsis replaces
	if len(shared) == 0 || len(name) > 0 && name[0] == ' ' {
		return name
	}
	var out []byte
	from := 0 // where the last shared parts begin
	parts := partsOf(name)
	for i, part := range parts {
		if len(shared) > 0 && part == shared[0] && i < len(parts)-1 {
			shared = shared[1:]
		} else {
			if len(out)-from >= minLength {
				out = append(out[:from], "…"...)
			}
			from = len(out) + len(part)
		}
		out = append(out, part...)
	}
	return out
}

// areDistinct reports whether names that differ also differ when shown in n columns.
func areDistinct(names, shown [][]byte, n int) bool {
	seen := make(map[string]int, len(names))
	for i, text := range shown {
		short := string(shortenMiddle(text, n))
		if other, ok := seen[short]; ok && !bytes.Equal(names[i], names[other]) {
			return false
		}
		seen[short] = i
	}
	return true
}

// print prints the table, with its titles if it has some. It prints nothing for an empty
// table.
func (t *table) print(a *app) {
	if len(t.ends) == 0 {
		return
	}
	for i := range t.width {
		if t.width[i] > 0 {
			t.width[i] = max(t.width[i], columns([]byte(t.head[i])))
		}
	}
	var shown [][]byte
	width := a.width()
	if width > 0 {
		shown = t.fit(width)
	}
	last, at := 0, 0
	begins := make([]bool, len(t.head)) // the next line of a row
	for i, w := range t.width {
		if w > 0 {
			if last = i; width > 0 && at > 0 && at+w > width {
				begins[i], at = true, 2
			}
			at += w + 2
		}
	}
	var line []byte
	cell := func(i int, c []byte) {
		if t.width[i] == 0 {
			return
		}
		if begins[i] {
			line = append(bytes.TrimRight(line, " "), "\n  "...)
			if i == last {
				c = []byte(strings.TrimLeft(fill("  "+string(c), width, "  "), " "))
			}
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
		line = append(append(bytes.TrimRight(line, " \n"), a.style(styleNone)...), '\n')
	}
	start := 0
	for i, end := range t.ends {
		col := i % len(t.head)
		text := t.text[start:end]
		if col == 0 && shown != nil {
			text = shortenMiddle(shown[i/len(t.head)], t.width[0])
		}
		cell(col, text)
		start = end
		if col < len(t.head)-1 {
			continue
		}
		line = append(bytes.TrimRight(line, " \n"), '\n')
		if len(line) > 32<<10 {
			a.out.Write(line)
			line = line[:0]
		}
	}
	a.out.Write(line)
}

// shortenMiddle replaces the middle of a text that takes more than n columns with an
// ellipsis. Names differ most at their ends.
func shortenMiddle(text []byte, n int) []byte {
	if columns(text) <= n {
		return text
	}
	wide := func(r []rune) int { return columns([]byte(string(r))) }
	r := []rune(string(text))
	front, back := min((n-1)/3, len(r)), min(n-1-(n-1)/3, len(r))
	for front > 0 && wide(r[:front]) > (n-1)/3 {
		front--
	}
	for back > 0 && wide(r[len(r)-back:]) > n-1-(n-1)/3 {
		back--
	}
	return []byte(string(r[:front]) + "…" + string(r[len(r)-back:]))
}

// columns returns how many columns of a terminal a text takes.
func columns(b []byte) (n int) {
	for _, r := range string(b) {
		if r >= utf8.RuneSelf && r != '…' { // shortened names have an ellipsis
			return uniseg.StringWidth(string(b))
		}
		n++
	}
	return n
}

func appendSpaces(b []byte, n int) []byte {
	for range n {
		b = append(b, ' ')
	}
	return b
}

// style returns an escape sequence, or "" if colours are off.
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
