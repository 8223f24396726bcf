package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestExpandGlobs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.zt", "b.zt", "[ab].zt", "c.ptd"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	got := expandGlobs([]string{"?.zt", "[ab].zt", "*.pte", "c.ptd", "[", "-"})
	want := []string{"a.zt", "b.zt", "[ab].zt", "*.pte", "c.ptd", "[", "-"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// One argument that stands for several files makes one object.
func TestOneObjectForAPattern(t *testing.T) {
	dir := t.TempDir()
	b, err := os.ReadFile("../../testdata/safetensors/rank8.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.safetensors", "b.safetensors"} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	var out strings.Builder
	args := append([]string{"detect", "--json"}, expandGlobs([]string{"*.safetensors"})...)
	status := run(t.Context(), args, strings.NewReader(""), &out, &out, os.Getenv)
	if status != statusOK || !strings.HasPrefix(out.String(), "{\n  \"files\": [") || strings.Count(out.String(), "\n}") != 1 {
		t.Errorf("exit status %d, %s", status, out.String())
	}
}
