package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/readtest"
)

// noFile are the commands that read no tensor file, and view, which serves what report
// has and does not end.
var noFile = []string{"completion", "help", "man", "version", "view"}

// ofLists are the flags of lists, each of whose files is a run of the command without
// them.
var ofLists = []string{"files-from", "jobs", "part", "resume"}

func TestMutantsRunEveryCommandFlagAndTarget(t *testing.T) {
	used := map[string]bool{}
	for _, line := range mutantCommands {
		words := strings.Fields(line)
		for _, word := range words {
			used[words[0]+" "+word] = true
		}
	}
	for _, f := range tensorfile.Formats() {
		to := "--to " + f.String()
		if len(f.Caps().DTypes) > 0 && !strings.Contains(strings.Join(mutantCommands, "\n"), to) {
			t.Errorf("no mutant goes through convert %s", to)
		}
	}
	a := newApp(t.Context(), nil, nil, nil, func(string) string { return "" })
	for _, c := range newRoot(a).Commands() {
		if !c.Runnable() || slices.Contains(noFile, c.Name()) {
			continue
		}
		for _, name := range append(c.Aliases, c.Name()) {
			if !used[name+" "+name] {
				t.Errorf("no mutant goes through %s", name)
			}
		}
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if slices.Contains(ofLists, f.Name) {
				return
			}
			if !used[c.Name()+" --"+f.Name] && !used[c.Name()+" -"+f.Shorthand] {
				t.Errorf("no mutant goes through %s --%s", c.Name(), f.Name)
			}
		})
	}
}

// For any damage to a file, each command ends soon, with a status that is
// documented and, where it is asked, with JSON.
func TestMutantsAreReadOrRefused(t *testing.T) {
	seeds := allSeeds(t)
	var names []string
	var files [][]byte
	for _, s := range seeds {
		names, files = append(names, s.name), append(files, s.data)
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	readtest.Mutants(t, names, files, 2000, func(n, i int, b []byte) error {
		seeds[i].write(t, in, b)
		if err := errors.Join(os.RemoveAll(out), os.Mkdir(out, 0o700)); err != nil {
			t.Fatal(err)
		}
		args := seeds[i].commandLine(t, mutantCommands[n%len(mutantCommands)], in, out)
		asJSON := args[0] != "cat" && n/len(mutantCommands)%3 > 0
		if asJSON {
			args = append(args, "--json")
		}
		ctx, cancel := t.Context(), func() {}
		var stuck <-chan time.Time
		if readtest.Measuring() { // elsewhere the time limit of go test finds what never ends
			ctx, cancel = context.WithTimeout(ctx, time.Minute)
			stuck = time.After(2 * time.Minute)
		}
		defer cancel()
		var stdout, stderr bytes.Buffer
		done := make(chan int, 1)
		go func() {
			err := readtest.Survives(t, func() error {
				done <- run(ctx, args, bytes.NewReader(b), &stdout, &stderr, os.Getenv)
				return nil
			}, "%q", args)
			if err != nil {
				done <- statusUnreadable
			}
		}()
		var status int
		select {
		case status = <-done:
		case <-stuck:
			t.Fatalf("%q does not end, nor with its context", args)
		}
		if ctx.Err() != nil {
			t.Errorf("%q took a minute", args)
		}
		switch status {
		case statusOK, statusFound, statusUnreadable, statusLimit, statusUsage:
		default:
			t.Errorf("%q: exit status %d", args, status)
		}
		if asJSON && status != statusUsage && stdout.Len() > 0 && !json.Valid(stdout.Bytes()) {
			t.Errorf("%q: %s", args, stdout.Bytes())
		}
		if i := strings.IndexFunc(stderr.String(), unsafeOnTerminals); i >= 0 {
			t.Errorf("%q: an escape in a message: %q", args, stderr.String()[i:])
		}
		if i := strings.IndexFunc(stdout.String(), unsafeOnTerminals); i >= 0 && args[0] != "cat" {
			t.Errorf("%q: an escape: %q", args, stdout.String()[i:])
		}
		if status != statusOK {
			return errors.New("refused")
		}
		return nil
	})
}

// unsafeOnTerminals reports control characters, and those that change the direction
// of text.
func unsafeOnTerminals(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 ||
		r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}
