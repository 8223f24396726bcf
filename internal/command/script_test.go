//go:build !plan9

package command

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// childArgs is the environment variable with the arguments of a test program that is
// the command.
const childArgs = "TENSORFILE_CHILD_ARGS"

func TestMain(m *testing.M) {
	if args := os.Getenv(childArgs); args != "" {
		// Not within testscript.Main, whose copies of the program a killed process
		// leaves.
		os.Args = append(os.Args[:1], strings.Split(args, "\n")...)
		os.Exit(Main(nil))
	}
	testscript.Main(m, map[string]func(){"tensorfile": func() { os.Exit(Main(nil)) }})
}

// TestScriptsPrintWhatTheyExpect runs testdata/*.txtar, one for each command. $DATA is
// the testdata directory of the repository. With -update, cmp writes what it got.
func TestScriptsPrintWhatTheyExpect(t *testing.T) {
	if emulator := os.Getenv("TENSORFILE_EMULATOR"); emulator != "" {
		t.Skipf("under %s a program for another machine cannot start itself", emulator)
	}
	data, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		UpdateScripts:       os.Getenv("UPDATE") != "",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("DATA", data)
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv("TMPDIR", filepath.Join(env.WorkDir, "tmp"))
			return os.MkdirAll(filepath.Join(env.WorkDir, "tmp"), 0o777)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"status": status,
			"damage": damage,
			"append": appendTo,
			"old":    old,
		},
	})
}

// status N ARGS… runs tensorfile and requires that exit status.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: status N ARG...")
	}
	got := "0"
	if err := ts.Exec("tensorfile", args[1:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = strconv.Itoa(exit.ExitCode())
	}
	if got != args[0] {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
	// Users of the program know flags, not the fields of Go that these set.
	if field := goField.FindString(ts.ReadFile("stdout") + ts.ReadFile("stderr")); field != "" {
		ts.Fatalf("the output names the field %s", field)
	}
}

var goField = regexp.MustCompile(`\w*(Options|Limits)\.[A-Z]\w*`)

// old FILE makes the file two hours old.
func old(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: old FILE")
	}
	then := time.Now().Add(-2 * time.Hour)
	ts.Check(os.Chtimes(ts.MkAbs(args[0]), then, then))
}

// append FILE TEXT writes TEXT at the end of FILE.
func appendTo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: append FILE TEXT")
	}
	b := append([]byte(ts.ReadFile(args[0])), args[1]...)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o666))
}

// damage FILE OFFSET OUT writes a copy in which a bit is another.
func damage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: damage FILE OFFSET OUT")
	}
	b := []byte(ts.ReadFile(args[0]))
	at, err := strconv.Atoi(args[1])
	ts.Check(err)
	b[at] ^= 1
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), b, 0o666))
}
