package command

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
)

// TestViewServesUntilItIsInterrupted asks the command for its page.
func TestViewServesUntilItIsInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	r, w := io.Pipe()
	status := make(chan int)
	var stderr bytes.Buffer
	file := "../../testdata/safetensors/many.safetensors"
	go func() {
		status <- run(ctx, []string{"view", "--no-open", file, file}, nil, w, &stderr, os.Getenv)
	}()
	line := make([]byte, 200)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimSpace(string(line[:n]))
	page, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	if page.StatusCode != http.StatusOK {
		t.Error(page.Status)
	}
	call, err := http.NewRequest("POST", address+"call",
		strings.NewReader(`{"method":"files","params":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	call.Header.Set("Origin", strings.Join(strings.Split(address, "/")[:3], "/"))
	names, err := http.DefaultClient.Do(call)
	if err != nil {
		t.Fatal(err)
	}
	defer names.Body.Close()
	if b, err := io.ReadAll(names.Body); err != nil || bytes.Count(b, []byte("many")) != 2 {
		t.Errorf("%s %v", b, err)
	}
	interrupt()
	if s := <-status; s != statusInterrupted {
		t.Errorf("status %d: %s", s, stderr.String())
	}
}

func TestAPageHasTheNameOfItsFile(t *testing.T) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, title, path string
		isRemote          bool
	}{
		{"model.zt", "model.zt", "", false},
		{filepath.Join("x", "model.zt"), "model.zt", filepath.Join("x", "model.zt"), false},
		{".", filepath.Base(dir), ".", false},
		{"..", filepath.Base(filepath.Dir(dir)), "..", false},
		{"-", "standard input", "-", false},
		{"https://example.org/a/m.gguf?download=true", "m.gguf",
			"https://example.org/a/m.gguf?download=true", true},
		{"hf://org/name", "name", "hf://org/name", true},
	} {
		in := &input{File: tensorfile.FromTensors(nil, nil), name: c.name}
		got := (&app{invocation: &invocation{}}).source(in)
		if got.Name != c.title || got.Path != c.path || got.Remote != c.isRemote {
			t.Errorf("%s: %q, path %q, remote %v", c.name, got.Name, got.Path, got.Remote)
		}
	}
}
