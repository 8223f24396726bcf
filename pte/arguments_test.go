package pte

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// callOf is a program that calls an operator on n values that are None.
func callOf(operator string, n int) *Builder {
	b := NewBuilder()
	m := b.Method("forward")
	args := make([]Ref, n)
	for i := range args {
		args[i] = m.Value(nil)
	}
	m.Call(operator, args...)
	m.Return(m.Value(1))
	return b
}

// badCall returns the file of callOf, which the Builder does not write where the count is
// not the operator's. It was written for an operator that is not known.
func badCall(t *testing.T, operator string, n int) []byte {
	t.Helper()
	var w bytes.Buffer
	if err := callOf("?"+operator[1:], n).Write(t.Context(), &w, nil); err != nil {
		t.Fatal(err)
	}
	if bytes.Count(w.Bytes(), []byte("?")) != 1 {
		t.Fatalf("the file of %s has another ?", operator)
	}
	return bytes.Replace(w.Bytes(), []byte("?"), []byte(operator[:1]), 1)
}

func TestWriteAndVerifyCheckArgumentCounts(t *testing.T) {
	for _, c := range []struct {
		operator string
		n        int
		ok       bool
	}{
		{"aten::add.out", 5, true}, {"aten::add.out", 4, false}, {"aten::add.out", 6, false},
		{"aten::add.out", 0, false},
		{"executorch_prim::et_copy_index.tensor", 3, true}, {"mine::add.out", 1, true},
		{"aten::add", 1, true},
	} {
		var w bytes.Buffer
		refused := callOf(c.operator, c.n).Write(t.Context(), &w, nil)
		if (refused == nil) != c.ok || !c.ok && !errors.Is(refused, tensor.ErrMalformed) {
			t.Fatalf("%s with %d arguments: Write: %v", c.operator, c.n, refused)
		}
		b := w.Bytes()
		if !c.ok {
			b = badCall(t, c.operator, c.n)
		}
		r, err := OpenBytes(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Verify(context.Background(), nil); err != nil {
			t.Errorf("%s with %d arguments is refused without Strict: %v", c.operator, c.n, err)
		}
		_, err = r.Verify(context.Background(), &tensor.VerifyOptions{Strict: true})
		_, strict := OpenBytes(b, &ReaderOptions{Strict: true})
		if errors.Is(err, tensor.ErrMalformed) == c.ok || (strict == nil) != c.ok {
			t.Errorf("%s with %d arguments: %v, %v", c.operator, c.n, err, strict)
		}
		if !c.ok && !strings.HasSuffix(fieldOf(err), "chains[0].instructions[0].args") {
			t.Errorf("the finding does not say where: %v", err)
		}
		if !c.ok && fieldOf(refused) != fieldOf(err) {
			t.Errorf("Write: %v; Verify: %v", refused, err)
		}
	}
}

// A look-up halves the list, which therefore must be sorted.
func TestArgumentCountsAreFound(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(kernels, "\n"), "\n")
	if !slices.IsSorted(lines) || len(lines) < 200 {
		t.Fatalf("%d operators, sorted: %v", len(lines), slices.IsSorted(lines))
	}
	for _, line := range lines {
		name, count, _ := strings.Cut(line, " ")
		if n, err := strconv.Atoi(count); err != nil || n == 0 || kernelArguments(name) != n {
			t.Errorf("%s: %d", line, kernelArguments(name))
		}
	}
	for _, name := range []string{"", "a", "aten::add", "aten::add.out 5", "z"} {
		if n := kernelArguments(name); n != 0 {
			t.Errorf("%s: %d", name, n)
		}
	}
}

// TestRuntimeNeedsTheArgumentCountsOfTheTable has every kernel of the runtime say how
// many arguments it needs.
func TestRuntimeNeedsTheArgumentCountsOfTheTable(t *testing.T) {
	runtime := etrun(t)
	list, err := exec.Command(runtime, "ops").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "call.pte")
	needed := regexp.MustCompile(`stack\.size\(\) == (\d+)`)
	for _, operator := range strings.Fields(string(list)) {
		t.Run(operator, func(t *testing.T) {
			if err := os.WriteFile(file, badCall(t, operator, 0), 0o600); err != nil {
				t.Fatal(err)
			}
			out, _ := exec.Command(runtime, "run", file).CombinedOutput()
			m := needed.FindSubmatch(out)
			if m == nil {
				t.Fatalf("it does not say: %s", out)
			}
			if n, _ := strconv.Atoi(string(m[1])); n != kernelArguments(operator) {
				t.Errorf("%d arguments, not %d", n, kernelArguments(operator))
			}
		})
	}
}
