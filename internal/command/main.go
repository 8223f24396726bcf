// Package command is the program tensorfile as a function that main packages call. It
// turns flags into calls of the library, and their results into text or JSON.
package command

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/remote"
)

// The exit statuses. If several apply, worse returns the one that counts.
const (
	statusOK          = 0
	statusFound       = 1 // verify found damage, diff found a difference
	statusUsage       = 2
	statusUnreadable  = 3 // missing, not a tensor file, damaged, unsupported
	statusLimit       = 4
	statusInterrupted = 130
)

// worse returns the more important of two exit statuses.
func worse(a, b int) int {
	for _, s := range []int{statusUsage, statusInterrupted, statusLimit, statusUnreadable,
		statusFound} {
		if a == s || b == s {
			return s
		}
	}
	return statusOK
}

// Options are what a main package adds to the program. nil means the zero value.
type Options struct {
	Version string // of the program; "" is the module's
	// Openers open addresses of object stores, by scheme: s3, gs, az.
	Openers map[string]func(*remote.Options) (remote.Opener, error)
}

// Main runs the program with the arguments and streams of the process, and returns its
// exit status. After a second signal it does not return.
func Main(o *Options) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals, ended := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, endSignals()...)
	defer signal.Stop(signals)
	var interrupted atomic.Int64
	go func() {
		select {
		case <-ended:
			return
		case s := <-signals:
			interrupted.Store(int64(statusOfSignal(s)))
		}
		signal.Stop(signals) // a second signal ends the process at once
		cancel()
		// Work that does not check its context may not end. Writers get the time to
		// remove temporary files, or to abort an upload to a store (ten seconds).
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			os.Exit(int(interrupted.Load()))
		}
	}()
	status := o.run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)
	close(ended)
	if s := interrupted.Load(); s != 0 && status == statusInterrupted {
		return int(s)
	}
	return status
}

// run is the whole program, for Main and for tests.
func (o *Options) run(ctx context.Context, args []string, stdin io.Reader, stdout,
	stderr io.Writer, getenv func(string) string) int {
	if o == nil {
		o = &Options{}
	}
	return newApp(ctx, stdin, stdout, stderr, getenv).run(o, args)
}

// run runs a command.
func (a *app) run(o *Options, args []string) int {
	a.version, a.openers, a.args = programVersion(o.Version), o.Openers, args
	defer a.close()
	root := newRoot(a)
	if len(args) == 1 && args[0] == "-v" {
		args = []string{"-V"}
	}
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.stderr)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		a.addCompletions(root)
	}
	cmd, err := root.ExecuteContextC(a.ctx)
	a.finish(cmd, err)
	if a.status == statusUsage {
		a.flush()
		return a.status
	}
	if a.json && a.failed != nil && !a.answered &&
		a.out.Buffered() == 0 { // with --json every run prints an object
		a.printJSON(a.failed)
	}
	if err := a.flush(); err != nil {
		a.fail("standard output", err)
	}
	if a.ctx.Err() != nil {
		return statusInterrupted
	}
	return a.status
}
