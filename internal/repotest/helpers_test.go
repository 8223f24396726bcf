package repotest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
)

// The helpers of tests in several files.

// A goFile is one source file of the module, whatever system it is meant for.
type goFile struct {
	name, pkg string // pkg is the directory, slashes, "." for the root
	test      bool
	ast       *ast.File
}

// goFiles parses every Go file of the module, and of the nested module cloud.
func goFiles(t *testing.T) (files []goFile, fset *token.FileSet) {
	t.Helper()
	fset = token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, nested := os.Stat(filepath.Join(name, "go.mod"))
			if name != "." &&
				(nested == nil && name != "cloud" || strings.HasPrefix(d.Name(), ".") ||
					strings.HasPrefix(d.Name(), "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		files = append(files, goFile{name, path.Dir(name), strings.HasSuffix(name, "_test.go"), f})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("only %d files found: does the test run in the root of the module?", len(files))
	}
	return files, fset
}

// testPageShows compares the Go code of a page with the functions of a file up to its
// mark, in both directions.
func testPageShows(t *testing.T, page, source string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	code, _, ok := strings.Cut(string(file), "// end of "+page+"'s code")
	if !ok {
		t.Fatalf("%s has no mark", source)
	}
	var shown []string
	for _, block := range strings.Split(string(text), "```go\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for _, f := range strings.SplitAfter(block, "\n}\n") {
			if f = strings.TrimSpace(f); f != "" {
				shown = append(shown, f)
			}
		}
	}
	for _, f := range shown {
		if !strings.Contains(code, "\n"+f+"\n") {
			t.Errorf("%s has code that is not tested:\n%s", page, f)
		}
	}
	if n := strings.Count(code, "\nfunc "); n != len(shown) {
		t.Errorf("%s shows %d of %d functions", page, len(shown), n)
	}
}

// eachTestFile calls f with every file of testdata that opens.
func eachTestFile(t *testing.T, f func(t *testing.T, f *tensorfile.File)) {
	t.Helper()
	opened := map[tensorfile.Format]int{}
	err := filepath.WalkDir("testdata", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		file, err := tensorfile.Open(name, nil)
		if err != nil {
			return nil
		}
		defer file.Close()
		opened[file.Format()]++
		t.Run(strings.TrimPrefix(filepath.ToSlash(name), "testdata/"), func(t *testing.T) {
			f(t, file)
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range tensorfile.Formats() {
		if opened[format] == 0 {
			t.Errorf("no file of %v", format)
		}
	}
}
