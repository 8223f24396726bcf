package main

import (
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"strings"
)

// keepReaders rewrites a file of flatc with its accessors only. Functions that build or
// change buffers, and those that open a table that is no root, have no caller: writers
// use internal/fb.
func keepReaders(name string) error {
	src, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments)
	if err != nil {
		return err
	}
	roots := map[string]bool{}
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for _, s := range g.Specs {
				if root, ok := strings.CutSuffix(s.(*ast.ValueSpec).Names[0].Name, "Identifier"); ok {
					roots[root] = true
				}
			}
		}
	}
	var kept []byte
	from := 0
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || !withoutCaller(f, roots) {
			continue
		}
		start := f.Pos()
		if f.Doc != nil {
			start = f.Doc.Pos()
		}
		kept = append(kept, src[from:fset.Position(start).Offset]...)
		from = fset.Position(f.End()).Offset
	}
	if src, err = format.Source(append(kept, src[from:]...)); err != nil {
		return err
	}
	return os.WriteFile(name, src, 0o666)
}

// withoutCaller reports whether nothing calls the function in a package that only reads.
func withoutCaller(f *ast.FuncDecl, roots map[string]bool) bool {
	name := f.Name.Name
	if f.Recv != nil {
		field, ok := strings.CutPrefix(name, "Mutate") // a field may be named mutated
		return ok && field != "" && field[0] < 'a'
	}
	if strings.HasPrefix(name, "GetSizePrefixed") || strings.HasSuffix(name, "BufferHasIdentifier") {
		return true
	}
	if table, ok := strings.CutPrefix(name, "GetRootAs"); ok {
		return !roots[table]
	}
	first := f.Type.Params.List
	return len(first) > 0 && len(first[0].Names) > 0 && first[0].Names[0].Name == "builder"
}
