package tensorfile_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// slotArguments are the functions of internal/fb that take a slot, and which argument
// it is.
var slotArguments = map[string]int{
	"FieldPos": 1, "FieldPosOr": 1, "FieldTarget": 1, "FieldTable": 1, "FieldBytes": 1, "GetUint8Slot": 0, "Offset": 0,
	"Scalar": 0, "Ref": 0, "Has": 0, "Remove": 0, "Child": 0, "Children": 0, "Bytes": 0,
	"SetScalar": 0, "SetChild": 0, "SetChildren": 0, "SetString": 0, "SetBytes": 0, "SetVector": 0, "SetUint64s": 0,
}

// The numbers of fields come from generated code: nothing that reads or writes a
// FlatBuffer has one of its own.
func TestNoHandWrittenSlots(t *testing.T) {
	files, fset := goFiles(t)
	calls := 0
	for _, f := range files {
		if f.test || !slices.Contains([]string{"ptd", "pte", "rten", "internal/executorch"}, f.pkg) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if strings.HasPrefix(strings.ToLower(name.Name), "slot") && i < len(n.Values) && hasNumber(n.Values[i]) {
						t.Errorf("%v: %s is declared by hand", fset.Position(n.Pos()), name.Name)
					}
				}
			case *ast.CallExpr:
				fun, ok := n.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := fun.X.(*ast.Ident); ok && strings.HasSuffix(x.Name, "fb") && x.Name != "fb" {
					return true // a conversion to a generated type
				}
				if arg, ok := slotArguments[fun.Sel.Name]; ok && arg < len(n.Args) {
					calls++
					if hasNumber(n.Args[arg]) {
						t.Errorf("%v: %s of a number", fset.Position(n.Pos()), fun.Sel.Name)
					}
				}
			}
			return true
		})
	}
	if calls < 100 {
		t.Errorf("%d slots found: this test looks for the wrong functions", calls)
	}
}

// hasNumber reports whether an expression has an integer in it.
func hasNumber(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.INT {
			found = true
		}
		return !found
	})
	return found
}
