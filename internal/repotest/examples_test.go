package repotest

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
)

// TestExamplesAreWholePrograms: go/doc makes a program of every example, which a reader
// can copy, and go test runs it. Every public package has examples.
func TestExamplesAreWholePrograms(t *testing.T) {
	files := map[string][]*ast.File{} // of tests, by directory
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && name != "." && (e.Name()[0] == '.' || e.Name()[0] == '_'):
			return fs.SkipDir
		case e.IsDir() && strings.Contains("/internal/testdata/schema/interop/cmd/docs/",
			"/"+e.Name()+"/"):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".go"):
			return nil
		}
		dir := path.Dir(name)
		if files[dir] == nil {
			files[dir] = []*ast.File{}
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		files[dir] = append(files[dir], f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, tests := range files {
		examples := doc.Examples(tests...)
		if len(examples) == 0 {
			t.Errorf("package %s has no examples", dir)
		}
		for _, e := range examples {
			if e.Play == nil || e.Output == "" && !e.EmptyOutput {
				t.Errorf("package %s: Example%s is no program with an output", dir, e.Name)
			}
		}
	}
}

// TestPackageCommentsNameTheExamples: a reader of the package comment sees how to begin,
// and which calls have an example.
func TestPackageCommentsNameTheExamples(t *testing.T) {
	dirs, err := fs.Glob(os.DirFS("."), "*/example_test.go")
	if err != nil || len(dirs) < 15 {
		t.Fatal(dirs, err)
	}
	for _, dir := range append(dirs, "./example_test.go") {
		dir = path.Dir(dir)
		names, err := fs.Glob(os.DirFS(dir), "*.go")
		if err != nil {
			t.Fatal(err)
		}
		var comment string
		var tests []*ast.File
		for _, name := range names {
			f, err := parser.ParseFile(token.NewFileSet(), path.Join(dir, name), nil,
				parser.ParseComments)
			switch {
			case err != nil:
				t.Fatal(err)
			case strings.HasSuffix(name, "_test.go"):
				tests = append(tests, f)
			case f.Doc != nil:
				comment += f.Doc.Text()
			}
		}
		_, after, ok := strings.Cut(comment, "See the examples of ")
		list, _, _ := strings.Cut(after, ".\n")
		if !ok {
			t.Errorf("%s: the package comment does not name its examples", dir)
		}
		for _, e := range doc.Examples(tests...) {
			link := "the package"
			if e.Name != "" {
				parts := strings.Split(e.Name, "_")
				if last := parts[len(parts)-1]; strings.ToLower(last[:1]) == last[:1] {
					parts = parts[:len(parts)-1] // a suffix
				}
				link = "[" + strings.Join(parts, ".") + "]"
			}
			if !strings.Contains(list, link) {
				t.Errorf("%s: the package comment does not name the example of %s", dir, link)
			}
		}
	}
}
