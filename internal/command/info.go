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
	"github.com/tensorfile/tensorfile/tensor"
)

func infoCommand(a *app) *cobra.Command {
	var l lister
	cmd := &cobra.Command{
		Use:   "info FILE...",
		Short: "Summarise a file: format, sizes, dtypes, attributes",
		Long: `Summarise a file: format, sizes, dtypes, attributes, and properties of its
format. With --filter, only tensors and blobs that match are counted; the size, the
attributes and the rest are of the whole file.`,
		Example: `  tensorfile info model.safetensors
  tensorfile model.pte
  tensorfile info --json https://example.org/model.gguf`,
		Args: cobra.MinimumNArgs(1),
	}
	many := a.many(cmd, a.inputs, true)
	types := false
	cmd.Flags().BoolVar(&types, "types", false, "also show the types of the keys of a .gguf")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		err := many.run(args, opened(func(a *app, in *input) (document, error) {
			l.noteNames(a, in)
			d := newInfo(in)
			if r, ok := in.Sys().(*gguf.Reader); ok && types {
				d.Types = typesOf(r)
			}
			if len(l.filter) > 0 {
				d.count(in, &l, a.matched)
			}
			return d, nil
		}))
		return l.unmatched(a, err)
	}
	l.filterFlag(cmd.Flags())
	return cmd
}

func info(_ *app, in *input) (document, error) { return newInfo(in), nil }

func newInfo(in *input) *infoDocument {
	d := &infoDocument{File: in.name, Info: inspect.NewInfo(in.File, in.config())}
	d.Warnings = in.warnings()
	if in.dir != nil {
		d.Config = in.dir.Config()
	}
	return d
}

// count counts only the tensors and blobs that pass the filters.
func (d *infoDocument) count(in *input, l *lister, matched bool) {
	var chosen []*tensor.Tensor
	for t := range in.Tensors() {
		if l.passes(t.Name) {
			chosen = append(chosen, t)
		}
	}
	d.filtered, d.matched, d.of = true, matched, d.Tensors
	c := inspect.NewInfo(tensorfile.FromTensors(chosen, nil), in.config())
	d.InfoTotal, d.StoredElements, d.Totals = c.InfoTotal, c.StoredElements, c.Totals
	d.DTypes, d.Schemes, d.Shards = c.DTypes, c.Schemes, nil
	for name, b := range in.Blobs() {
		if l.passes(name) {
			d.Totals.Blobs++
			d.Totals.BlobBytes += max(b.Size(), 0)
		}
	}
}

// An infoDocument is info --json.
type infoDocument struct {
	File string `json:"file"`
	*inspect.Info
	Config *model.Config     `json:"config,omitempty"` // of a directory
	Types  map[string]string `json:"types,omitempty"`  // of attributes, with --types
	outcome

	filtered bool
	matched  bool  // a name passed the filters
	of       int64 // tensors of the file
}

// warnings returns the warnings of an input. If it is one of several files of a model,
// the first says so.
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

// notePart notes that an input is one of several files of a model, for commands that
// print no warnings.
func (a *app) notePart(in *input) {
	if in.part != "" {
		a.note("%s: %s", display(in.name), in.part)
	}
}

// maxText is how many bytes of an attribute are shown as text.
const maxText = 1000

func (d *infoDocument) print(a *app) {
	if d.filtered && !d.matched { // which unmatched reports
		return
	}
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
	tensors := fmt.Sprint(d.Tensors)
	if d.filtered {
		tensors += fmt.Sprintf(" of %d, by --filter", d.of)
	}
	all = append(all, line("size", size), line("tensors", tensors),
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
	for _, facts := range []any{d.PTD, d.PTE, d.PTN, d.RTen, d.ONNX, d.ZTensor, d.GGUF,
		d.Primitiv} {
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

// shortArray returns the first items of a long array, such as a vocabulary; "" for other
// values.
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
