package command

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/bridge/safetensors"
	"github.com/tensorfile/tensorfile/ztensor"
)

func detectCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "detect FILE...",
		Short: "Print the format and the version of each file",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachLine(args, func(name string) (object, string, error) {
				in, err := a.open(name)
				if err != nil {
					return nil, "", err
				}
				defer in.Close()
				shards := shardsOf(in)
				o := object{{"file", name}, {"format", in.Format().String()}, {"version", in.Version()}}
				line := display(name) + ": " + in.Format().String()
				if v := in.Version(); v != "" {
					line += " " + escape(v)
				}
				if shards != nil {
					o.set("shards", shards)
					line += ", " + count(len(shards), "shard")
				}
				return o, line, nil
			})
		},
	}
}

// sharded tells a file whose tensors are in others.
func (in *input) sharded() bool { return shardsOf(in) != nil }

// shardsOf names the files that an index or a root refers to; nil where the file
// stands alone.
func shardsOf(in *input) []string {
	var names []string
	switch r := in.Sys().(type) {
	case *safetensors.Reader:
		names = slices.Collect(r.Shards())
	case *ztensor.Reader:
		for s := range r.Shards() {
			names = append(names, s.Name)
		}
	}
	return names
}
