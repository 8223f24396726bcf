package command

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// A size is a flag for a size or a number: 4096, 1e6, 64MiB, 2G.
type size int64

func (s *size) Type() string { return "size" }

func (s *size) String() string {
	if *s == 0 {
		return ""
	}
	for i, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if scale := size(1) << (10 * (4 - i)); *s%scale == 0 {
			return strconv.FormatInt(int64(*s/scale), 10) + unit
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

func (s *size) Set(text string) error {
	n, err := parseSize(text)
	if err == nil {
		*s = size(n)
	}
	return err
}

// parseSize parses a positive number with an optional unit. K, M, G, T and KiB, … are
// powers of 1024, KB, … are powers of 1000.
func parseSize(text string) (int64, error) {
	number := strings.TrimRight(text, "KMGTiBkmgtb")
	unit := strings.ToUpper(text[len(number):])
	scale := 1.0
	if unit != "" && unit != "B" {
		i := strings.IndexByte("KMGT", unit[0])
		base := 1024.0
		switch unit[1:] {
		case "", "IB":
		case "B":
			base = 1000
		default:
			i = -1
		}
		if i < 0 {
			return 0, fmt.Errorf("no unit is named %q", text[len(number):])
		}
		scale = math.Pow(base, float64(i+1))
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if v *= scale; err != nil || !(v >= 1) || v >= math.MaxInt64 || v != math.Trunc(v) {
		return 0, fmt.Errorf("%q is not a whole number above 0", text)
	}
	return int64(v), nil
}

// A choice is a flag that takes one of several known words.
type choice struct {
	text  string
	known []string
	set   func(text string) error
}

func (c *choice) String() string { return c.text }
func (c *choice) Type() string   { return "word" }

func (c *choice) Set(text string) error {
	c.text = text
	return c.set(text)
}

// choose declares a flag that takes one of the known words. noun says in errors what they
// are.
func choose(f *pflag.FlagSet, value *string, name, noun string, known []string, usage string) {
	f.Var(&choice{*value, known, func(text string) error {
		*value = text
		return checkWord(noun, text, known)
	}}, name, usage)
}

// An order compares rows; nil means the order of the file.
type order[R any] func(a, b *R) int

// sort sorts rows; equal rows keep their order.
func (o order[R]) sort(rows []R) {
	if o != nil {
		sort.SliceStable(rows, func(i, j int) bool { return o(&rows[i], &rows[j]) < 0 })
	}
}

// sortFlag declares --sort, which takes one of the keys. The keys in sizes sort the
// largest first. A - before the key reverses the order.
func sortFlag[R any](f *pflag.FlagSet, o *order[R], keys map[string]order[R],
	sizes ...string) {
	known := slices.Sorted(maps.Keys(keys))
	f.Var(&choice{"", known, func(text string) error {
		key, reverse := strings.CutPrefix(strings.ToLower(text), "-")
		compare := keys[key]
		if *o = compare; reverse != slices.Contains(sizes, key) {
			*o = func(a, b *R) int { return compare(b, a) }
		}
		return checkWord("key", key, known)
	}}, "sort", "order by `KEY`: "+strings.Join(known, ", ")+
		"; sizes and counts: the largest first; -KEY reverses the order")
}

// chooseEach declares a flag that takes words separated by commas, and may repeat.
func chooseEach(f *pflag.FlagSet, set func(word string) error, name string, known []string,
	usage string) {
	f.Var(&choice{"", known, func(text string) error {
		for _, word := range strings.Split(text, ",") {
			if err := set(word); err != nil {
				return err
			}
		}
		return nil
	}}, name, usage)
}

// choices declares a flag that takes one of the known words, and sets its value.
func choices[V any](f *pflag.FlagSet, value *V, name, noun string, known map[string]V,
	usage string) {
	words := slices.Sorted(maps.Keys(known))
	f.Var(&choice{"", words, func(text string) error {
		*value = known[text]
		return checkWord(noun, text, words)
	}}, name, usage)
}

// dtypeFlag declares --dtype, which converts what is printed or extracted.
func dtypeFlag(f *pflag.FlagSet, d *tensor.DType) {
	known := map[string]tensor.DType{}
	for _, d := range tensor.DTypes() {
		known[d.String()] = d
	}
	choices(f, d, "dtype", "dtype", known, "convert elements to `DTYPE`, such as float32")
}

// number declares a flag that takes a number from low to high. If *value is not 0, it is
// the default.
func number(f *pflag.FlagSet, value *int, name string, low, high int, usage string) {
	text := ""
	if *value != 0 {
		text = strconv.Itoa(*value)
	}
	f.Var(&choice{text, nil, func(text string) (err error) {
		if *value, err = strconv.Atoi(text); err != nil || *value < low || *value > high {
			err = fmt.Errorf("%q is not a number from %d to %d", text, low, high)
		}
		return err
	}}, name, usage)
}

// checkWord returns an error if word is not one of the known words. It suggests the
// nearest.
func checkWord(noun, word string, known []string) error {
	if slices.Contains(known, word) {
		return nil
	}
	list := strings.Join(known, ", ")
	if s := nearest(word, known); s != "" {
		return fmt.Errorf("no %s is named %q; did you mean %s? (%s)", noun, word, s, list)
	}
	return fmt.Errorf("no %s is named %q: %s", noun, word, list)
}

// formatFlag declares a flag that takes a format.
func formatFlag(f *pflag.FlagSet, value *tensorfile.Format, name, usage string) {
	f.Var(&choice{"", formatNames(), func(text string) (err error) {
		*value, err = parseFormat(text)
		return err
	}}, name, usage)
}

func formatNames() (names []string) {
	for _, f := range tensorfile.Formats() {
		names = append(names, f.String())
	}
	return names
}

// parseFormat parses the name of a format, another name in use, or its extension.
func parseFormat(name string) (tensorfile.Format, error) {
	switch strings.ToLower(name) {
	case "st", "safetensor":
		name = "safetensors"
	case "zt2":
		name = "ztensor"
	case "dcp":
		name = "torch"
	case "numpy":
		name = "npy"
	case "executorch":
		name = "pte"
	}
	if f, err := tensorfile.ParseFormat(strings.ToLower(name)); err == nil {
		return f, nil
	}
	if f := tensorfile.ByName("x." + name); f != 0 {
		return f, nil
	}
	return 0, checkWord("format", name, formatNames())
}

// attributesFlag declares --attributes.
func attributesFlag(f *pflag.FlagSet, keep *globs) {
	f.Var(keep, "attributes",
		"keep only attributes that match `GLOB`, or none (may repeat; !GLOB excludes)")
}

// noAttribute returns the error if --attributes matches no attribute; nil for "none".
func (g globs) noAttribute() error {
	if slices.Contains(g, "none") {
		return nil
	}
	return wrong("--attributes none, or tensorfile info, which lists the attributes",
		"--attributes: no attribute is named %s", quote(strings.Join(g, " or ")))
}

// globs is a flag that takes a pattern for names, and may repeat.
type globs []string

func (g *globs) String() string { return "" }
func (g *globs) Type() string   { return "string" }

func (g *globs) Set(text string) error {
	*g = append(*g, text)
	_, err := glob(strings.TrimPrefix(text, "!"), "")
	return err
}

// match reports whether a name matches a pattern, or there is no pattern without a !, and
// the name matches no pattern with a !.
func (g globs) match(name string) bool {
	matches, all := false, true
	for _, pattern := range g {
		pattern, without := strings.CutPrefix(pattern, "!")
		ok, _ := glob(pattern, name)
		if ok && without {
			return false
		}
		matches, all = matches || ok, all && without
	}
	return matches || all
}

// noMatch returns the error of a flag whose patterns match no name.
func (g globs) noMatch(flag string) error {
	try := tryNames
	if last := g[len(g)-1]; !strings.ContainsAny(last, `*?[!\`) {
		try = flag + " '*" + last + "*', which is part of a name"
	}
	return wrong(try, "%s: no tensor or blob is named %s", flag, quote(strings.Join(g, " or ")))
}
