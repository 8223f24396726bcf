package command

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/tensor"
)

func infoCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "info FILE...",
		Short: "Summarise a file: format, sizes, dtypes, attributes, and the facts of its format",
		Example: `  tensorfile info model.safetensors
  tensorfile model.pte
  tensorfile info --json https://example.org/model.gguf`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.info(args) },
	}
}

func (a *app) info(args []string) error {
	return a.each(args, func(in *input) (document, error) {
		d := in.info()
		if !a.json {
			a.printInfo(in, d)
		}
		return d, nil
	})
}

// totals are those of tensors.
type totals struct {
	Tensors    int64    `json:"tensors"`
	Parameters int64    `json:"parameters"`
	Bytes      byteSize `json:"bytes"`
}

// An infoDocument is info --json.
type infoDocument struct {
	File    string `json:"file"`
	Format  string `json:"format"`
	Version string `json:"version"`
	Size    int64  `json:"size"`
	totals
	Totals struct {
		totals
		Blobs     int64    `json:"blobs"`
		BlobBytes byteSize `json:"blob_bytes"`
	} `json:"totals"`
	DTypes     pairs[*totals] `json:"dtypes"`
	Attributes pairs[any]     `json:"attributes"`
	Facts      namedFacts
	Shards     []inspect.UsageGroup `json:"shards,omitempty"`
	Warnings   []string             `json:"warnings"`
}

// info is the document of a file.
func (in *input) info() *infoDocument {
	d := &infoDocument{File: in.name, Format: in.Format().String(), Version: in.Version(), Size: in.Size(),
		DTypes: pairs[*totals]{}, Attributes: in.attributes(), Warnings: in.warnings()}
	byDType := map[string]*totals{}
	for t := range in.Tensors() {
		n, _ := t.Shape.Elements()
		name := dtypeOf(t.DType, t.Data)
		if name == "" && !t.Dense() {
			name = t.Scheme
		}
		if name == "" {
			name = tensor.Unknown.String()
		}
		s := byDType[name]
		if s == nil {
			s = &totals{}
			byDType[name] = s
			d.DTypes.add(name, s)
		}
		for _, s := range []*totals{&d.totals, s} {
			s.Tensors++
			s.Parameters += n
			s.Bytes += byteSize(max(bytesOf(t), 0))
		}
	}
	d.Totals.totals = d.totals
	for _, b := range in.Blobs() {
		d.Totals.Blobs++
		d.Totals.BlobBytes += byteSize(max(b.Size(), 0))
	}
	if in.sharded() {
		d.Shards = inspect.NewUsage(in.File, nil).Shards
	}
	if in.view.facts != nil {
		d.Facts = namedFacts{d.Format, in.view.facts()}
	}
	return d
}

// attributes are the file's own, in file order.
func (in *input) attributes() pairs[any] {
	all := pairs[any]{}
	for _, a := range inspect.Attributes(in.File) {
		all.add(a.Key, a.Value)
	}
	return all
}

func (in *input) warnings() []string {
	all := []string{}
	for _, w := range in.Warnings() {
		all = append(all, w.Error())
	}
	return all
}

// printInfo shows the same to people: sizes also in words, totals once.
func (a *app) printInfo(in *input, d *infoDocument) {
	shown := pairs[any]{}
	shown.add("format", d.Format)
	if d.Version != "" {
		shown.add("version", d.Version)
	}
	shown.add("size", byteSize(d.Size))
	shown.add("tensors", d.Tensors)
	shown.add("parameters", d.Parameters)
	shown.add("bytes", d.Bytes)
	if d.Totals.Blobs > 0 {
		shown.add("blobs", d.Totals.Blobs)
		shown.add("blob bytes", d.Totals.BlobBytes)
	}
	dtypes := pairs[any]{}
	for _, p := range d.DTypes {
		dtypes.add(p.key, plainText(fmt.Sprintf("%s, %s, %s", count(p.value.Tensors, "tensor"), count(p.value.Parameters, "parameter"), human(int64(p.value.Bytes)))))
	}
	shown.add("dtypes", dtypes)
	if len(d.Shards) > 0 {
		shards := pairs[any]{}
		for _, s := range d.Shards {
			shards.add(s.Name, plainText(fmt.Sprintf("%s, %s", count(s.Tensors, "tensor"), human(s.Bytes))))
		}
		shown.add("shards", shards)
	}
	attributes := pairs[any]{}
	for _, p := range d.Attributes {
		attributes.add(p.key, p.value)
		if text, ok := p.value.(string); ok && in.Format() == tensorfile.GGUF {
			attributes[len(attributes)-1].value = shortArray(text)
		}
	}
	shown.add("attributes", attributes)
	if d.Facts.facts != nil {
		shown.add(d.Facts.format, d.Facts.facts)
	}
	printFields(a, shown, "")
	a.printWarnings(d.Warnings)
}

func (a *app) printWarnings(warnings []string) {
	for _, w := range warnings {
		fmt.Fprintf(a.out, "%swarning:%s %s\n", a.style(styleWarning), a.style(styleNone), escape(w))
	}
}

// shortArray cuts an attribute of a .gguf that is an array, such as a vocabulary.
func shortArray(text string) any {
	const shown = 6
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return text
	}
	var first []string
	n := 0
	for ; d.More(); n++ {
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return text
		}
		if n < shown {
			first = append(first, string(v))
		}
	}
	if n <= shown {
		return text
	}
	return plainText(visible("[" + strings.Join(first, ", ") + ", ...] (" + count(n, "item") + ")"))
}
