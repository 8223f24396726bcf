package command

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// An app is one run of the program: its streams, the flags that all commands
// share, and the worst thing that has happened so far.
type app struct {
	ctx      context.Context
	version  string
	in       io.Reader
	out      *printer
	stderr   io.Writer
	terminal bool // standard output is one
	tty      *os.File
	colour   bool // on it
	bars     bool // progress on standard error

	json       bool
	recursive  bool
	strict     bool
	noMap      bool
	format     string
	external   []string
	header     []string
	publicOnly bool
	limits     tensor.Limits
	maxInput   int64

	shown     atomic.Pointer[bar]
	status    int
	failed    object // of the first failure
	answered  bool   // something went to standard output, or will
	stdin     bool   // standard input has been asked for
	externals []*input
	cleanup   []func()
}

func newApp(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) *app {
	a := &app{
		ctx: ctx, in: stdin, stderr: stderr,
		terminal: isTerminal(stdout),
		colour:   isTerminal(stdout) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb",
		bars:     isTerminal(stderr) && getenv("TERM") != "dumb",
		maxInput: 64 << 30,
	}
	a.tty, _ = stdout.(*os.File)
	a.out = &printer{bufio.NewWriterSize(&screen{a, stdout}, 64<<10), a.colour}
	return a
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (a *app) flush() error { return a.out.Flush() }

func (a *app) close() {
	for i := len(a.cleanup) - 1; i >= 0; i-- {
		a.cleanup[i]()
	}
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "tensorfile COMMAND",
		Short: "Look into tensor files, check them, turn one into another",
		Long: `tensorfile reads .ptd and .pte of ExecuTorch, .rten, zTensor's .zt and the files of
primitiv, and finds the format from the content. A FILE is a file, a directory of a model, a directory
with -r, an https:// address, or - for standard input.

Exit status: 0 all well, 1 something was found (damage, a difference), 2 wrong usage,
3 a file could not be read, 4 a limit was hit, 130 interrupted.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return errors.New("which command?")
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetHelpCommand(&cobra.Command{Hidden: true, Use: "no-help"})
	f := root.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "print JSON (docs/json.md describes every field)")
	f.BoolVarP(&a.recursive, "recursive", "r", false, "look for tensor files in folders")
	f.BoolVar(&a.strict, "strict", false, "refuse every departure from the format's document")
	f.BoolVar(&a.noMap, "no-map", false, "read files instead of mapping them into memory")
	f.StringVar(&a.format, "format", "", "take the input for a file of `FORMAT`, whatever it looks like")
	f.StringArrayVarP(&a.external, "external", "d", nil, "tensors that a program keeps elsewhere are in `FILE`")
	f.StringArrayVar(&a.header, "header", nil, "send `LINE` with requests to the host of an address")
	f.BoolVar(&a.publicOnly, "public-only", false, "connect only to public addresses, never to this machine or private networks")
	sizeVar(root, &a.limits.MaxMetadata, "limit-metadata", "`SIZE` of the metadata of a file")
	sizeVar(root, &a.limits.MaxTensors, "limit-tensors", "`NUMBER` of tensors, blobs and nodes of a file")
	sizeVar(root, &a.limits.MaxName, "limit-name", "`SIZE` of one name")
	sizeVar(root, &a.limits.MaxRank, "limit-rank", "`NUMBER` of dimensions of a tensor")
	sizeVar(root, &a.limits.MaxDecodedTotal, "limit-decoded-total", "`SIZE` that all payloads that a command reads may decode to")
	sizeVar(root, &a.limits.MaxDecoded, "limit-decoded", "`SIZE` that one compressed payload may decode to")
	sizeVar(root, &a.limits.MaxDepth, "limit-depth", "`NUMBER` of levels of nested metadata")
	sizeVar(root, &a.maxInput, "limit-input", "`SIZE` that is read from standard input or over the network")
	root.AddCommand(
		detectCommand(a),
		infoCommand(a),
		lsCommand(a),
		catCommand(a),
		statsCommand(a),
		hashCommand(a),
		verifyCommand(a),
		checkDirCommand(a),
		diffCommand(a),
		convertCommand(a),
		editCommand(a),
		splitCommand(a),
		mergeCommand(a),
		recoverCommand(a),
		extractCommand(a),
		cleanCommand(a),
		duCommand(a),
		graphCommand(a),
		reportCommand(a),
		versionCommand(a),
		completionCommand(a),
		manCommand(a),
	)
	for _, c := range root.Commands() {
		if check := c.Args; len(c.ValidArgs) == 0 {
			c.Args = func(cmd *cobra.Command, args []string) error {
				if check(cmd, args) == nil {
					return nil
				}
				_, wanted, _ := strings.Cut(cmd.Use, " ")
				return fmt.Errorf("%s wants %s, and got %s", cmd.Name(), cmp.Or(wanted, "nothing"), count(len(args), "argument"))
			}
		}
	}
	return root
}

// A wrongUse is wrong usage of which more is known than cobra says.
type wrongUse struct {
	error
	try string
}

func wrong(try, format string, args ...any) error {
	return wrongUse{fmt.Errorf(format, args...), try}
}

// An advised error is one of which is known what to try, whatever its class.
type advised struct {
	error
	try string
}

func (e advised) Unwrap() error { return e.error }

func advise(try string, err error) error { return advised{err, try} }

// refuse is fail for a file that is sound where it is the question that is wrong.
func (a *app) refuse(name string, err error) error {
	var w wrongUse
	if errors.As(err, &w) {
		return wrongUse{fmt.Errorf("%s: %w", display(name), w.error), w.try}
	}
	a.fail(name, err)
	return nil
}

// fail reports that a file could not be read, or written, and notes the exit
// status.
func (a *app) fail(name string, err error) {
	var w *atomicfile.Error
	if errors.As(err, &w) {
		name, err = w.Name, w.Err
	}
	a.status = worse(a.status, statusOf(err))
	if a.failed == nil {
		a.failed = errorObject(name, err)
	}
	if a.ctx.Err() != nil && errors.Is(err, a.ctx.Err()) {
		a.message("%s: interrupted", display(name))
		return
	}
	h := hint(err)
	f := tensorfile.ByName(name)
	switch {
	case w != nil && errors.Is(err, fs.ErrPermission):
		h = "check who may write there"
	case w != nil && errors.Is(err, fs.ErrNotExist):
		h = "check that the folder is there"
	case w != nil && h == "":
		h = "another name or folder"
	case isAddress(name):
		h = remoteHint(err)
	case f != 0 && errors.Is(err, tensorfile.ErrUnknownFormat):
		// Where formats have no mark at their start, what is damaged looks like nothing at all.
		h = fmt.Sprintf("--format %v, as the name has it, to hear what is wrong", f)
	}
	if h != "" {
		a.message("%s: %v\n  try: %s", display(name), err, h)
		return
	}
	a.message("%s: %v", display(name), err)
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return statusInterrupted
	case errors.Is(err, tensor.ErrLimit):
		return statusLimit
	}
	return statusUnreadable
}

// hint says what to try.
func hint(err error) string {
	var pe *fs.PathError
	var le *convert.LossError
	var known advised
	switch {
	case errors.As(err, &known):
		return known.try
	case errors.As(err, &le):
		return "leaving out what cannot be kept"
	case errors.Is(err, errFolder):
		return "-r to look at the files in it"
	case errors.Is(err, fs.ErrExist):
		return "another name, or --force"
	case errors.Is(err, fs.ErrNotExist):
		return "check the name and the folder"
	case errors.Is(err, fs.ErrPermission):
		return "check who may read the file"
	case errors.Is(err, tensorfile.ErrUnknownFormat):
		return "--format FORMAT if you know what it is (tensorfile version lists the formats)"
	case errors.As(err, &pe), outside(err):
		return ""
	}
	switch tensor.ClassOf(err) {
	case tensor.ClassLimit:
		return "a larger --limit-… (tensorfile --help lists them) if you trust the file"
	case tensor.ClassChecksum:
		return "fetching the file again: bytes have changed since it was written"
	case tensor.ClassTruncated:
		return "fetching the file again: it ends early"
	case tensor.ClassUnsupported:
		return "tensorfile version, which lists what this program reads and writes"
	}
	return "tensorfile verify, which lists everything that is wrong; fetching the file again"
}

// outside tells an error whose reason is not in a file, but in the system or the
// network.
func outside(err error) bool {
	return tensor.ClassOf(err) == tensor.ClassIO
}
