package pte

import (
	_ "embed"
	"sort"
	"strconv"
	"strings"
)

// kernels lists the operators of ExecuTorch 1.5.1's kernels, sorted, each with the number
// of arguments without which it does not run: TestRuntimeArgumentCounts asks each.
//
//go:embed arguments.txt
var kernels string

// kernelArguments returns how many arguments a call of an operator has, 0 where that is
// not known: those of its schema, outputs included, and what it returns.
func kernelArguments(operator string) int {
	// A line is found by the position of any of its bytes.
	line := func(at int) (name, count string) {
		start := strings.LastIndexByte(kernels[:at], '\n') + 1
		text, _, _ := strings.Cut(kernels[start:], "\n")
		name, count, _ = strings.Cut(text, " ")
		return name, count
	}
	at := sort.Search(len(kernels), func(at int) bool {
		name, _ := line(at)
		return name >= operator
	})
	name, count := line(at)
	if name != operator {
		return 0
	}
	n, _ := strconv.Atoi(count)
	return n
}
