package command

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/model"
	"github.com/tensorfile/tensorfile/remote"
	"github.com/tensorfile/tensorfile/tensor"
)

func checkDirCommand(a *app) *cobra.Command {
	var o model.CheckOptions
	var manifest string
	cmd := &cobra.Command{
		Use:   "check DIR|hf://ORG/NAME[@REVISION][/PATH]...",
		Short: "Check that a directory holds a whole model: shards, index, links",
		Long: `Check that a directory holds a whole model, and list everything that is
wrong: missing or truncated shards, an index that does not match its shards, links to
missing files. DIR is a directory, a snapshot or a repository (with @REVISION) in Hugging
Face's cache, or a repository on the Hub, hf://ORG/NAME, from which only the needed bytes
are fetched.

Names, links, indexes and headers are read. --deep reads every byte, and compares digests
with the names of files in Hugging Face's cache and with --manifest. --values looks for
NaN, infinities and tensors whose elements are all equal. -r checks each directory below
DIR that holds weights. The exit status is 1 if there is an error, or with --strict a
warning; 3 if a file could not be read; 4 if a limit was exceeded. docs/check.md lists the
codes.`,
		Example: `  tensorfile check models/llama
  tensorfile check --deep -r models`,
		Args: cobra.MinimumNArgs(1),
	}
	many, log := a.many(cmd, a.models, false), a.sarif(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		isDeep := o.Deep
		if manifest != "" {
			b, err := readLimited(manifest, maxManifest)
			if err != nil {
				return onFile(manifest, err)
			}
			o.Manifest, isDeep = b, o.Deep || !cmd.Flags().Changed("deep")
		}
		return log.run(many, args, func(a *app, name string) (document, error) {
			o := o
			if !remote.IsHub(name) { // the Hub gives digests without reading
				o.Deep = isDeep
			}
			return a.check(name, o)
		})
	}
	f := cmd.Flags()
	f.BoolVar(&o.Deep, "deep", false, "read every byte, and compare digests")
	f.BoolVar(&o.Values, "values", false,
		"look for NaN, infinities, and tensors whose elements are all equal")
	f.StringVar(&manifest, "manifest", "", "compare with `FILE`, a list of files and digests "+
		"by sha256sum or from the API of Hugging Face's Hub; implies --deep, except for hf://, "+
		"which gives the digests")
	return cmd
}

// maxManifest is the largest size of a manifest in bytes.
const maxManifest = 1 << 30

// models returns the directories to check: the arguments, or with -r the directories
// below them that hold weights.
func (a *app) models(args []string) []string {
	if !a.recursive {
		return args
	}
	var names []string
	for _, arg := range args {
		if isListable(arg) {
			names = append(names, arg)
			continue
		}
		below, err := model.Find(os.DirFS(arg), ".")
		if err != nil {
			a.fail(arg, err)
		}
		for _, name := range below {
			names = append(names, filepath.Join(arg, filepath.FromSlash(name)))
		}
	}
	return names
}

// A checkedDirectory is check --json.
type checkedDirectory struct {
	File string `json:"file"`
	*model.Report
	outcome
	dir  string
	from string // the directory that names of files are relative to, if it is not File
}

func (a *app) check(name string, o model.CheckOptions) (document, error) {
	revision := ""
	dir, err := localName(name)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(dir); !isAddress(name) && errors.Is(err, fs.ErrNotExist) {
		if i := strings.LastIndexByte(dir, '@'); i > 0 {
			dir, revision = dir[:i], dir[i+1:]
		}
	}
	m, isOpen, err := a.checkedShards(name)
	switch {
	case isOpen:
	case isListable(name):
		m, err = a.openRemoteModel(name)
	case isWeb(name):
		err = advise("tensorfile verify, which checks a file",
			errors.New("neither a directory nor the first shard of a .gguf"))
	default:
		m, err = model.Open(dir,
			&model.Options{Revision: revision, Limits: a.limits, NoMap: a.noMap})
	}
	if info, e := os.Stat(dir); err != nil && e == nil && info.Mode().IsRegular() {
		err = advise("tensorfile verify, which checks a file", err)
	}
	if err != nil {
		return nil, err
	}
	defer m.Close()
	var end func()
	o.Progress, end = a.progress(name)
	report, err := m.Check(a.ctx, &o)
	end()
	if report == nil {
		return nil, err
	}
	d := &checkedDirectory{File: name, Report: report, dir: withoutSecrets(dir)}
	switch {
	case isOpen:
		d.from = strings.TrimSuffix(name, baseName(name))
	case !isAddress(name):
		d.from = m.Dir()
	}
	for _, f := range report.Findings {
		switch {
		case f.Severity == tensor.SeverityNote, f.Severity != tensor.SeverityError && !a.strict:
		case f.Code == model.Limit:
			d.status = worse(d.status, statusLimit)
		case f.Code == model.Unreadable:
			d.status = worse(d.status, statusUnreadable)
		default:
			d.status = worse(d.status, statusFound)
		}
	}
	return d, nil
}

// rows returns the findings as rows of verify. A finding about a tensor without a field
// gets the tensor as its field; a finding without a file gets the directory.
func (d *checkedDirectory) rows() (all []findingRow) {
	for _, f := range d.Report.Findings {
		row := findingRow{f.Severity.String(), string(f.Class()), string(f.Code),
			cmp.Or(f.File, "."), knownSize(f.Offset), cmp.Or(f.Field, f.Tensor), describe(f.Err)}
		if f.Tensor != "" {
			row.Message = escape(f.Tensor) + ": " + row.Message
		}
		all = append(all, row)
	}
	return all
}

// maxDTypes is how many dtypes a line shows.
const maxDTypes = 3

func (d *checkedDirectory) print(a *app) {
	r := d.Report
	if a.quiet && r.OK && !(a.strict && len(r.Findings) > 0) {
		return
	}
	line := display(d.dir).word()
	if r.Commit != "" {
		line += "@" + escape(r.Commit[:min(7, len(r.Commit))])
	}
	line += ": " + count(r.Shards, "shard") + ", " + count(r.Tensors, "tensor") + ", " +
		countInWords(r.Parameters, "parameter") + ", " + human(r.Bytes)
	dtypes := slices.SortedFunc(maps.Keys(r.DTypes), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.DTypes[b].Bytes, r.DTypes[a].Bytes), cmp.Compare(a, b))
	})
	if n := len(dtypes) - maxDTypes; n > 0 {
		dtypes = append(dtypes[:maxDTypes], fmt.Sprintf("%d more", n))
	}
	if len(dtypes) > 0 {
		line += " of " + visible(strings.Join(dtypes, ", "))
	}
	switch {
	case r.Deep:
		line += "; " + count(r.Read.Hashed, "file") + " hashed"
	case !r.Values:
		line += "; headers only"
	}
	a.printLine(line)
	t, rows := newTable("", "", "", ""), d.rows()
	for _, f := range rows {
		if !a.quiet || a.strict || f.Severity == tensor.SeverityError.String() {
			t.add(f.Severity, escape(f.File), f.Code, visible(f.Message))
		}
	}
	t.print(a)
	all, n := countFindings(rows)
	if n[tensor.SeverityError.String()]+n[tensor.SeverityWarning.String()] == 0 {
		all = slices.Insert(all, 0, "ok")
	}
	fmt.Fprintln(a.out, strings.Join(all, ", "))
}
