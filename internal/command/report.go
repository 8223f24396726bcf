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
	var out string
	var force, quick bool
	cmd := &cobra.Command{
		Use:     "report FILE -o REPORT.html",
		Short:   "Write one self-contained page: sizes, element types, tensors, findings, the program",
		Example: `  tensorfile report model.pte -o model.html`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return errors.New("report needs -o REPORT.html")
			}
			if ext := strings.ToLower(filepath.Ext(out)); out != "-" && ext != ".html" && ext != ".htm" {
				return wrong("-o REPORT.html", "a report is a page, and the extension of %s is not .html", quote(out))
			}
			if err := a.begin(); err != nil {
				return err
			}
			if err := mayWriteOut(out, force); err != nil {
				return onFile(out, err)
			}
			in, err := a.open(args[0])
			if err != nil {
				return onFile(args[0], err)
			}
			defer in.Close()
			page, err := a.report(in, !quick)
			if err != nil {
				return onFile(args[0], err)
			}
			if err := a.writeOut(out, page, force); err != nil {
				return onFile(out, err)
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
	data, err := marshal(reportData{infoDocument{in.name, inspect.NewInfo(in.File)}, inspect.NewUsage(in.File, nil),
		verify, findings, rows.Tensors, rows.Blobs})
	if err != nil {
		return nil, err
	}
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
		"@GRAPH@", graph, "@DATA@", string(appendJSON(nil, data, 0)), "@SCRIPT@", reportScript,
	).Replace(reportPage)), nil
}
