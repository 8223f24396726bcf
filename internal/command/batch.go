package command

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tensorfile/tensorfile/remote"
)

// A manyFiles holds the flags of commands that work on many files: each file is a
// run of the command of its own, in this process.
type manyFiles struct {
	app    *app
	cmd    *cobra.Command
	inputs func(args []string) []string // what the arguments stand for

	from   string // --files-from
	jobs   int
	part   string
	ledger string // --resume

	outDir, extension string // of the outputs of convert

	common []string // the arguments of each run but its file
	job    string
	l      *ledger
	mu     sync.Mutex        // of what is printed
	made   map[string]string // files by the names of their outputs
	counts map[int]int       // files by exit status
	again  int               // files that the ledger has
}

// A listedFile is a file of the list, and how the command runs for it.
type listedFile struct {
	listItem
	args  []string
	stdin io.Reader
	err   error // in place of a run
}

// remoteJobs is how many addresses are worked on at once.
const remoteJobs = 16

// listFlags gives a command the flags for lists of files.
func (a *app) listFlags(cmd *cobra.Command, inputs func(args []string) []string) {
	l := &manyFiles{app: a, cmd: cmd, inputs: inputs}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.StringVar(&l.from, "files-from", "",
		"read names and addresses, one a line, from `LIST`, or -")
	number(f, &l.jobs, "jobs", 1, 1<<12,
		"work on `N` files at once (default: processors; 16 addresses)")
	f.StringVar(&l.part, "part", "",
		"only `I/N` of the files; auto/N takes I from the job's index")
	f.StringVar(&l.ledger, "resume", "", "append to `LEDGER`, and skip the files that it has")
	cmd.Flags().AddFlagSet(f)
	run, check := cmd.RunE, cmd.Args
	isUsed := func() (used bool) {
		f.VisitAll(func(flag *pflag.Flag) { used = used || flag.Changed })
		return used
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if isUsed() {
			return nil
		}
		return check(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !isUsed() {
			return run(cmd, args)
		}
		return l.run(args)
	}
}

// run runs the command for each file.
func (l *manyFiles) run(args []string) (err error) {
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
	if err := l.divide(); err != nil {
		return err
	}
	list := io.NopCloser(strings.NewReader(""))
	if l.from != "" {
		if list, err = a.openList(l.from); err != nil {
			return onFile(l.from, err)
		}
		defer list.Close()
	}
	if l.ledger != "" {
		if l.ledger, err = onDisk(l.ledger); err != nil {
			return err
		} else if isSameFile(l.ledger, l.from) {
			return wrong("another file", "--resume: the ledger is the list itself")
		}
		a.json, a.jsonLines = true, true
		if l.l, err = openLedger(l.ledger, l.job); err != nil {
			return onFile(l.ledger, err)
		}
		defer func() { err = cmp.Or(err, onFile(l.ledger, l.l.close())) }()
	}
	here := make(chan struct{}, cmp.Or(l.jobs, runtime.GOMAXPROCS(0)))
	there := make(chan struct{}, cmp.Or(l.jobs, remoteJobs))
	err = inOrder(a.ctx, l.items(args, list, part),
		func(f listedFile) chan struct{} {
			if isAddress(f.File) {
				return there
			}
			return here
		}, l.one, l.finished)
	if a.ctx.Err() != nil {
		return a.ctx.Err()
	}
	if a.json {
		l.summarise()
	}
	return onFile(cmp.Or(l.from, "standard output"), err)
}

// divide separates the flags that each run has from those of the list.
func (l *manyFiles) divide() error {
	a := l.app
	_, rest, err := l.cmd.Root().Find(a.args)
	if err != nil {
		return err
	}
	var results []string // the flags that the result depends on
	l.common = []string{l.cmd.Name()}
	err = l.cmd.Flags().ParseAll(rest, func(f *pflag.Flag, value string) error {
		arg := "--" + f.Name + "=" + value
		switch f.Name {
		case "files-from", "jobs", "part", "resume", "recursive", "json", "jsonl":
			return nil
		case "output":
			l.outDir = value
			return nil
		case "quiet", "header", "no-map", "force", "in-flight":
		default:
			results = append(results, arg)
		}
		l.common = append(l.common, arg)
		return nil
	})
	if err != nil {
		return err
	}
	if l.cmd.Name() == "convert" {
		l.made = map[string]string{}
		to, _, _ := strings.Cut(l.cmd.Flag("to").Value.String(), "@")
		if l.outDir == "" || to == "" {
			return wrong("--to FORMAT -o DIR", "of several files, the format and the directory "+
				"of the outputs are missing")
		}
		format, err := parseFormat(to)
		if err != nil {
			return err
		}
		l.extension = format.Ext()
		if storeScheme(l.outDir) == "" {
			if l.outDir, err = onDisk(l.outDir); err != nil {
				return err
			}
			if err := os.MkdirAll(l.outDir, 0o777); err != nil {
				return onFile(l.outDir, err)
			}
		}
	}
	slices.Sort(results)
	version, _, _ := strings.Cut(a.version, ".")
	l.job = digestOf(append([]string{l.cmd.Name(), version}, results...))
	l.counts = map[int]int{}
	return nil
}

// items are the files of the arguments, and of the list, that belong to the part.
func (l *manyFiles) items(args []string, list io.Reader,
	part listPart) iter.Seq2[listedFile, error] {
	return func(yield func(listedFile, error) bool) {
		for _, name := range l.inputs(args) {
			if part.has(name) && !yield(l.file(listItem{File: name, Size: -1}), nil) {
				return
			}
		}
		for item, err := range listItems(list) {
			if err != nil {
				yield(listedFile{}, err)
				return
			}
			if part.has(item.File) && !yield(l.file(item), nil) {
				return
			}
		}
	}
}

// file finds how the command runs for an item. Of those that share something, the first
// in the list has it.
func (l *manyFiles) file(item listItem) listedFile {
	f := listedFile{listItem: item, stdin: strings.NewReader("")}
	f.args, f.err = l.arguments(item.File)
	switch a := l.app; {
	case f.err != nil || item.File != "-":
	case a.stdin:
		f.err = errStdinTwice
	default:
		a.stdin, f.stdin = true, a.in
	}
	return f
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
		a.stdin = true
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

// identify returns size and version of a file: of one on disk its time of change, of a
// directory a digest of its listing. Of an address they cost a request, where that is
// wanted.
func (a *app) identify(name string, ask bool) (listItem, error) {
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
