package command

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"html"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/tensor"
)

//go:embed report.html
var reportPage string

//go:embed report.js
var reportScript string

func reportCommand(a *app) *cobra.Command {
	var o outputs
	var quick bool
	cmd := &cobra.Command{
		Use:     "report FILE REPORT.html",
		Short:   "Write one self-contained page: sizes, dtypes, findings, program",
		Example: `  tensorfile report model.pte model.html`,
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, out, err := a.beginFile(&o, args, 1)
			if err != nil {
				return err
			}
			if ext := strings.ToLower(filepath.Ext(out)); out != "-" && ext != ".html" &&
				ext != ".htm" {
				return wrong("REPORT.html",
					"a report is a page, and the extension of %s is not .html", quote(out))
			}
			return a.with(args[0], func(in *input) error {
				page, err := a.report(in, !quick)
				if err != nil {
					return err
				}
				if err := a.writeText(out, &o, page); err != nil {
					return err
				}
				return a.wrote(in.name, out, &o)
			})
		},
	}
	f := cmd.Flags()
	o.flags(f, "FILE")
	f.BoolVar(&quick, "quick", false, "do not verify")
	return cmd
}

// reportData is what the page shows.
type reportData struct {
	Info     infoDocument   `json:"info"`
	Usage    *inspect.Usage `json:"usage"`
	Verified bool           `json:"verified"`
	Findings []findingRow   `json:"findings"`
	Tensors  []tensorRow    `json:"tensors"`
	Blobs    []blobRow      `json:"blobs"`
}

// report fills the page. What comes from the file stands in a block of JSON,
// whose strings have neither < nor >, and the policy of the page lets no script
// run but its own.
func (a *app) report(in *input, verify bool) ([]byte, error) {
	findings := []findingRow{}
	if verify {
		list, err := a.findings(in, tensor.VerifyOptions{Strict: a.strict})
		if err != nil {
			return nil, err
		}
		findings = findingRows(list)
	}
	rows := (&lister{}).document(in)
	data, err := marshal(reportData{infoDocument{in.name, inspect.NewInfo(in.File)},
		inspect.NewUsage(in.File, nil),
		verify, findings, rows.Tensors, rows.Blobs})
	if err != nil {
		return nil, err
	}
	graph := ""
	const maxNodes = 2000 // more is no picture
	g, err := in.graph(nil, maxNodes)
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
		"@GRAPH@", graph, "@DATA@", string(appendJSON(nil, data, 0)), "@SCRIPT@", reportScript,
	).Replace(reportPage)), nil
}
