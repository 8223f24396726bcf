package command

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/remote"
	"github.com/tensorfile/tensorfile/tensor"
)

// An invocation is one run of tensorfile: its streams, and the flags that all commands
// share.
type invocation struct {
	ctx      context.Context
	version  string
	args     []string // of the command line
	in       io.Reader
	out      *printer
	stderr   io.Writer
	terminal bool // standard output is a terminal
	stdout   io.Writer
	colour   bool // on standard output
	bars     bool // show progress on standard error

	json       bool
	jsonLines  bool // one line for each file
	quiet      bool
	exact      bool // sizes in tables are exact
	recursive  bool
	strict     bool
	noMap      bool
	format     tensorfile.Format
	dequantize tensor.DType // weights of inputs are of this dtype; Unknown: as stored
	single     bool         // the first shard is a file, not the model
	external   []string
	dtypes     map[string]tensor.DType // of --reinterpret, by the file's names of others
	header     headerFlag
	publicOnly bool
	inFlight   int
	limits     tensor.Limits
	maxInput   int64

	mu        sync.Mutex // held while something is printed
	shown     atomic.Pointer[bar]
	answered  bool        // something was written to standard output, or will be
	stdin     atomic.Bool // standard input has been asked for
	externals []*input
	openers   map[string]func(*remote.Options) (remote.Opener, error)
	stores    stores

	getenv func(string) string
}

// An app is the work of a command on all its files, or on one of them, and its outcome so
// far.
type app struct {
	*invocation
	status  int                                 // the worst exit status
	failed  *errorDocument                      // of the first failure
	matched bool                                // a name passed the filters
	counted []interface{ Stats() remote.Stats } // what was read over the network
	cleanup []func()
}

func newApp(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer,
	getenv func(string) string) *app {
	p := &invocation{
		ctx: ctx, in: stdin, stdout: stdout, stderr: stderr,
		terminal: isTerminal(stdout),
		colour:   isTerminal(stdout) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb",
		bars:     isTerminal(stderr) && getenv("TERM") != "dumb",
		maxInput: 64 << 30,
		getenv:   getenv,
	}
	p.out = &printer{bufio.NewWriterSize(&screen{p, stdout}, 64<<10), p.colour}
	return &app{invocation: p}
}

// fetched returns how many bytes were read over the network.
func (a *app) fetched() (bytes int64) {
	for _, r := range a.counted {
		bytes += r.Stats().Bytes
	}
	return bytes
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (a *invocation) flush() error { return a.out.Flush() }

// width returns how many columns standard output has, 0 for no limit.
func (a *invocation) width() int { return a.widthOf(a.stdout) }

// widthOf returns how many columns a stream has: the variable COLUMNS, or the width of
// its terminal; 0 for no limit.
func (a *invocation) widthOf(w io.Writer) int {
	if n, err := strconv.Atoi(a.getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return terminalWidth(w)
}

// terminalWidth returns how many columns a terminal has; 0 if w is not a terminal.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return n
}

// helpWidth returns how many columns help has: at most 80, which are easy to read.
func (a *invocation) helpWidth() int {
	const readable = 80
	return min(readable, cmp.Or(a.width(), readable))
}

func (a *app) close() {
	for i := len(a.cleanup) - 1; i >= 0; i-- {
		a.cleanup[i]()
	}
}

const longHelp = `tensorfile reads safetensors, GGUF, PyTorch checkpoints, ONNX models, NumPy's
.npy and .npz, ExecuTorch's .pte, .ptd and .ptn, RTen's .rten, zTensor's .zt and the files of
primitiv, and finds the format from the content. A FILE is a file, the directory of a model, a
directory with -r, an https:// or hf:// address, or - for standard input. "tensorfile
FILE" is "tensorfile info FILE".

Exit status: 0 success, 1 something was found (damage, a difference), 2 wrong usage, 3
a file could not be read or written, 4 a limit was exceeded, 130 interrupted, 143
terminated.`

func newRoot(a *app) *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "tensorfile COMMAND",
		Short: "Show, check, compare, edit and convert tensor files",
		Long:  longHelp,
		Example: `  tensorfile model.safetensors
  tensorfile ls --fold model.gguf
  tensorfile diff --tolerance 1e-3 a.zt b.safetensors
  tensorfile convert model.safetensors model.zt`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case version:
				return a.printVersion()
			case len(args) == 0:
				return cmd.Help()
			case a.isInput(args[0]):
				return a.each(args, true, opened(info))
			}
			return a.unknownCommand(cmd, args[0])
		},
		PersistentPreRun:  func(*cobra.Command, []string) { a.json = a.json || a.jsonLines },
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	f := root.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "print JSON (docs/json.md describes every field)")
	f.BoolVar(&a.jsonLines, "jsonl", false, "print JSON, one line for each file")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "print errors and the output of the command only")
	f.BoolVar(&a.exact, "bytes", false, "print sizes in tables in bytes, not in KiB or MiB")
	f.BoolVarP(&a.recursive, "recursive", "r", false, "search directories for tensor files")
	f.BoolVar(&a.strict, "strict", false,
		"refuse every deviation from the specification of the format")
	f.BoolVar(&a.noMap, "no-map", false, "read files instead of mapping them into memory")
	formatFlag(f, &a.format, "format",
		"read the input as a file of `FORMAT`, and do not detect the format")
	a.dtypes = map[string]tensor.DType{}
	chooseEach(f, a.addReinterpret, "reinterpret", nil,
		"`FROM=TO`: read elements of dtype FROM as dtype TO, such as '<V2=bfloat16' for .npy")
	f.StringArrayVarP(&a.external, "external", "d", nil,
		"`FILE` that has the external tensors of a program, such as a .ptd")
	f.Var(&a.header, "header",
		"send `LINE`, such as 'Authorization: Bearer …', with requests to the host of an address")
	a.inFlight = 16
	number(f, &a.inFlight, "in-flight", 1, 1<<12,
		"send up to `N` requests of 8 MiB to a server at once")
	f.BoolVar(&a.publicOnly, "public-only", false, "connect only to public IP addresses")
	a.limitFlags(f)
	root.Flags().BoolVarP(&version, "version", "V", false, "print the version of the program")
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"inspect", "Inspect:", []*cobra.Command{infoCommand(a), lsCommand(a), catCommand(a),
			statsCommand(a), hashCommand(a),
			duCommand(a), graphCommand(a), viewCommand(a), reportCommand(a), detectCommand(a)}},
		{"check", "Check:", []*cobra.Command{verifyCommand(a), checkDirCommand(a),
			diffCommand(a)}},
		{"write", "Write:", []*cobra.Command{convertCommand(a), editCommand(a), splitCommand(a),
			mergeCommand(a), extractCommand(a),
			recoverCommand(a), cleanCommand(a)}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.AddCommand(versionCommand(a), completionCommand(a), manCommand(a), limitsTopic(a))
	for _, c := range root.Commands() {
		if check := c.Args; check != nil && len(c.ValidArgs) == 0 {
			c.Args = func(cmd *cobra.Command, args []string) error {
				if check(cmd, args) == nil {
					return nil
				}
				_, wanted, _ := strings.Cut(cmd.Use, " ")
				err := fmt.Errorf("%s takes %s, not %s", cmd.Name(),
					cmp.Or(wanted, "no arguments"), count(len(args), "argument"))
				if f := cmd.Flags().Lookup("dequantize"); f != nil && f.Changed {
					return wrong("--dequantize=DTYPE, with an equals sign", "%w", err)
				}
				return err
			}
		}
	}
	root.SetUsageFunc(a.usageOf)
	root.SetHelpFunc(a.helpOf)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(&cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command, and about limits",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if len(args) == 1 && (err != nil || len(rest) > 0) {
				for _, known := range root.Commands() { // help limit
					if !known.Hidden && strings.HasPrefix(known.Name(), args[0]) {
						c, rest, err = known, nil, nil
						break
					}
				}
			}
			if err != nil || len(rest) > 0 {
				return a.unknownCommand(root, strings.Join(args, " "))
			}
			return c.Help()
		},
	})
	return root
}

// limitFlags adds the flags --limit-..., which only "help limits" shows.
func (a *app) limitFlags(f *pflag.FlagSet) {
	for _, l := range []struct {
		value       *int64
		name, usage string
	}{
		{&a.limits.MaxMetadata, "metadata", "`SIZE` of the metadata of a file"},
		{&a.limits.MaxTensors, "tensors", "`NUMBER` of tensors, blobs and nodes of a file"},
		{&a.limits.MaxName, "name", "`SIZE` of one name"},
		{&a.limits.MaxRank, "rank", "`NUMBER` of dimensions of a tensor"},
		{&a.limits.MaxDecodedTotal, "decoded-total",
			"`SIZE` that all payloads that a command reads may decode to"},
		{&a.limits.MaxDecoded, "decoded", "`SIZE` that one compressed payload may decode to"},
		{&a.limits.MaxDepth, "depth", "`NUMBER` of levels of nested metadata"},
		{&a.maxInput, "input", "`SIZE` that is read from standard input or over the network"},
	} {
		f.Var((*size)(l.value), "limit-"+l.name, l.usage)
		f.MarkHidden("limit-" + l.name)
	}
}

// limitsTopic returns the help topic on the flags --limit-....
func limitsTopic(a *app) *cobra.Command {
	own := pflag.NewFlagSet("limits", pflag.ContinueOnError)
	a.limitFlags(own)
	own.VisitAll(func(f *pflag.Flag) { f.Hidden = false })
	text := `Every command takes these flags. The default limits are above what valid files
need. Memory is allocated for bytes that a file has, not for sizes that it declares. A size
is a number, with an optional unit: K, M, G, T or KiB, ... for powers of 1024, KB, ... for powers of
1000. If a limit is exceeded, the exit status is 4.

`
	c := &cobra.Command{
		Use:   "limits",
		Short: "The limits on a file, and the flags that change them",
		Long:  text + own.FlagUsages(),
	}
	c.SetHelpFunc(func(c *cobra.Command, args []string) {
		c.Long = text + own.FlagUsagesWrapped(a.helpWidth())
		a.helpOf(c, args)
	})
	return c
}

// isInput reports whether an argument in the place of a command names a file.
func (a *app) isInput(arg string) bool {
	if _, err := os.Stat(arg); err == nil || isAddress(arg) || arg == "-" {
		return true
	}
	return strings.ContainsAny(arg, `./\*`)
}

func (a *app) unknownCommand(root *cobra.Command, name string) error {
	var known []string
	for _, c := range root.Commands() {
		if !c.Hidden {
			known = append(known, c.Name())
		}
	}
	if s := nearest(name, known); s != "" {
		return wrong("tensorfile "+s, "no command, and no file, is named %s", quote(name))
	}
	return wrong("tensorfile --help, which lists the commands",
		"no command, and no file, is named %s", quote(name))
}

// flagError suggests the nearest flag for an unknown flag, and explains in words why a
// value is invalid.
func flagError(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	if errors.As(err, &invalid) && errors.As(err, &number) {
		reason := "is not a number"
		if errors.Is(number, strconv.ErrRange) {
			reason = "is out of range"
		} else if invalid.GetFlag().Value.Type() == "bool" {
			reason = "is neither true nor false"
		}
		return fmt.Errorf("invalid argument %q for %q flag: %q %s", invalid.GetValue(),
			"--"+invalid.GetFlag().Name, number.Num, reason)
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	} else if unknown.GetSpecifiedName() == "v" {
		return wrong("tensorfile -V for the version; no command prints more with -v", "%w", err)
	} else if len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	var known []string
	note := func(f *pflag.Flag) { known = append(known, f.Name) }
	cmd.Flags().VisitAll(note)
	cmd.InheritedFlags().VisitAll(note)
	if s := nearest(unknown.GetSpecifiedName(), known); s != "" {
		return wrong("--"+s, "%w", err)
	}
	return err
}
