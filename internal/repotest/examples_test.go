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
