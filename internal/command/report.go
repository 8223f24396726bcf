package command

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"html"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/tensor"
)

//go:embed report.html
var reportPage string

//go:embed report.js
var reportScript string

func reportCommand(a *app) *cobra.Command {
	var out string
	var force, quick bool
	cmd := &cobra.Command{
		Use:   "report FILE -o REPORT.html",
		Short: "Write one self-contained page: sizes, element types, tensors, findings, the program",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return errors.New("report needs -o REPORT.html")
			}
			if err := a.begin(); err != nil {
				return err
			}
			if err := mayWriteOut(out, force); err != nil {
				a.fail(out, err)
				return nil
			}
			in, err := a.open(args[0])
			if err != nil {
				a.fail(args[0], err)
				return nil
			}
			defer in.Close()
			page, err := a.report(in, !quick)
			if err != nil {
				a.fail(args[0], err)
				return nil
			}
			if err := a.writeOut(out, page, force); err != nil {
				a.fail(out, err)
				return nil
			}
			a.made(args[0], out)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&out, "output", "o", "", "write to `FILE`; - is standard output")
	f.BoolVar(&force, "force", false, "replace FILE if it is there")
	f.BoolVar(&quick, "quick", false, "do not verify")
	return cmd
}

// report fills the page. What comes from the file stands in a block of JSON,
// whose strings have neither < nor >, and the policy of the page lets no script
// run but its own.
func (a *app) report(in *input, verify bool) ([]byte, error) {
	u, err := a.usage(in)
	if err != nil {
		return nil, err
	}
	findings := []object{}
	if verify {
		list, err := a.findings(in, tensor.VerifyOptions{Strict: a.strict})
		if err != nil {
			return nil, err
		}
		for _, f := range list {
			findings = append(findings, findingObject(f))
		}
	}
	b := []byte(`{"info": `)
	b = appendJSON(b, in.info())
	b = append(b, ", \"usage\": "...)
	b = appendJSON(b, u.kinds())
	b = append(b, ", \"verified\": "...)
	b = appendJSON(b, verify)
	b = append(b, ", \"findings\": "...)
	b = appendJSON(b, findings)
	b = append(b, ",\n\"tensors\": ["...)
	for r := range in.eachRow() {
		if b[len(b)-1] != '[' {
			b = append(b, ",\n"...)
		}
		b = r.appendJSON(b)
	}
	blobs := []object{}
	for name, data := range in.Blobs() {
		blobs = append(blobs, blobObject(name, data))
	}
	b = append(b, "],\n\"blobs\": "...)
	b = appendJSON(b, blobs)
	b = append(b, '}')

	graph := ""
	const most = 2000 // nodes: more is no picture
	g, err := in.graph("", most)
	var picture []byte
	if err == nil {
		picture, err = g.SVG()
	}
	switch {
	case err == nil:
		graph = "<h2>Program</h2>\n<div class=\"scroll\">" + string(picture) + "</div>"
	case !errors.Is(err, errors.ErrUnsupported):
		graph = "<h2>Program</h2>\n<p>" + html.EscapeString(err.Error()) + "</p>"
	}
	hash := sha256.Sum256([]byte(reportScript))
	title := in.name
	if !harmless(title) {
		title = quote(title)
	}
	return []byte(strings.NewReplacer(
		"@HASH@", base64.StdEncoding.EncodeToString(hash[:]), "@TITLE@", html.EscapeString(title),
		"@GRAPH@", graph, "@DATA@", string(b), "@SCRIPT@", reportScript,
	).Replace(reportPage)), nil
}
