package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
)

// TestReadme runs what README.md shows: every line of a console block that
// begins with "$ ", run in the root of the repository, prints what stands below
// it. A line of "..." stands for any lines.
func TestReadme(t *testing.T) {
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
				var out, stderr bytes.Buffer
				run(context.Background(), args[1:], strings.NewReader(""), &out, &stderr, func(string) string { return "" })
				if got := out.String(); !matchLines(strings.TrimSuffix(want, "\n"), strings.TrimSuffix(got, "\n")) {
					t.Errorf("prints\n%s%s", got, stderr.String())
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

func matchLines(want, got string) bool {
	parts := strings.Split("\n"+want+"\n", "\n...\n")
	got = "\n" + got + "\n"
	for i, p := range parts {
		if i > 0 {
			p = "\n" + p
		}
		at := strings.Index(got, p)
		if at < 0 || i == 0 && at != 0 {
			return false
		}
		got = got[at+len(p)-1:]
		if i < len(parts)-1 {
			continue
		}
		if i == 0 || p != "\n" {
			return strings.TrimSpace(got) == ""
		}
	}
	return true
}
