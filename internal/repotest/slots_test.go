package repotest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// slotPackages read and write FlatBuffers.
var slotPackages = []string{"ptd", "pte", "rten", "internal/executorch", "internal/fb"}

// slotArguments are the functions of slotPackages with a parameter named slot, and which
// one that is, by package and name; functions of internal/fb can be called from all.
func slotArguments(files []goFile) map[string]map[string]int {
	all := make(map[string]map[string]int)
	for _, f := range files {
		if f.test || !slices.Contains(slotPackages, f.pkg) {
			continue
		}
		if all[f.pkg] == nil {
			all[f.pkg] = make(map[string]int)
		}
		for _, d := range f.ast.Decls {
			fun, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			i := 0
			for _, p := range fun.Type.Params.List {
				for _, name := range p.Names {
					if name.Name == "slot" {
						all[f.pkg][fun.Name.Name] = i
					}
					i++
				}
			}
		}
	}
	return all
}

// The runtime for Go has the slot first.
var runtimeSlot = regexp.MustCompile(`^(Get.+Slot|Prepend.+Slot|VOffsetT|Offset)$`)

// The numbers of fields come from generated code: nothing that reads or writes a
// FlatBuffer has one of its own, as an argument, a constant, a variable, or an index of
// the tables that describe the schema.
func TestSlotsComeFromGeneratedCode(t *testing.T) {
	files, fset := goFiles(t)
	arguments := slotArguments(files)
	calls := make(map[string]int)
	for _, f := range files {
		if f.test || !slices.Contains(slotPackages, f.pkg) {
			continue
		}
		named := func(name string, value ast.Expr) {
			if strings.HasPrefix(strings.ToLower(name), "slot") && hasNumber(value) {
				t.Errorf("%v: %s is a number that is written by hand", fset.Position(value.Pos()),
					name)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if i < len(n.Values) {
						named(name.Name, n.Values[i])
					}
				}
			case *ast.AssignStmt:
				for i, x := range n.Lhs {
					if id, ok := x.(*ast.Ident); ok && i < len(n.Rhs) &&
						(n.Tok == token.ASSIGN || n.Tok == token.DEFINE) {
						named(id.Name, n.Rhs[i])
					}
				}
			case *ast.KeyValueExpr:
				if id, ok := n.Key.(*ast.Ident); ok {
					named(id.Name, n.Value)
				}
			case *ast.IndexExpr:
				if x, ok := n.X.(*ast.SelectorExpr); ok && isNumber(n.Index) &&
					slices.Contains([]string{"Tables", "Fields", "Unions", "Members", "Enums"},
						x.Sel.Name) {
					t.Errorf("%v: %s of a number", fset.Position(n.Pos()), x.Sel.Name)
				}
			case *ast.CallExpr:
				name, generated := called(n)
				i, ok := arguments[f.pkg][name]
				if !ok {
					i, ok = arguments["internal/fb"][name]
				}
				if !ok && runtimeSlot.MatchString(name) {
					i, ok = 0, true
				}
				if !ok || generated || i >= len(n.Args) {
					break
				}
				if _, ok := n.Args[i].(*ast.CompositeLit); ok {
					break // of another function of that name
				}
				calls[f.pkg]++
				if hasNumber(n.Args[i]) {
					t.Errorf("%v: %s of a number", fset.Position(n.Pos()), name)
				}
			}
			return true
		})
	}
	for pkg, min := range map[string]int{"ptd": 10, "pte": 100, "rten": 50, "internal/fb": 20} {
		if calls[pkg] < min {
			t.Errorf("%s: only %d slots found: this test looks for the wrong functions", pkg,
				calls[pkg])
		}
	}
}

// called returns the name of the function that is called, and whether it is the name of a
// package of bindings.
func called(call *ast.CallExpr) (name string, generated bool) {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return fun.Name, false
	case *ast.SelectorExpr:
		x, ok := fun.X.(*ast.Ident)
		return fun.Sel.Name, ok && strings.HasSuffix(x.Name, "fb") && x.Name != "fb"
	}
	return "", false
}

// hasNumber reports whether an expression has an integer in it.
func hasNumber(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		found = found || isNumber(n)
		return !found
	})
	return found
}

func isNumber(n ast.Node) bool {
	l, ok := n.(*ast.BasicLit)
	return ok && l.Kind == token.INT
}
