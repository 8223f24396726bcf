//go:build !plan9

package command

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
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
// the testdata directory of the repository. With UPDATE=1 in the environment, cmp writes
// what it got.
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
			"screen": onScreen,
			"serve":  serveWork,
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

// onScreen is screen N FILE: it prints what a terminal of N columns shows of the commands
// in FILE, each line of it, standard output and error, and an exit status that is not 0.
// A shown line is longer than the terminal only if it is one word. $SERVER is the address
// of serve.
func onScreen(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: screen N FILE")
	}
	width, err := strconv.Atoi(args[0])
	ts.Check(err)
	ts.Setenv("COLUMNS", args[0])
	defer ts.Setenv("COLUMNS", "")
	server := ts.Getenv("SERVER")
	var all strings.Builder
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		command := strings.Fields(strings.ReplaceAll(line, "$SERVER", server))
		for i, word := range command {
			command[i] = strings.Trim(word, "'")
		}
		all.WriteString("$ " + line)
		err := ts.Exec(command[0], command[1:]...)
		shown := ts.ReadFile("stdout") + ts.ReadFile("stderr")
		for line := range strings.Lines(shown) {
			line = strings.TrimRight(line, "\n")
			words := wordsOf(strings.TrimPrefix(strings.TrimLeft(line, " "), "- "))
			if columns([]byte(line)) > width && len(words) > 1 {
				ts.Fatalf("%d columns: %q shows\n%s", width, command, line)
			}
		}
		if server != "" { // the port has five digits
			shown = strings.ReplaceAll(shown, server, server[:len(server)-5]+"PORT_")
		}
		all.WriteString(shown)
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			fmt.Fprintf(&all, "[exit status %d]\n", exit.ExitCode())
		} else {
			ts.Check(err)
		}
	}
	_, err = io.WriteString(ts.Stdout(), all.String())
	ts.Check(err)
}

// serveWork serves the working directory at $SERVER, an https address whose certificate
// no known authority has signed.
func serveWork(ts *testscript.TestScript, neg bool, args []string) {
	s := httptest.NewUnstartedServer(http.FileServer(http.Dir(ts.Getenv("WORK"))))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of refused certificates
	s.StartTLS()
	ts.Defer(s.Close)
	ts.Setenv("SERVER", s.URL)
}

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
