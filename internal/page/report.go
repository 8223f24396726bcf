package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// For returns the page index with another backend than WebAssembly: http or report.
func For(backend string, index []byte) []byte {
	return bytes.Replace(index, []byte(`<meta name="backend" content="wasm">`),
		[]byte(`<meta name="backend" content="`+backend+`">`), 1)
}

// modules are the modules of a report, each after those that it imports.
var modules = []string{"dom.js", "backend.js", "facts.js", "map.js", "tensor.js", "table.js",
	"program.js", "graph.js", "diff.js", "main.js"}

// Report returns a page for the first file as one HTML file that contains its data: the
// results of the methods without parameters, and if verify is set the findings. Without
// verify no elements of tensors are read. web has the files of the page.
func (s *Session) Report(ctx context.Context, web fs.FS, verify bool, progress Progress) ([]byte,
	error) {
	methods := []string{"files", "facts", "tensors", "weights", "plan", "graph", "blocks"}
	if verify {
		methods = append(methods, "verify")
	}
	results := map[string]any{}
	for _, m := range methods {
		r, err := s.Call(ctx, m, []byte("{}"), progress)
		switch {
		case err == nil:
			results[m] = r
		case !errors.Is(err, errors.ErrUnsupported):
			return nil, err
		}
	}
	data, err := json.Marshal(results)
	if err != nil {
		return nil, err
	}
	read := func(name string) string {
		b, e := fs.ReadFile(web, name)
		err = errors.Join(err, e)
		return string(b)
	}
	var script strings.Builder
	for _, name := range modules {
		script.WriteString(join.ReplaceAllString(read(name), ""))
	}
	index := string(For("report", []byte(read("index.html"))))
	code, style := script.String(), read("page.css")
	if err != nil {
		return nil, err
	}
	policy := fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; img-src data:; "+
		"base-uri 'none'; form-action 'none'", hash(code), hash(style))
	index = csp.ReplaceAllLiteralString(index, `content="`+policy+`"`)
	for old, now := range map[string]string{
		`<link rel="stylesheet" href="page.css">`: "<style>" + style + "</style>",
		`<script type="module" src="main.js"></script>`: `<script type="application/json" ` +
			`id="data">` + string(data) + "</script>\n" + `<script type="module">` + code +
			"</script>",
	} {
		if strings.Count(index, old) != 1 {
			return nil, fmt.Errorf("page: index.html has no %s", old)
		}
		index = strings.Replace(index, old, now, 1)
	}
	return []byte(index), nil
}

var (
	csp = regexp.MustCompile(`content="default-src[^"]*"`)
	// join matches import and export, which are removed to join modules in one script.
	join = regexp.MustCompile(`(?m)^import [^\n]*\n|^export `)
)

// hash returns the hash of a script or a style for a Content-Security-Policy.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
