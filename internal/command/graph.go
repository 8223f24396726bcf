package command

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/tensor"
)

func graphCommand(a *app) *cobra.Command {
	var as, out, only string
	var force bool
	limit := 5000
	cmd := &cobra.Command{
		Use:   "graph FILE",
		Short: "Draw the program of a .pte or .rten as DOT, Mermaid or SVG",
		Example: `  tensorfile graph model.pte -o model.svg
  tensorfile graph model.rten --as mermaid`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ext := strings.ToLower(filepath.Ext(out))
			if as == "" {
				as = map[string]string{".svg": "svg", ".mmd": "mermaid", ".mermaid": "mermaid", ".dot": "dot", ".gv": "dot", "": "dot"}[ext]
			}
			if as == "" {
				return wrong("--as dot, or FILE.svg", "%s is not the extension of a language of graphs", quote(ext))
			}
			draw := map[string]func(*inspect.Graph) ([]byte, error){
				"dot":     func(g *inspect.Graph) ([]byte, error) { return g.DOT(), nil },
				"mermaid": func(g *inspect.Graph) ([]byte, error) { return g.Mermaid(), nil },
				"svg":     (*inspect.Graph).SVG,
			}[as]
			if draw == nil {
				return unknownWord("--as", "language", as, []string{"dot", "mermaid", "svg"})
			}
			if err := a.begin(); err != nil {
				return err
			}
			in, err := a.open(args[0])
			if err != nil {
				return onFile(args[0], err)
			}
			defer in.Close()
			g, err := in.graph(only, limit)
			if err != nil {
				return onFile(args[0], err)
			}
			if a.json {
				return a.printJSON(graphDocument{args[0], g})
			}
			b, err := draw(g)
			if err != nil {
				return onFile(args[0], advise("--only GLOB for a part of it, or --as dot", err))
			}
			return onFile(out, a.writeOut(out, b, force))
		},
	}
	f := cmd.Flags()
	f.StringVar(&as, "as", "", "`LANGUAGE`: dot, mermaid or svg; without it as -o ends, else dot")
	f.StringVarP(&out, "output", "o", "", "write to `FILE`")
	f.BoolVar(&force, "force", false, "replace FILE if it is there")
	f.StringVar(&only, "only", "", "only the groups (methods, subgraphs) that match `GLOB`")
	f.IntVar(&limit, "most", limit, "refuse more than `N` nodes")
	return cmd
}

// A graphDocument is graph --json.
type graphDocument struct {
	File string `json:"file"`
	*inspect.Graph
}

// graph returns the program of a file, or the groups of it that match only.
func (in *input) graph(only string, limit int) (*inspect.Graph, error) {
	g, err := inspect.NewGraph(in.File)
	if err != nil {
		return nil, advise("a .pte or a .rten", err)
	}
	if only != "" {
		if err := checkGlob(only); err != nil {
			return nil, wrong("a pattern such as forward or nodes*", "--only: %w", err)
		}
		g = g.Select(func(name string) bool { return matchAny([]string{only}, name) })
		if len(g.Groups) == 0 {
			return nil, wrong("--only '*'", "no group is named %s", quote(only))
		}
	}
	if n := g.Len(); n > limit {
		return nil, advise(fmt.Sprintf("--only GLOB for a part of it, or --most %d", n),
			fmt.Errorf("%w: the graph has %d nodes, --most is %d", tensor.ErrLimit, n, limit))
	}
	return g, nil
}
