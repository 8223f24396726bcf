package command

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/inspect"
)

func TestGlobMatchesWholeNames(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true}, {"*", "a/b.c", true}, {"a*c", "abbbc", true}, {"a*c", "abbbcd",
			false}, {"?", "é", true}, {"?", "", false},
		{"[a-c]x", "bx", true}, {"[^a-c]x", "bx", false}, {`\*`, "*", true}, {`\*`, "a", false},
		{"*.weight", "a.weight.b.weight", true}, {"a**b", "ab", true}, {"", "", true}, {"", "a",
			false}, {"*a*b*", "xxaxxbxx", true},
		{"layers.[0-9].*", "layers.7.w", true}, {"*", "\xff", true}, {"é*", "épée", true},
	} {
		if got, err := glob(c.pattern, c.name); err != nil || got != c.want {
			t.Errorf("%q on %q: %v, %v", c.pattern, c.name, got, err)
		}
	}
	for _, bad := range []string{"[", "[a", "[]", "[^]", `a\`, "x[^"} {
		if _, err := glob(bad, "a"); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	// A pattern that makes others try everything.
	if ok, _ := glob(strings.Repeat("a*", 50)+"b", strings.Repeat("a", 5000)); ok {
		t.Error("matched")
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("a*[b-d]?\\*", "axxcd*")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		glob(pattern, name)
		if ok, err := glob("*", name); !ok || err != nil {
			t.Errorf("* does not match %q", name)
		}
	})
}

func TestParseSizeKnowsItsUnits(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "4096": 4096, "1e6": 1e6, "64MiB": 64 << 20,
		"2G": 2 << 30, "5GB": 5e9, "1.5K": 1536, "7B": 7, "1 KiB": 1024} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "0", "-1", "x", "1X", "1KK", "0.5", "nan", "inf", "1e30",
		"9223372036854775808", "KiB"} {
		if got, err := parseSize(bad); err == nil {
			t.Errorf("%s: %d", bad, got)
		}
	}
}

func TestJSONStringsAreSafeAndRight(t *testing.T) {
	for _, s := range []string{"", "plain", `"\/`, "\x00\x1f\x7f\n\t", "é日本🙂",
		"\u202e\u2028\ufeff\u00a0", "</script><!--", "\xff\xfe mixed \xc3", strings.Repeat("x",
			1000), "\U0001f3f4\U000e0067"} {
		text, err := marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		b := appendJSON(nil, text, oneLine)
		var got string
		if err := json.Unmarshal(b, &got); err != nil || got != replaceEach(s) {
			t.Errorf("%q becomes %s, which is %q; %v", s, b, got, err)
		}
		for _, r := range string(b) {
			if !unicode.IsPrint(r) || r == '<' || r == '>' {
				t.Errorf("%q: %q is in %s", s, r, b)
			}
		}
	}
}

// replaceEach puts one U+FFFD in place of each byte that is not UTF-8.
func replaceEach(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		b.WriteRune(r)
		s = s[n:]
	}
	return b.String()
}

// Spaces and line ends are all that the layout adds to JSON, and elements are on lines.
func TestLayoutAddsOnlySpaceToJSON(t *testing.T) {
	type inner struct {
		X    int       `json:"x"`
		Size knownSize `json:"size,omitzero"`
	}
	d := struct {
		nameField
		List   []inner               `json:"list"`
		None   []inner               `json:"none"`
		Nested [][]int               `json:"nested"`
		Pairs  inspect.AttributeList `json:"pairs"`
		Float  inspect.Float         `json:"float"`
	}{
		nameField: nameOf("a\xff"), List: []inner{{1, 0},
			{2, -1}}, None: []inner{}, Nested: [][]int{{1}, {}},
		Pairs: inspect.AttributeList{{Key: "k,:[{", Value: 1}, {Key: "\"", Value: []string{"é"}},
			{Key: "k"}},
		Float: inspect.Float(math.NaN()),
	}
	text, err := marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	for indent, lines := range map[int]int{oneLine: 0, 0: 11, 4: 11} {
		got := appendJSON(nil, text, indent)
		var compact bytes.Buffer
		if err := json.Compact(&compact, got); err != nil ||
			!reflect.DeepEqual(decode(t, compact.Bytes()), decode(t, text)) {
			t.Errorf("%v:\n%s\nof %s", err, got, text)
		}
		if n := bytes.Count(got, []byte("\n")); n != lines {
			t.Errorf("%d lines:\n%s", n, got)
		}
	}
	if got := string(appendJSON(nil, []byte(`{"a":[],"b":{}}`),
		0)); got != "{\n  \"a\": [],\n  \"b\": {}\n}" {
		t.Error(got)
	}
}

func TestColumnsAreCellsOfTheTerminal(t *testing.T) {
	for s, want := range map[string]int{"abc": 3, "é": 1, "e\u0301": 1, "日本": 4, "🙂": 2, "": 0} {
		if got := columns([]byte(s)); got != want {
			t.Errorf("%q takes %d columns, not %d", s, got, want)
		}
	}
}

// A line of a message ends between words, never within the name of a file or a quoted
// name; where the terminal is not known, a message is one line.
func TestMessagesFitTheTerminal(t *testing.T) {
	for width, want := range map[int]string{
		0: "tensorfile: my  model.zt: no tensor is named \"a b \\\"c\" or \"d\n  try: a b c d\n",
		24: "tensorfile:\n  my  model.zt: no\n  tensor is named\n  \"a b \\\"c\" or \"d\n" +
			"  try: a b c d\n",
		11: "tensorfile:\n  my  model.zt:\n  no tensor\n  is named\n  \"a b \\\"c\"\n  or \"d\n" +
			"  try: a b\n    c d\n",
	} {
		var stderr bytes.Buffer
		a := newApp(t.Context(), nil, nil, &stderr, columnsOf(width))
		a.message("%s: no tensor is named %s or \"d\n  try: %s", display("my  model.zt"),
			quote(`a b "c`), "a b c d")
		if got := stderr.String(); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, got, want)
		}
	}
}

func TestHumanSizesHaveOneDecimal(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB",
		3 << 20: "3.0 MiB", -1: "?", math.MaxInt64: "8.0 EiB"} {
		if got := human(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
