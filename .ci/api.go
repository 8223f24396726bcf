// api.go prints the exported API of the packages of a module: a line for each name, each
// exported field, and each method, promoted ones included. An interface is one line: who
// implements it needs all of it. .ci/api runs it in the directory of the module.
package main

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"log"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	list := exec.Command("go", "list", "-export", "-deps", "-f",
		"{{.ImportPath}}\t{{.Export}}\t{{.DepOnly}}", "./...")
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		log.Fatal("api: go list: ", err)
	}
	exports, paths := map[string]string{}, []string{}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		exports[f[0]] = f[1]
		if f[2] == "false" && !hidden(f[0]) {
			paths = append(paths, f[0])
		}
	}
	slices.Sort(paths)
	imports := importer.ForCompiler(token.NewFileSet(), "gc",
		func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, path := range paths {
		p, err := imports.Import(path)
		if err != nil {
			log.Fatal("api: ", err)
		}
		lines := listed(p)
		slices.Sort(lines)
		for _, l := range lines {
			fmt.Printf("%s: %s\n", strings.TrimPrefix(path, "github.com/tensorfile/"), l)
		}
	}
}

// hidden reports whether others cannot import a package, or are not promised that it
// stays as it is.
func hidden(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"),
		func(s string) bool { return s == "cmd" || s == "internal" || s == "schema" })
}

// listed returns the lines of a package.
func listed(p *types.Package) (lines []string) {
	other := func(q *types.Package) string {
		if q == p {
			return ""
		}
		return q.Name()
	}
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		line := types.ObjectString(o, other)
		switch o := o.(type) {
		case *types.Const:
			line += " = " + o.Val().ExactString()
		case *types.TypeName:
			named, _ := types.Unalias(o.Type()).(*types.Named)
			if o.IsAlias() && (named == nil || !hidden(named.Obj().Pkg().Path())) {
				break // its fields and methods are listed where it is declared
			}
			line, _, _ = strings.Cut(line, "{")
			lines = append(lines, members(o, other)...)
		}
		lines = append(lines, line)
	}
	return lines
}

// members lists the fields of a struct, or an interface, and what methods a pointer to
// the type has: (*T) if the type itself lacks them.
func members(t *types.TypeName, other types.Qualifier) (lines []string) {
	switch u := t.Type().Underlying().(type) {
	case *types.Interface:
		return []string{"interface " + t.Name() + " " + types.TypeString(u, other)}
	case *types.Struct:
		for f := range u.Fields() {
			if f.Exported() {
				lines = append(lines,
					"field "+t.Name()+"."+f.Name()+" "+types.TypeString(f.Type(), other))
			}
		}
	}
	value := types.NewMethodSet(t.Type())
	for m := range types.NewMethodSet(types.NewPointer(t.Type())).Methods() {
		f := m.Obj()
		if !f.Exported() {
			continue
		}
		receiver := "(*" + t.Name() + ")"
		if value.Lookup(f.Pkg(), f.Name()) != nil {
			receiver = "(" + t.Name() + ")"
		}
		signature := strings.TrimPrefix(types.TypeString(f.Type(), other), "func")
		lines = append(lines, "method "+receiver+" "+f.Name()+signature)
	}
	return lines
}
