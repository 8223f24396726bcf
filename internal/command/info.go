package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/model"
)

func infoCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "info FILE...",
		Short: "Summarise a file: format, sizes, dtypes, attributes",
		Example: `  tensorfile info model.safetensors
  tensorfile model.pte
  tensorfile info --json https://example.org/model.gguf`,
		Args: cobra.MinimumNArgs(1),
	}
	many := a.many(cmd, a.inputs, true)
	types := false
	cmd.Flags().BoolVar(&types, "types", false, "show the types of the keys of a .gguf too")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		return many.run(args, opened(func(a *app, in *input) (document, error) {
			d, err := info(a, in)
			if r, ok := in.Sys().(*gguf.Reader); ok && types && err == nil {
				d.(*infoDocument).Types = typesOf(r)
			}
			return d, err
		}))
	}
	return cmd
}

func info(_ *app, in *input) (document, error) {
	d := &infoDocument{File: in.name, Info: inspect.NewInfo(in.File, in.config())}
	d.Warnings = in.warnings()
	if in.dir != nil {
		d.Config = in.dir.Config()
	}
	return d, nil
}

// An infoDocument is info --json.
type infoDocument struct {
	File string `json:"file"`
	*inspect.Info
	Config *model.Config     `json:"config,omitempty"` // of a directory
	Types  map[string]string `json:"types,omitempty"`  // of attributes, with --types
	outcome
}

// warnings are the warnings of opening a file, and that it is one of several.
func (in *input) warnings() []string {
	all := []string{}
	if in.part != "" {
		all = append(all, in.part)
	}
	for _, w := range in.Warnings() {
		all = append(all, w.Error())
	}
	return all
}

// notePart says that an input is one of several files, where no list of warnings does.
func (a *app) notePart(in *input) {
	if in.part != "" {
		a.note("%s: %s", display(in.name), in.part)
	}
}

// maxText is how much of an attribute is shown as text.
const maxText = 1000

// print prints sizes also with units, totals once.
func (d *infoDocument) print(a *app) {
	line := func(label, text string) field { return field{label: label, text: text} }
	all := []field{line("format", d.Format)}
	switch d.Version {
	case "":
	case d.Format: // a kind of PyTorch's
		all[0].text += ", a checkpoint of torch.distributed"
	case "unpacked":
		all[0].text += ", an unpacked archive: zip -0 -r makes one file of it"
	default:
		all = append(all, line("version", escape(d.Version)))
	}
	size := sizeInWords(d.Size)
	if n := len(d.Shards); n > 0 {
		size += " in " + count(n, "shard")
	}
	all = append(all, line("size", size), line("tensors", fmt.Sprint(d.Tensors)),
		line("parameters", parametersInWords(d.Parameters, d.StoredElements)),
		line("bytes", sizeInWords(d.Bytes)))
	if d.Totals.Blobs > 0 {
		all = append(all, line("blobs", fmt.Sprint(d.Totals.Blobs)),
			line("blob bytes", sizeInWords(d.Totals.BlobBytes)))
	}
	a.printFields(all, "")
	section := func(title string, fields []field) {
		if len(fields) > 0 {
			fmt.Fprintf(a.out, "%s:\n", title)
			a.printFields(fields, "  ")
		}
	}
	var dtypes, shards, attributes []field
	elements := "parameter"
	if len(d.Schemes) > 0 {
		elements = "element" // of weights or of their parts
	}
	for _, name := range slices.SortedFunc(maps.Keys(d.DTypes), func(x, y string) int {
		return cmp.Or(cmp.Compare(d.DTypes[y].Bytes, d.DTypes[x].Bytes), cmp.Compare(x, y))
	}) {
		t := d.DTypes[name]
		dtypes = append(dtypes, line(name,
			fmt.Sprintf("%s, %s, %s", count(t.Tensors, "tensor"),
				countInWords(t.Parameters, elements), human(t.Bytes))))
	}
	for _, s := range d.Shards {
		shards = append(shards, line(s.Name,
			fmt.Sprintf("%s, %s", count(s.Tensors, "tensor"), human(s.Bytes))))
	}
	for _, v := range d.Attributes {
		f := line(v.Key, plain(v.Value))
		if t := d.Types[v.Key]; t != "" {
			f.label += " (" + t + ")"
		}
		if text, ok := v.Value.(string); ok && d.Format == tensorfile.GGUF.String() {
			f.text = cmp.Or(shortArray(text), f.text)
		}
		if len(f.text) > maxText {
			f.text = fmt.Sprintf("%s … (%d bytes, which --json has)",
				strings.ToValidUTF8(f.text[:maxText], ""), len(f.text))
		}
		attributes = append(attributes, f)
	}
	if d.Config != nil {
		section("config.json", fieldsOf(reflect.ValueOf(*d.Config)))
	}
	section("dtypes", dtypes)
	section("quantised", schemeLines(d.Schemes))
	section("shards", shards)
	section("attributes", attributes)
	for _, facts := range []any{d.PTD, d.PTE, d.PTN, d.RTen, d.ONNX, d.ZTensor, d.Primitiv} {
		if v := reflect.ValueOf(facts); !v.IsNil() {
			section(d.Format, fieldsOf(v.Elem()))
		}
	}
	a.printWarnings(d.Warnings)
}

func (a *app) printWarnings(warnings []string) {
	for _, w := range warnings {
		a.printFinding("", styleWarning, "warning", w)
	}
}

// shortArray cuts an attribute of a .gguf that is a long array, such as a vocabulary;
// "" for others.
func shortArray(text string) string {
	const shown = 6
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return ""
	}
	var first []string
	n := 0
	for ; d.More(); n++ {
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return ""
		}
		if n < shown {
			first = append(first, string(v))
		}
	}
	if n <= shown {
		return ""
	}
	return visible("[" + strings.Join(first, ", ") + ", ...] (" + count(n, "item") + ")")
}
