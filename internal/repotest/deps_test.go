package repotest

import (
	"fmt"
	"go/ast"
	"go/token"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/tensorfile/tensorfile"

// Third-party packages, each of which enters at few places.
const (
	flatbuffers = "github.com/google/flatbuffers/go"
	cbor        = "github.com/fxamacker/cbor/v2"
	msgpack     = "github.com/vmihailenco/msgpack/v5"
	zstd        = "github.com/klauspost/compress/zstd"
	xxh3        = "github.com/zeebo/xxh3"
	norm        = "golang.org/x/text/unicode/norm" // zTensor 2's canonical names
	mmap        = "golang.org/x/exp/mmap"
	cobra       = "github.com/spf13/cobra"
	progressbar = "github.com/schollz/progressbar/v3"
	term        = "golang.org/x/term"
	pflag       = "github.com/spf13/pflag"
	uniseg      = "github.com/rivo/uniseg"
	testscript  = "github.com/rogpeppe/go-internal/testscript"
	awsKeys     = "github.com/minio/minio-go/v7/pkg/credentials"
	awsSigner   = "github.com/minio/minio-go/v7/pkg/signer"
	oauth2      = "golang.org/x/oauth2"
	googleKeys  = "golang.org/x/oauth2/google"
	azureCore   = "github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azurePolicy = "github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	azureKeys   = "github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// Groups of packages that are allowed together.
var (
	leaves = []string{"internal/align", "internal/le", "internal/memory", "internal/naming",
		"internal/parallel"}
	common = append([]string{"tensor", "internal/format", "internal/source",
		"internal/atomicfile"}, leaves...)
	formats = []string{"ptd", "pte", "ptn", "rten", "onnx", "ztensor", "primitiv", "safetensors",
		"npy", "npz", "gguf", "torch"}
)

// edges is the plan of imports (ARCHITECTURE.md): which packages each package may
// import in addition to the standard library. The key is a directory; one that ends in
// /... means those below it too, and the longest key counts. A new package needs a line
// here, on purpose. Packages of this module are named without its path.
var edges = map[string][]string{
	"internal/align":      {},
	"internal/le":         {},
	"internal/naming":     {},
	"internal/parallel":   {},
	"internal/memory":     {},
	"internal/ggml":       {},
	"internal/atomicfile": {"tensor", "internal/naming"},
	"internal/source":     {mmap, "internal/memory", "tensor"},
	"tensor":              and(leaves, "internal/ggml"),
	"internal/format": and(leaves, "tensor", "internal/atomicfile", "internal/ggml",
		"internal/source"),
	"internal/numpy":      and(leaves, "tensor", "internal/format", "internal/source"),
	"internal/jsonheader": and(leaves, "tensor", "internal/source"),
	"internal/zipfile":    and(leaves, "tensor", "internal/format", "internal/source"),
	"remote":              {"internal/naming", "tensor"},
	"quant": {"tensor", "internal/ggml", "internal/le", "internal/naming",
		"internal/parallel"},
	"inspect": {".", "tensor", "internal/format", "internal/ggml", "internal/le",
		"internal/memory", "internal/parallel", "internal/naming", "sparse", "onnx", "primitiv",
		"ptd", "pte", "ptn", "rten", "ztensor", "gguf", "safetensors", "torch",
		"quant"},

	"internal/fb":  {flatbuffers, "internal/align", "internal/le"},
	"schema":       {},
	"schema/ptdfb": {flatbuffers, "internal/fb"},
	"schema/ptefb": {flatbuffers, "internal/fb"},
	"schema/ptnfb": {flatbuffers, "internal/fb"},
	// A generator: it makes what is committed under schema.
	"schema/gen":    {flatbuffers, "internal/fb"},
	"schema/rtenfb": {flatbuffers, "internal/fb"},

	"ptd": and(common, flatbuffers, "internal/fb", "internal/executorch",
		"schema/ptdfb"),
	"pte": and(common, flatbuffers, "internal/fb", "internal/executorch",
		"schema/ptefb"),
	"ptn": and(common, flatbuffers, "internal/fb", "internal/executorch", "internal/jsonheader",
		"internal/zipfile", "schema/ptnfb"),
	"onnx": and(common, "sparse"),
	"rten": and(common, flatbuffers, "internal/fb", "schema/rtenfb"),
	"sparse": {"tensor", "internal/align", "internal/format", "internal/le", "internal/naming",
		"internal/source"},
	"ztensor": and(common, "ztensor/internal/cbor", "ztensor/internal/core",
		"ztensor/internal/digest", "ztensor/internal/dtype", "ztensor/internal/layouts",
		"ztensor/internal/rule", "ztensor/internal/v1", "ztensor/internal/v2",
		"ztensor/internal/writer"),
	"ztensor/internal/core": and(common, "sparse", "ztensor/internal/digest",
		"ztensor/internal/dtype", "ztensor/internal/rule", zstd),
	"ztensor/internal/writer": and(common, "ztensor/internal/cbor", "ztensor/internal/core",
		"ztensor/internal/digest", "ztensor/internal/dtype", zstd),
	"ztensor/internal/dtype":  {"tensor", "internal/le", "ztensor/internal/rule"},
	"ztensor/internal/digest": {"tensor", "internal/naming", "ztensor/internal/rule", xxh3},
	"ztensor/internal/v1": and(common, "sparse", "ztensor/internal/cbor",
		"ztensor/internal/core", "ztensor/internal/digest", "ztensor/internal/dtype",
		"ztensor/internal/writer", zstd),
	"ztensor/internal/layouts": {"tensor", "sparse", "internal/naming", "ztensor/internal/cbor",
		"ztensor/internal/core", "ztensor/internal/rule"},
	"ztensor/internal/v2": and(common, "sparse", "ztensor/internal/cbor",
		"ztensor/internal/core", "ztensor/internal/digest", "ztensor/internal/dtype",
		"ztensor/internal/layouts", "ztensor/internal/rule", "ztensor/internal/writer",
		zstd, xxh3, norm),
	"ztensor/internal/rule": {"tensor"},
	"ztensor/internal/cbor": {"tensor", "internal/le", "ztensor/internal/rule", cbor},
	"primitiv":              and(common, msgpack),
	"safetensors":           and(common, "internal/jsonheader"),
	"npy":                   and(common, "internal/numpy"),
	"npz":                   and(common, "internal/numpy", "internal/zipfile"),
	"gguf":                  and(common, "internal/ggml", "internal/numpy"),
	"torch":                 and(common, "internal/numpy", "internal/zipfile", "sparse"),

	".": and(common, formats...),
	"model": and(common, ".", "gguf", "onnx", "pte", "quant",
		"safetensors", "ztensor"),
	"convert": and(and(common, formats...), ".", "sparse", "quant", "internal/ggml"),
	"internal/page": {".", "tensor", "inspect", "model", "pte", "quant", "sparse",
		"internal/format"},
	"internal/page/web":      {},
	"internal/page/web/wasm": {"internal/page"},
	"cmd/tensorfile":         {"internal/command"},
	"internal/command": and(and(and(common, formats...), ".", "sparse", "convert", "inspect",
		"model", "quant", "remote", "internal/page", "internal/page/web"),
		cobra, pflag, progressbar, term, uniseg),

	// The nested module: what links the libraries of object stores is outside of this
	// one.
	"cloud/internal/store":     {"remote", "tensor"},
	"cloud/internal/storetest": {"remote", "tensor"},
	"cloud/s3":                 {"cloud/internal/store", "remote", "tensor", awsKeys, awsSigner},
	"cloud/gs":                 {"cloud/internal/store", "remote", "tensor", oauth2, googleKeys},
	"cloud/az": {"cloud/internal/store", "remote", "tensor", azureCore,
		azurePolicy, azureKeys},
	"cloud/cmd/tensorfile": {"internal/command", "remote", "cloud/s3", "cloud/gs", "cloud/az"},

	// Programs and helpers of the proofs and tests: nothing that is shipped imports them.
	"interop/...":         {any},
	"internal/repotest":   {},
	"testdata/...":        {any},
	"internal/executorch": {"tensor", "internal/align", "internal/fb"},
	"internal/readtest":   {"internal/source"},
	// This one needs tensor, whose own tests use internal/readtest.
	"internal/readtest/lifecycle": {"tensor", "internal/readtest"},
	"internal/fb/fbtest":          {any},
}

// any allows everything that the library imports somewhere.
const any = "*"

// Tests of a package may import what the package may, and these.
var inTests = []string{"internal/readtest", "internal/readtest/lifecycle", "internal/fb/fbtest",
	testscript}

// oracles are what tests hold our own code against.
var oracles = map[string][]string{
	"internal/executorch": {any},
	"internal/fb":         {any},
	"internal/readtest":   {any},
	"schema/...":          {any},
	"tensor":              {any},
	"quant":               {"."},
	"pte":                 {"ptd"}, // the other half of a program with external weights
	"ztensor":             {cbor, zstd, xxh3, "sparse"},
	".":                   {any},
	"convert":             {any},
	"model":               {any},
	"remote":              {any},
	"cloud/...":           {any},
	"internal/command":    {any},
	"internal/repotest":   {any},
	"internal/page":       {"internal/page/web", "rten"},
}

// Packages of the standard library that only some may import.
var std = map[string][]string{
	"unsafe":     {"internal/le"},
	"C":          {},
	"net/http":   {"remote", "internal/command", "cloud/...", "interop/..."},
	"net":        {"remote", "internal/command", "interop/..."},
	"crypto/tls": {"remote"},
	"plugin":     {},
	"log":        {"schema/gen", "interop/...", "testdata/..."},
	"log/slog":   {},
	"os/exec": {"internal/command", "interop/...", "testdata/...", "schema/gen",
		"internal/readtest"},
	"net/http/httptest": {"cloud/internal/storetest"},
	"testing": {"cloud/internal/storetest", "internal/readtest", "internal/readtest/lifecycle",
		"internal/fb/fbtest"},
	"encoding/gob": {},
	"math/big":     {"internal/command", "interop/...", "testdata/..."},
}

func and(list []string, others ...string) []string { return slices.Concat(list, others) }

// matches reports whether pkg is the directory that pattern names, or below it.
func matches(pattern, pkg string) bool {
	if dir, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == dir || strings.HasPrefix(pkg, dir+"/")
	}
	return pattern == pkg
}

// lookUp returns what table says of pkg.
func lookUp(table map[string][]string, pkg string) (list []string, ok bool) {
	longest := -1
	for pattern, l := range table {
		if matches(pattern, pkg) && len(pattern) > longest {
			longest, list, ok = len(pattern), l, true
		}
	}
	return list, ok
}

// An edge is one import. The path of a package of this module is its directory.
type edge struct {
	path string
	std  bool
}

func imports(f goFile) (edges []edge) {
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic(err)
		}
		first, _, _ := strings.Cut(p, "/")
		if p == module {
			p = "."
		}
		edges = append(edges,
			edge{strings.TrimPrefix(p, module+"/"), !strings.Contains(first, ".")})
	}
	return edges
}

func TestImportsFollowThePlan(t *testing.T) {
	files, _ := goFiles(t)
	missing := map[string]bool{}
	for _, f := range files {
		allowed, ok := lookUp(edges, f.pkg)
		if !ok {
			if !missing[f.pkg] {
				t.Errorf("package %s has no line in the table of allowed imports", f.pkg)
			}
			missing[f.pkg] = true
			continue
		}
		if f.test {
			references, _ := lookUp(oracles, f.pkg)
			allowed = slices.Concat(allowed, inTests, references, []string{f.pkg})
		}
		for _, e := range imports(f) {
			p := e.path
			if e.std {
				who, limited := std[p]
				if limited && !f.test &&
					!slices.ContainsFunc(who,
						func(pattern string) bool { return matches(pattern, f.pkg) }) {
					t.Errorf("%s imports %q", f.name, p)
				}
				if f.test && (p == "unsafe" && f.pkg != "internal/le" || p == "C") {
					t.Errorf("%s imports %q", f.name, p)
				}
				continue
			}
			if !slices.Contains(allowed, p) && !slices.Contains(allowed, any) {
				t.Errorf("%s imports %s, which the plan does not allow", f.name, p)
			}
		}
	}
}

// TestAFormatLinksOnlyItsOwnLibraries follows imports to their end: who reads one
// format pays for no other.
func TestAFormatLinksOnlyItsOwnLibraries(t *testing.T) {
	files, _ := goFiles(t)
	direct := map[string][]edge{}
	for _, f := range files {
		if !f.test {
			direct[f.pkg] = append(direct[f.pkg], imports(f)...)
		}
	}
	for pkg, want := range map[string][]string{
		"tensor":      {},
		"remote":      {},
		"model":       {flatbuffers, cbor, zstd, xxh3, norm, msgpack, mmap},
		"ptd":         {flatbuffers, mmap},
		"pte":         {flatbuffers, mmap},
		"rten":        {flatbuffers, mmap},
		"ztensor":     {cbor, zstd, xxh3, norm, mmap},
		"primitiv":    {msgpack, mmap},
		"safetensors": {mmap},
		"npy":         {mmap},
		"npz":         {mmap},
		"gguf":        {mmap},
		"torch":       {mmap},
	} {
		seen := map[string]bool{}
		var visit func(pkg string)
		visit = func(from string) {
			for _, e := range direct[from] {
				switch {
				case seen[e.path]:
				case !e.std && strings.Contains(e.path, ".") && e.path != "." &&
					!slices.Contains(want, e.path):
					t.Errorf("%s reaches %s", pkg, e.path)
				case e.path == "net/http" && pkg != "remote":
					t.Errorf("%s reaches net/http", pkg)
				case !e.std:
					seen[e.path] = true
					visit(e.path)
				}
			}
		}
		visit(pkg)
	}
}

// TestPrimitivLinksTwoModulesOfOthers asks the go command for all that is linked.
func TestPrimitivLinksTwoModulesOfOthers(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}",
		"./primitiv")
	out, err := list.Output()
	if err != nil {
		t.Skip("there is no go command here: ", err)
	}
	modules := strings.Fields(string(out))
	slices.Sort(modules)
	want := []string{module, msgpack, "github.com/vmihailenco/tagparser/v2", "golang.org/x/exp"}
	if modules = slices.Compact(modules); !slices.Equal(modules, want) {
		t.Errorf("primitiv links %q, want %q", modules, want)
	}
}

// TestNothingHappensAtStartAndNothingGlobalChanges finds init functions, and variables
// of packages that are assigned to, have their address taken, or are made to be
// changed: locks, pools, maps that are written.
func TestNothingHappensAtStartAndNothingGlobalChanges(t *testing.T) {
	files, fset := goFiles(t)
	vars := map[string]map[string]bool{} // of each package, by name
	for _, f := range files {
		if f.test {
			continue
		}
		if vars[f.pkg] == nil {
			vars[f.pkg] = map[string]bool{}
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					t.Errorf("%v: an init function", fset.Position(d.Pos()))
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok && d.Tok == token.VAR {
						for _, n := range v.Names {
							vars[f.pkg][n.Name] = n.Name != "_"
						}
						if s, ok := v.Type.(*ast.SelectorExpr); ok &&
							isName(s.X, "sync", "atomic") {
							t.Errorf("%v: a variable of a package that changes: %s.%s",
								fset.Position(v.Pos()), s.X, s.Sel.Name)
						}
					}
				}
			}
		}
	}
	for _, f := range files {
		if f.test {
			continue
		}
		global := func(e ast.Expr) (name string, ok bool) {
			for {
				switch x := e.(type) {
				case *ast.ParenExpr:
					e = x.X
				case *ast.IndexExpr:
					e = x.X
				case *ast.SelectorExpr:
					e = x.X
				case *ast.StarExpr:
					e = x.X
				case *ast.SliceExpr:
					e = x.X
				case *ast.Ident:
					// The parser resolves names within the file. One that it could not
					// resolve, or that leads to the outermost scope, is the package's.
					// Its Obj is deprecated, because it knows one file only, which is
					// what is needed here.
					return x.Name, vars[f.pkg][x.Name] &&
						(x.Obj == nil || f.ast.Scope.Lookup(x.Name) == x.Obj)
				default:
					return "", false
				}
			}
		}
		check := func(what string, e ast.Expr) {
			if name, ok := global(e); ok {
				t.Errorf("%v: %s of a package's variable %s", fset.Position(e.Pos()), what, name)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					for _, e := range n.Lhs {
						check("assignment", e)
					}
				}
			case *ast.IncDecStmt:
				check("assignment", n.X)
			case *ast.RangeStmt:
				if n.Tok == token.ASSIGN {
					check("assignment", n.Key)
					if n.Value != nil {
						check("assignment", n.Value)
					}
				}
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					if _, literal := n.X.(*ast.CompositeLit); !literal {
						if id, ok := n.X.(*ast.Ident); ok {
							check("address", id)
						}
					}
				}
			case *ast.CallExpr:
				if isName(n.Fun, "delete", "clear") && len(n.Args) > 0 {
					check("change", n.Args[0])
				}
			}
			return true
		})
	}
}

func isName(e ast.Expr, names ...string) bool {
	id, ok := e.(*ast.Ident)
	return ok && slices.Contains(names, id.Name)
}

func TestTheTableOfImportsIsItselfSound(t *testing.T) {
	for pkg, allowed := range edges {
		for _, p := range allowed {
			if slices.Contains(formats, p) && slices.Contains(formats, pkg) {
				t.Errorf("the table lets %s import %s: formats know nothing of each other", pkg, p)
			}
			if first, _, _ := strings.Cut(p, "/"); p != any && p != "." &&
				!strings.Contains(first, ".") {
				if _, ok := lookUp(edges, p); !ok {
					t.Errorf("the table lets %s import %s, of which it says nothing", pkg, p)
				}
			}
		}
	}
	for _, c := range []struct {
		pattern, pkg string
		want         bool
	}{
		{"a/...", "a", true}, {"a/...", "a/b", true}, {"a/...", "ab", false}, {"a", "a/b", false},
		{".", "a", false}, {".", ".", true},
	} {
		if got := matches(c.pattern, c.pkg); got != c.want {
			t.Errorf("matches(%q, %q) = %v", c.pattern, c.pkg, got)
		}
	}
	if list, _ := lookUp(map[string][]string{"a/...": {"x"}, "a/b/...": {"y"}},
		"a/b/c"); fmt.Sprint(list) != "[y]" {
		t.Errorf("the longest line does not count: %v", list)
	}
}
