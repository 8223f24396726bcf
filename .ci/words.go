//go:build ignore

// words.go [FILE...]: the words that this project does not use, and lines that are too long, in the files that git knows (or in the files
// that are named). Exit status 1 if there are any, or more than maxUnplain sentences that are not plain. CONTRIBUTING.md says why.
package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	codeWidth    = 99
	commentWidth = 90
	maxUnplain   = 0 // in the whole tree
)

// identifiers are the words that no identifier contains, each with the term to use.
var identifiers = map[string]string{
	"house": "architecture, package", "room": "alloc, capacity", "stranger": "untrusted, other", "strangers": "untrusted, other",
	"neighbour": "next, other format", "neighbours": "next, other formats", "folder": "dir, directory", "truth": "bool, expected",
	"tangled": "overlapsPatched", "crew": "workers", "stray": "unreferenced", "strays": "unreferenced",
	"face": "api", "faces": "api", "lies": "invalidLayout", "gains": "isAdded", "settled": "watermark", "leads": "isPrimaryRole", "as2": "normalize",
}

// wholeIdentifiers are names that say nothing of what they hold.
var wholeIdentifiers = map[string]string{
	"two": "a noun", "some": "ensureNonEmpty", "more": "grow", "hold": "reserve", "together": "mergeAliases", "settled": "watermark",
}

type phrase struct {
	pattern *regexp.Regexp
	term    string
}

// phrases are what comments, messages and pages do not say.
var phrases = []phrase{
	{regexp.MustCompile(`(?i)\bstands? (twice|there twice|once)\b`), "duplicate"},
	{regexp.MustCompile(`(?i)\b(has|have|had|with) no (place|room) (in|for)\b`), "is not supported by, cannot be represented in"},
	{regexp.MustCompile(`(?i)\bstrangers?\b`), "untrusted input"},
	{regexp.MustCompile(`(?i)\bneighbou?r(s|ing)?\b`), "next, other format"},
	{regexp.MustCompile(`(?i)\b(house|houses|crew|truths?)\b`), "the field's term"},
	{regexp.MustCompile(`(?i)\bfolders?\b`), "directory"},
	{regexp.MustCompile(`(?i)\bkept elsewhere\b`), "external"},
	{regexp.MustCompile(`(?i)\bbeside\b`), "next to, in addition to"},
	{regexp.MustCompile(`(?i)\b(lies (at|behind|in|where|beside)|lie behind)\b`), "is at, follows"},
	{regexp.MustCompile(`(?i)\bonly \w+ tells\b`), "known only after"},
	{regexp.MustCompile(`(?i)\bof the future\b`), "of a newer release"},
	{regexp.MustCompile(`(?i)\bthe other ones\b`), "the rest"},
	{regexp.MustCompile(`(?i)\bin one go\b`), "at once"},
	{regexp.MustCompile(`(?i)\bin earnest\b`), "in production"},
	{regexp.MustCompile(`(?i)\bthe quick way\b`), "fast path"},
	{regexp.MustCompile(`(?i)\b(what|that) is not right\b`), "invalid"},
	{regexp.MustCompile(`(?i)\bwith a fraction\b`), "float"},
	{regexp.MustCompile(`(?i)\belement types?\b`), "dtype"},
	{regexp.MustCompile(`(?i)\bfact[- ]sheets?\b`), "a public specification, by section"},
	{regexp.MustCompile(`(?i)\bending of (a|the|its) name\b`), "extension"},
	{regexp.MustCompile(`\b[A-Z]-[0-9]{1,3}\b`), "a public document, or a test by name"},
	{regexp.MustCompile(`\b(section 8a|design\.md|style\.md|cli\.md|programs\.md|ecosystem\.md|reliability\.md)\b`), "a document of this project"},
}

// unplain matches what a plain sentence does not have: "that of" and "those of" in place of a noun, and a beginning that puts the
// subject off.
var unplain = regexp.MustCompile(`\b([Tt]hat|[Tt]hose) of\b|(?:^|[.!?:] )(Of|What|Whatever|Whose|With it) [a-z]`)

// markup is what precedes the text of a line of a comment or a page.
var markup = regexp.MustCompile(`^[\s/#*>|"-]+`)

// cutOff is the end of a line that goes on with "of".
var cutOff = regexp.MustCompile(`\b([Tt]hat|[Tt]hose)$`)

// funcOf is the beginning of the comment of a function that is named Of.
var funcOf = regexp.MustCompile(`^Of returns `)

// citation matches test names that number their cases after a document that is not here.
var citation = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)_?[AGTUDBC][0-9]{1,2}([A-Z_]|$)`)

// allowed are texts in which a phrase is right: a name of a tool, of a directory convention, of a standard.
var allowed = regexp.MustCompile(`UTF-8|C-1|ISO-8859-1|SHA-1|RFC-|(?i)k-nearest|nearest neighbou?r|rounds? half|"plain beside"`)

var (
	failed   bool
	sentence []string // where a sentence is not plain

	plainFile string // the line before, for a sentence that goes on
	plainLine int
	cut       string
)

func report(file string, line int, text, term string) {
	failed = true
	fmt.Printf("%s:%d: %s (use: %s)\n", file, line, text, term)
}

func main() {
	files := os.Args[1:]
	if len(files) == 0 {
		out, err := exec.Command("git", "ls-files", "-z", "--cached", "--", "*.go", "*.md", "*.sh", "*.py", "*.js", "*.mjs", "*.html",
			"*.yml", "*.yaml", "*.txtar", ".ci/*").Output()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		files = strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
	}
	for _, file := range files {
		slash := filepath.ToSlash(file)
		if strings.HasPrefix(slash, "schema/") || strings.Contains(slash, "/testdata/") || strings.HasSuffix(slash, ".ci/words.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			continue // deleted, not yet committed
		}
		if strings.HasSuffix(file, ".go") {
			if !strings.Contains(slash, "zz_") {
				goFile(file, text)
			}
			continue
		}
		for i, line := range strings.Split(string(text), "\n") {
			words(file, i+1, line)
			plain(file, i+1, line)
		}
	}
	if len(sentence) > maxUnplain {
		failed = true
		fmt.Println(strings.Join(sentence, "\n"))
		fmt.Printf("%d sentences are not plain, more than %d (use: a noun, and the subject first)\n", len(sentence), maxUnplain)
	}
	if failed {
		os.Exit(1)
	}
}

// plain notes the sentences of a line of a comment, a page or a string that are not
// plain. A line ends in the middle of a sentence: "that" at its end is part of the next.
func plain(file string, line int, text string) {
	text = markup.ReplaceAllString(text, "")
	if funcOf.MatchString(text) {
		return
	}
	if line == plainLine+1 && file == plainFile {
		text = strings.TrimSpace(cut + " " + text)
	}
	plainFile, plainLine, cut = file, line, cutOff.FindString(text)
	for _, found := range unplain.FindAllString(text, -1) {
		sentence = append(sentence, fmt.Sprintf("%s:%d: %q", file, line, found))
	}
}

// goFile checks the width of lines, and every identifier, comment and string.
func goFile(file string, text []byte) {
	fset := token.NewFileSet()
	var s scanner.Scanner
	s.Init(fset.AddFile(file, -1, len(text)), text, nil, scanner.ScanComments)
	comment := map[int]bool{} // lines that are a comment and nothing else
	raw := map[int]bool{}     // lines within a string of several lines
	code := map[int]bool{}
	data := map[int]bool{}   // lines of a test that hold a long string
	output := map[int]bool{} // lines of an example's output
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			break
		}
		line := fset.Position(pos).Line
		last := line + strings.Count(lit, "\n")
		switch tok {
		case token.COMMENT:
			for i, part := range strings.Split(lit, "\n") {
				comment[line+i] = true
				output[line+i] = output[line+i-1] || strings.HasPrefix(part, "// Output:")
				words(file, line+i, part)
				plain(file, line+i, part)
			}
		case token.STRING:
			if last > line {
				for i := line; i <= last; i++ {
					raw[i] = true
				}
			}
			code[line] = true
			data[line] = data[line] || strings.HasSuffix(file, "_test.go") && len(lit) >= 50
			words(file, line, lit)
			for i, part := range strings.Split(lit, "\n") {
				plain(file, line+i, strings.ReplaceAll(part, `\n`, " "))
			}
		case token.IDENT:
			code[line] = true
			identifier(file, line, lit)
		default:
			if lit != "\n" {
				code[line] = true
			}
		}
	}
	for i, line := range strings.Split(string(text), "\n") {
		width := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
		switch n := i + 1; {
		case raw[n] || data[n] || output[n] || strings.Contains(line, "://"):
		case comment[n] && !code[n] && width > commentWidth && !strings.HasPrefix(line, "//go:"):
			report(file, n, fmt.Sprintf("a comment of %d columns", width), fmt.Sprint(commentWidth))
		case code[n] && width > codeWidth:
			report(file, n, fmt.Sprintf("a line of %d columns", width), fmt.Sprint(codeWidth))
		}
	}
}

func identifier(file string, line int, name string) {
	if term := wholeIdentifiers[name]; term != "" {
		report(file, line, "identifier "+name, term)
	}
	if citation.MatchString(name) {
		report(file, line, "test name "+name, "the behaviour")
	}
	for _, word := range split(name) {
		if term := identifiers[word]; term != "" {
			report(file, line, fmt.Sprintf("%q in identifier %s", word, name), term)
		}
	}
}

// split returns the words of a name in camel case, lower case.
func split(name string) (words []string) {
	start := 0
	for i, r := range name {
		if i > start && (unicode.IsUpper(r) || r == '_') {
			words = append(words, strings.ToLower(strings.Trim(name[start:i], "_")))
			start = i
		}
	}
	return append(words, strings.ToLower(strings.Trim(name[start:], "_")))
}

func words(file string, line int, text string) {
	for _, p := range phrases {
		for _, found := range p.pattern.FindAllString(text, -1) {
			if !allowed.MatchString(text) {
				report(file, line, fmt.Sprintf("%q", found), p.term)
			}
		}
	}
}
