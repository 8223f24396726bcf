package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/onnx"
	"github.com/tensorfile/tensorfile/remote"
)

// A document is what a command makes of one input: a struct with JSON tags, which
// docs/json.md describes, and which prints itself as text.
type document interface {
	print(a *app)
	extra() *outcome
}

// An outcome is what every document has in addition.
type outcome struct {
	status int // the exit status, unless an error has a worse one
	*listFields
}

func (o *outcome) extra() *outcome { return o }

// listFields are what the JSON of a file of a list has in addition.
type listFields struct {
	Address string    `json:"address"`
	Size    knownSize `json:"size,omitzero"`
	ETag    string    `json:"etag,omitempty"`
	Exit    int       `json:"exit"`
	Seconds float64   `json:"seconds"`
	Fetched int64     `json:"read_bytes"`
	Job     string    `json:"job,omitempty"`
}

// A work makes the document of one input. A document next to an error is printed too.
type work func(a *app, name string) (document, error)

// manyFiles are the inputs of a command: the files of its arguments and, where it has the
// flags for lists, of a list.
type manyFiles struct {
	*app
	cmd     *cobra.Command
	inputs  func(args []string) []string // what the arguments stand for
	heading bool                         // before the text of each of several
	output  func(name string) string     // of convert: where the output of an input goes

	flags  *pflag.FlagSet // nil: none for lists
	from   string         // --files-from
	jobs   int
	part   string
	resume string

	job    string // of the ledger: what its lines have in common
	ledger *ledger
	counts map[int]int // files by exit status
	again  int         // files that the ledger has
	shown  int         // documents
	isMany bool
}

// A listedFile is a file of the list, or why it is not tried.
type listedFile struct {
	listItem
	err error
}

// A result is what became of one input.
type result struct {
	document        // nil where there is nothing to print
	name     string // of the input
	status   int
	again    bool
	matched  bool
	end      error // of the whole command
}

// remoteJobs is how many addresses are worked on at once.
const remoteJobs = 16

// many gives a command the flags for lists of files.
func (a *app) many(cmd *cobra.Command, inputs func(args []string) []string,
	heading bool) *manyFiles {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	l := &manyFiles{app: a, cmd: cmd, inputs: inputs, heading: heading, flags: f}
	f.StringVar(&l.from, "files-from", "",
		"read names and addresses, one a line, from `LIST`, or -")
	number(f, &l.jobs, "jobs", 1, 1<<12,
		"work on `N` files at once (default: processors; 16 addresses)")
	f.StringVar(&l.part, "part", "",
		"only `I/N` of the files; auto/N takes I from the job's index")
	f.StringVar(&l.resume, "resume", "", "append to `LEDGER`, and skip the files that it has")
	cmd.Flags().AddFlagSet(f)
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if l.isList() {
			return nil
		}
		return check(cmd, args)
	}
	return l
}

// isList reports whether a flag for lists is given.
func (l *manyFiles) isList() (given bool) {
	if l.flags != nil {
		l.flags.VisitAll(func(f *pflag.Flag) { given = given || f.Changed })
	}
	return given
}

// each does work for every input that the arguments of a command without lists stand
// for.
func (a *app) each(args []string, heading bool, do work) error {
	return (&manyFiles{app: a, inputs: a.inputs, heading: heading}).run(args, do)
}

// opened is the work on an open file.
func opened(do func(a *app, in *input) (document, error)) work {
	return func(a *app, name string) (document, error) {
		in, err := a.open(name)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		return do(a, in)
	}
}

// run does work for every input and prints the documents: one JSON object, {"files":
// […]} where there may be more than one, or lines; as text each under its name.
func (l *manyFiles) run(args []string, do work) error {
	a := l.app
	if l.isList() {
		return l.runList(args, do)
	}
	if err := a.openExternals(); err != nil {
		return err
	}
	names := l.inputs(args)
	if len(names) == 0 && a.status == statusOK && a.ctx.Err() == nil {
		return wrong("a directory that has some, or a file", "no tensor files in %s",
			strings.Join(args, ", "))
	}
	l.isMany = len(args) != 1 || len(names) > 1 || a.recursive
	isObject := a.json && l.isMany && !a.jsonLines
	if isObject {
		a.out.WriteString("{\n  \"files\": [")
	}
	for _, name := range names {
		if a.ctx.Err() != nil {
			break
		}
		if err := l.finish(l.one(listedFile{listItem: listItem{File: name}}, do)); err != nil {
			return err
		}
	}
	if isObject {
		if l.shown > 0 {
			a.out.WriteString("\n  ")
		}
		a.out.WriteString("]\n}\n")
	}
	return nil
}

// runList does work for every input of a list, several at once. Lines of JSON are printed
// when they are complete, text in the order of the list.
func (l *manyFiles) runList(args []string, do work) (err error) {
	a := l.app
	if a.json && !a.jsonLines {
		return wrong("--jsonl", "--json is one object for a single run")
	}
	part := listPart{}
	if l.part != "" {
		if part, err = parsePart(l.part, a.getenv); err != nil {
			return wrong("--part 1/4", "--part: %w", err)
		}
	}
	if l.from == "" && len(args) == 0 {
		return wrong(l.cmd.CommandPath()+" --files-from LIST", "no files are named")
	}
	list := io.NopCloser(strings.NewReader(""))
	if l.from != "" {
		if list, err = a.openList(l.from); err != nil {
			return onFile(l.from, err)
		}
		defer list.Close()
	}
	if l.resume != "" {
		if l.resume, err = onDisk(l.resume); err != nil {
			return err
		} else if isSameFile(l.resume, l.from) {
			return wrong("another file", "--resume: the ledger is the list itself")
		}
		if err := l.setJob(); err != nil {
			return err
		}
		a.json, a.jsonLines = true, true
		if l.ledger, err = openLedger(l.resume, l.job); err != nil {
			return onFile(l.resume, err)
		}
		defer func() { err = cmp.Or(err, onFile(l.resume, l.ledger.close())) }()
	}
	if err := a.openExternals(); err != nil {
		return err
	}
	a.bars, l.isMany, l.counts = false, true, map[int]int{}
	localSlots := make(chan struct{}, cmp.Or(l.jobs, runtime.GOMAXPROCS(0)))
	remoteSlots := make(chan struct{}, cmp.Or(l.jobs, remoteJobs))
	err = inOrder(a.ctx, l.files(args, list, part),
		func(f listedFile) chan struct{} {
			if isAddress(f.File) {
				return remoteSlots
			}
			return localSlots
		}, func(f listedFile) result { return l.one(f, do) }, l.finish)
	if a.ctx.Err() != nil {
		return a.ctx.Err()
	}
	if a.json {
		l.summarise()
	}
	return onFile(cmp.Or(l.from, "standard output"), err)
}

// setJob finds what identifies the work: the command, and the flags that its result
// depends on.
func (l *manyFiles) setJob() error {
	_, rest, err := l.cmd.Root().Find(l.args)
	if err != nil {
		return err
	}
	var results []string
	err = l.cmd.Flags().ParseAll(rest, func(f *pflag.Flag, value string) error {
		if !slices.Contains([]string{"files-from", "jobs", "part", "resume", "recursive", "json",
			"jsonl", "output", "sarif", "quiet", "header", "no-map", "force",
			"in-flight"}, f.Name) {
			results = append(results, "--"+f.Name+"="+value)
		}
		return nil
	})
	slices.Sort(results)
	version, _, _ := strings.Cut(l.version, ".")
	l.job = digestOf(append([]string{l.cmd.Name(), version}, results...))
	return err
}

// files are the files of the arguments, and of the list, that belong to the part. Among
// those that share standard input, or the name of an output, the first in the list has
// it.
func (l *manyFiles) files(args []string, list io.Reader,
	part listPart) iter.Seq2[listedFile, error] {
	var stdin bool
	made := map[string]string{} // inputs by the names of their outputs
	file := func(item listItem) listedFile {
		f := listedFile{listItem: item}
		if item.File == "-" && stdin {
			f.err = errStdinTwice
		}
		stdin = stdin || item.File == "-"
		if l.output == nil {
			return f
		}
		out := l.output(item.File)
		if other, ok := made[out]; ok {
			f.err = fmt.Errorf("its output has the same name as the output of %s",
				quote(other))
		} else {
			made[out] = item.File
		}
		return f
	}
	return func(yield func(listedFile, error) bool) {
		for _, name := range l.inputs(args) {
			if part.has(name) && !yield(file(listItem{File: name, Size: -1}), nil) {
				return
			}
		}
		for item, err := range listItems(list) {
			if err != nil {
				yield(listedFile{}, err)
				return
			}
			if part.has(item.File) && !yield(file(item), nil) {
				return
			}
		}
	}
}

// one works on one input.
func (l *manyFiles) one(f listedFile, do work) (r result) {
	r.name = f.File
	if l.isList() {
		if f.Size < 0 || f.ETag == "" {
			if known, err := l.identify(f.File, l.ledger != nil); err == nil {
				f.listItem = known
			}
		}
		if l.ledger != nil && f.ETag != "" {
			if r.status, r.again = l.ledger.find(f.listItem); r.again {
				return r
			}
		}
	}
	a := &app{invocation: l.invocation}
	defer a.close()
	begin := time.Now()
	err := f.err
	if err == nil {
		r.document, err = do(a, f.File)
	}
	switch {
	case l.isList() && a.ctx.Err() != nil:
		r.document = nil
		return r
	case !l.isList() && errors.As(err, new(usageError)):
		r.end = onFile(f.File, err)
		return r
	}
	a.finish(l.cmd, onFile(f.File, err))
	if err != nil && r.document == nil && a.json {
		r.document = errorOf(f.File, err)
		if f.err != nil {
			r.document = &errorDocument{File: f.File, Error: f.err.Error(), Offset: -1}
		}
	}
	r.matched, r.status = a.matched, a.status
	if r.document == nil {
		return r
	}
	r.status = worse(r.status, r.extra().status)
	if l.isList() && a.json {
		r.extra().listFields = &listFields{f.File, knownSize(f.Size), f.ETag, r.status,
			float64(time.Since(begin).Milliseconds()) / 1e3, a.fetched(), l.job}
		r.end = l.printLine(r.document)
		r.document = nil
	}
	return r
}

// printLine writes the line of a document into the ledger, or prints it.
func (l *manyFiles) printLine(d document) error {
	if l.ledger != nil {
		line, err := marshal(d)
		if err != nil {
			return err
		}
		return l.ledger.add(appendJSON(nil, line, oneLine))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(l.printJSON(d), l.flush())
}

// finish counts the result of an input, and prints its document in its turn.
func (l *manyFiles) finish(r result) error {
	a := l.app
	a.status = worse(a.status, r.status)
	a.matched = a.matched || r.matched
	if l.counts != nil {
		l.counts[r.status]++
	}
	if r.again {
		l.again++
	}
	if r.end != nil || r.document == nil {
		return r.end
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	l.shown++
	switch {
	case a.json && l.isMany && !a.jsonLines:
		if l.shown > 1 {
			a.out.WriteString(",")
		}
		text, err := marshal(r.document)
		if err == nil {
			_, err = a.out.Write(appendJSON([]byte("\n    "), text, 4))
		}
		return err
	case a.json:
		return a.printJSON(r.document)
	case l.heading && l.isMany && !a.quiet:
		if l.shown > 1 {
			a.out.WriteByte('\n')
		}
		fmt.Fprintf(a.out, "%s%s:%s\n", a.style(styleHead), display(r.name), a.style(styleNone))
	}
	r.print(a)
	return nil
}

// show prints a document of a command without lists, and notes its status.
func (a *app) show(d document, err error) error {
	if d == nil {
		return err
	}
	a.status = worse(a.status, d.extra().status)
	if !a.json {
		d.print(a)
		return err
	}
	return cmp.Or(err, a.printJSON(d))
}

// summarise prints on standard error what became of all files.
func (l *manyFiles) summarise() {
	n := 0
	for _, c := range l.counts {
		n += c
	}
	parts := []string{count(n, "file"), fmt.Sprint(l.counts[statusOK], " ok")}
	for _, s := range []struct {
		status int
		what   string
	}{{statusFound, "with findings"}, {statusUsage, "refused"}, {statusUnreadable, "not read"},
		{statusLimit, "over a limit"}} {
		if l.counts[s.status] > 0 {
			parts = append(parts, fmt.Sprint(l.counts[s.status], " ", s.what))
		}
	}
	if l.again > 0 {
		parts = append(parts, fmt.Sprint(l.again, " done before"))
	}
	l.message("%s", strings.Join(parts, ", "))
}

func isSameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// openList opens a list: a file, an address, or standard input.
func (a *app) openList(name string) (io.ReadCloser, error) {
	switch {
	case name == "-":
		a.stdin.Store(true)
		return io.NopCloser(a.in), nil
	case isAddress(name):
		r, size, err := a.openAddress(name)
		if err != nil {
			return nil, err
		}
		section := io.NewSectionReader(r, 0, size)
		if c, ok := r.(io.Closer); ok {
			return struct {
				io.Reader
				io.Closer
			}{section, c}, nil
		}
		return io.NopCloser(section), nil
	}
	name, err := localName(name)
	if err != nil {
		return nil, err
	}
	return os.Open(name)
}

// identify returns size and version of a file: of one on disk its time of change; of a
// directory, or of a file with the files that it names, a digest of the listing. For an
// address they cost a request for each file, where that is wanted.
func (a *app) identify(name string, ask bool) (listItem, error) {
	var names []string
	if !a.recursive { // which lists each shard
		names = shardNames(name)
	}
	if ask && len(names) == 0 {
		names = a.withNamedFiles(name)
	}
	if len(names) == 0 {
		return a.identifyFile(name, ask)
	}
	all := listItem{File: name}
	var shards []string
	for i, name := range names {
		shard, err := a.identifyFile(name, ask)
		if i > 0 && errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil || shard.ETag == "" {
			return listItem{File: name, Size: -1}, err
		}
		all.Size += shard.Size
		shards = append(shards, fmt.Sprint(shard.File, " ", shard.Size, " ", shard.ETag))
	}
	all.ETag = "listing:" + digestOf(shards)
	return all, nil
}

// withNamedFiles returns the name of a file on disk and the names of the files that it
// names: shards of an index or a root, external data. It is nil for any other file.
func (a *app) withNamedFiles(name string) (names []string) {
	ext := filepath.Ext(name)
	if !slices.Contains([]string{".json", tensorfile.ZTensor.Ext(), tensorfile.ONNX.Ext()}, ext) {
		return nil
	}
	name, err := localName(name)
	if err != nil || isAddress(name) {
		return nil
	}
	f, err := tensorfile.Open(name, a.options())
	if err != nil {
		return nil // which will be said of the file itself
	}
	defer f.Close()
	names = []string{name}
	for _, shard := range inspect.Shards(f) {
		names = append(names, filepath.Join(filepath.Dir(name), filepath.FromSlash(shard)))
		if f.Format() == tensorfile.ZTensor { // next to its root, and named after it
			names = append(names, strings.TrimSuffix(name, ext)+"-"+shard+ext)
		}
	}
	if r, ok := f.Sys().(*onnx.Reader); ok {
		for _, d := range r.DataFiles() {
			names = append(names, filepath.Join(filepath.Dir(name), filepath.FromSlash(d.Name)))
		}
	}
	if len(names) == 1 {
		return nil
	}
	return names
}

func (a *app) identifyFile(name string, ask bool) (listItem, error) {
	item := listItem{File: name, Size: -1}
	switch {
	case name == "-":
	case !isAddress(name):
		name, err := localName(name)
		if err != nil {
			return item, err
		}
		item.Size, item.ETag, err = identityOf(name)
		return item, err
	case !ask:
	case storeScheme(name) != "":
		store, err := a.store(name)
		if err != nil {
			return item, err
		}
		var objects []string // below a prefix
		for e, err := range store.List(a.ctx, name) {
			if err != nil {
				return item, err
			}
			if e.Address == name {
				item.Size, item.ETag = e.Size, e.ETag
				break
			}
			if strings.HasSuffix(name, "/") {
				item.Size = max(item.Size, 0) + e.Size
				objects = append(objects, fmt.Sprintf("%s %d %s", e.Address, e.Size, e.ETag))
			}
		}
		if objects != nil {
			item.ETag = "listing:" + digestOf(objects)
		}
	default:
		o, err := a.remoteOptions(name)
		if err != nil {
			return item, err
		}
		r, err := remote.Open(a.ctx, name, o)
		if err != nil {
			return item, err
		}
		item.Size, item.ETag = r.Size(), r.Version()
		return item, r.Close()
	}
	return item, nil
}
