// Command tensorfile looks into tensor files of every format that the library
// knows, checks them and turns one into another. README.md shows what it does,
// docs/json.md every field that --json prints.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// The exit statuses. Where several apply, the one that stands later in worse
// wins.
const (
	statusOK          = 0
	statusFound       = 1 // verify found damage, diff found a difference
	statusUsage       = 2
	statusUnreadable  = 3 // missing, not a tensor file, damaged, unsupported
	statusLimit       = 4
	statusInterrupted = 130
)

// worse combines the statuses of several files.
func worse(a, b int) int {
	for _, s := range []int{statusUsage, statusInterrupted, statusLimit, statusUnreadable, statusFound} {
		if a == s || b == s {
			return s
		}
	}
	return statusOK
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), endSignals()...)
	go func() {
		<-ctx.Done()
		stop() // a second signal ends the process at once
		// What only reads need not wind down: give what writes a moment to
		// remove its temporary file.
		time.Sleep(2 * time.Second)
		os.Exit(statusInterrupted)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}

// run is the whole program, for main and for tests.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) int {
	a := newApp(ctx, stdin, stdout, stderr, getenv)
	defer a.close()
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(a.out)
	root.SetErr(stderr)
	// Commands note their failures with a.fail and return nil: what is left is
	// wrong usage.
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		a.completions(root)
	}
	if cmd, err := root.ExecuteContextC(ctx); err != nil {
		try := cmd.CommandPath() + " --help"
		var w wrongUse
		if errors.As(err, &w) {
			try = w.try
		}
		a.message("%v\n  try: %s", err, try)
		return statusUsage
	}
	if a.json && a.failed != nil && !a.answered && a.out.Buffered() == 0 { // every call answers with an object
		w := &jsonWriter{w: a.out}
		w.value(a.failed)
		w.end()
	}
	if err := a.flush(); err != nil {
		a.fail("standard output", err)
	}
	if ctx.Err() != nil {
		return statusInterrupted
	}
	return a.status
}
