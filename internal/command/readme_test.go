package command

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeShowsWhatTheCommandPrints runs what README.md shows: every line of a
// console block that begins with "$ ", run in the root of the repository, prints what
// stands below it. A line of "..." stands for any lines.
func TestReadmeShowsWhatTheCommandPrints(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../..")
	ran := 0
	for _, block := range strings.Split(string(text), "```console\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for _, part := range strings.Split("\n"+block, "\n$ ")[1:] {
			line, want, _ := strings.Cut(part, "\n")
			t.Run(line, func(t *testing.T) {
				args := words(line)
				if len(args) > 3 && args[0] == "go" && args[1] == "run" {
					args = args[2:]
				}
				if len(args) == 0 || !strings.HasSuffix(args[0], "tensorfile") {
					t.Fatalf("not a command of ours: %s", line)
				}
				var out bytes.Buffer
				run(t.Context(), args[1:], strings.NewReader(""), &out, &out,
					func(string) string { return "" })
				if !matchLines(want, out.String()) {
					t.Errorf("prints\n%s", out.String())
				}
			})
			ran++
		}
	}
	if ran == 0 {
		t.Error("README.md shows no command")
	}
}

// words splits a line as a shell does that knows single quotes only.
func words(line string) []string {
	var all []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			all = append(all, part)
			continue
		}
		all = append(all, strings.Fields(part)...)
	}
	return all
}

// matchLines compares two texts line by line; a line of ... stands for any lines.
func matchLines(want, got string) bool {
	var p strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(want), "\n") {
		if line == "..." {
			p.WriteString("(.*\n)*")
		} else {
			p.WriteString(regexp.QuoteMeta(line) + "\n")
		}
	}
	return regexp.MustCompile("^" + p.String() + "$").MatchString(strings.TrimSpace(got) + "\n")
}
