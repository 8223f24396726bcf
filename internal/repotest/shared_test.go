package repotest

import (
	"path"
	"strings"
	"testing"
)

// Tests of several files of a package find their helpers in its helpers_test.go, or in a
// file next to it that this one names. embedding_test.go is shown in a page as a whole.
func TestSharedHelpersAreInFilesOfHelpers(t *testing.T) {
	type scope struct{ dir, pkg string }
	declared := make(map[scope]map[string]string) // the file of a name
	files, fset := goFiles(t)
	for _, f := range files {
		s := scope{f.pkg, f.ast.Name.Name}
		if declared[s] == nil {
			declared[s] = make(map[string]string)
		}
		for name := range f.ast.Scope.Objects {
			if f.test && !strings.HasPrefix(path.Base(f.name), "helpers") &&
				f.name != "internal/repotest/embedding_test.go" {
				declared[s][name] = f.name
			}
		}
	}
	for _, f := range files {
		for _, id := range f.ast.Unresolved {
			d := declared[scope{f.pkg, f.ast.Name.Name}][id.Name]
			if f.test && d != "" && d != f.name {
				t.Errorf("%v: %s is declared in %s: move it to helpers_test.go",
					fset.Position(id.Pos()), id.Name, d)
			}
		}
	}
}
