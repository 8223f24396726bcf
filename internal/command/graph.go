package command

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/tensor"
)

func graphCommand(a *app) *cobra.Command {
	var as string
	var only globs
	var o outputs
	limit := 5000
	languages := []string{"dot", "mermaid", "svg"}
	cmd := &cobra.Command{
		Use:   "graph FILE [OUT]",
		Short: "Draw a program (.pte, .ptn, .rten, .onnx): DOT, Mermaid, SVG",
		Example: `  tensorfile graph model.pte model.svg
  tensorfile graph model.onnx --as mermaid`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && o.name == "" {
				o.name = "-"
			}
			args, out, err := a.begin(&o, args, 1)
			if err != nil {
				return err
			}
			ext := strings.ToLower(filepath.Ext(out))
			if as == "" {
				as = map[string]string{".svg": "svg", ".mmd": "mermaid", ".mermaid": "mermaid",
					".dot": "dot", ".gv": "dot", "": "dot"}[ext]
			}
			if as == "" {
				return wrong("--as dot, or FILE.svg",
					"%s is not the extension of a language of graphs", quote(ext))
			}
			return a.with(args[0], func(in *input) error {
				g, err := in.graph(only, limit)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(graphDocument{args[0], g})
				}
				b := g.DOT()
				switch as {
				case "mermaid":
					b = g.Mermaid()
				case "svg":
					if b, err = g.SVG(); err != nil {
						return advise("--only GLOB for a part of it, or --as dot", err)
					}
				}
				return a.writeText(out, &o, b)
			})
		},
	}
	f := cmd.Flags()
	choose(f, &as, "as", "language", languages,
		"write `LANGUAGE` dot, mermaid or svg (default: by the extension of OUT, else dot)")
	f.Var(&only, "only", "draw only the groups (methods, subgraphs) that match `GLOB`")
	number(f, &limit, "max-nodes", 1, math.MaxInt, "refuse programs of more than `N` nodes")
	o.flags(f, "FILE")
	return cmd
}

// A graphDocument is graph --json.
type graphDocument struct {
	File string `json:"file"`
	*inspect.Graph
}

// graph returns the program of a file, or if only is not empty its groups that match. It
// fails if there are more than limit nodes.
func (in *input) graph(only globs, limit int) (*inspect.Graph, error) {
	g, err := inspect.NewGraph(in.File)
	if err != nil {
		return nil, advise("a .pte, a .ptn, a .rten or a .onnx", err)
	}
	if len(only) > 0 {
		if g = g.Select(only.match); len(g.Groups) == 0 {
			return nil, wrong("--only '*'", "no group is named %s",
				quote(strings.Join(only, " or ")))
		}
	}
	if n := g.Len(); n > limit {
		return nil, advise(fmt.Sprintf("--only GLOB for a part of it, or --max-nodes %d", n),
			fmt.Errorf("%w: the graph has %d nodes, --max-nodes is %d", tensor.ErrLimit, n, limit))
	}
	return g, nil
}
