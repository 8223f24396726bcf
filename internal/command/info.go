package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/tensor"
)

func infoCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "info FILE...",
		Short: "Summarise a file: format, sizes, element types, attributes, and the facts of its format",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.each(args, func(in *input) (jsonValue, error) {
				o := in.info()
				if a.json {
					return func(w *jsonWriter) { w.value(o) }, nil
				}
				a.printInfo(o)
				return nil, nil
			})
		},
	}
}

// info is the object of info --json.
func (in *input) info() object {
	var totals struct{ tensors, parameters, bytes int64 }
	type sum struct{ tensors, parameters, bytes int64 }
	byDType := map[string]*sum{}
	var dtypes []string
	for t := range in.Tensors() {
		n, ok := t.Shape.Elements()
		if !ok {
			n = 0
		}
		size := max(bytesOf(t), 0)
		totals.tensors++
		totals.parameters += n
		totals.bytes += size
		d := dtypeOf(t.DType, t.Data)
		if d == "" {
			d = tensor.Unknown.String()
		}
		s := byDType[d]
		if s == nil {
			s = new(sum)
			byDType[d] = s
			dtypes = append(dtypes, d)
		}
		s.tensors++
		s.parameters += n
		s.bytes += size
	}
	blobs, blobBytes := 0, int64(0)
	for _, b := range in.Blobs() {
		blobs++
		blobBytes += max(b.Size(), 0)
	}
	sums := func(tensors, parameters, bytes int64) object {
		return object{{"tensors", tensors}, {"parameters", parameters}, {"bytes", bytes}}
	}
	total := sums(totals.tensors, totals.parameters, totals.bytes)
	o := object{{"file", in.name}, {"format", in.Format().String()}, {"version", in.Version()}, {"size", in.Size()}}
	o = append(o, total...)
	o.set("totals", append(total, object{{"blobs", blobs}, {"blob_bytes", blobBytes}}...))
	perType := object{}
	for _, d := range dtypes {
		s := byDType[d]
		perType.set(d, sums(s.tensors, s.parameters, s.bytes))
	}
	o.set("dtypes", perType)
	o.set("attributes", in.attributes())
	if in.view.facts != nil {
		o.set(in.Format().String(), in.view.facts())
	}
	o.set("warnings", in.warnings())
	return o
}

// attributes are the file's own, in file order.
func (in *input) attributes() object {
	if in.view.attributes != nil {
		return in.view.attributes()
	}
	o := object{}
	for k, v := range in.Attributes() {
		o.set(k, v)
	}
	return o
}

func (in *input) warnings() []string {
	all := []string{}
	for _, w := range in.Warnings() {
		all = append(all, w.Error())
	}
	return all
}

// printInfo shows the same to people: sizes also in words, totals once.
func (a *app) printInfo(o object) {
	var shown object
	for _, f := range o {
		switch f.key {
		case "file", "tensors", "parameters", "bytes", "warnings":
			continue
		case "size":
			f.value = withHuman(f.value.(int64))
		case "totals":
			t := f.value.(object)
			shown = append(shown, t[0], t[1], field{"bytes", withHuman(t[2].value.(int64))})
			if t[3].value.(int) > 0 {
				shown = append(shown, t[3], field{"blob bytes", withHuman(t[4].value.(int64))})
			}
			continue
		case "dtypes":
			var all object
			for _, d := range f.value.(object) {
				v := d.value.(object)
				all.set(d.key, text(fmt.Sprintf("%s, %d parameters, %s",
					count(v[0].value.(int64), "tensor"), v[1].value, human(v[2].value.(int64)))))
			}
			f.value = all
		}
		shown = append(shown, f)
	}
	printObject(a, shown, "")
	a.printWarnings(o[len(o)-1].value.([]string))
}

// text is shown to people as it is.
type text string

func withHuman(n int64) text {
	if n < 1024 {
		return text(fmt.Sprintf("%d B", n))
	}
	return text(fmt.Sprintf("%d B (%s)", n, human(n)))
}

func (a *app) printWarnings(warnings []string) {
	for _, w := range warnings {
		fmt.Fprintf(a.out, "%swarning:%s %s\n", a.style(styleWarning), a.style(styleNone), escape(w))
	}
}
