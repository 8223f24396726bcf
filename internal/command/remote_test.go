package command

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestSecretsOfAddressesAreNotShown checks that no message has a signature or password.
func TestSecretsOfAddressesAreNotShown(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	address := strings.Replace(server.URL, "://", "://user:secret@", 1) + "/a.zt?sig=secret"
	for _, args := range [][]string{{"ls", address}, {"hash", address},
		{"convert", address, "x.npz"}} {
		var out bytes.Buffer
		status := run(t.Context(), args, strings.NewReader(""), &out, &out, os.Getenv)
		if status != 3 || strings.Contains(out.String(), "secret") ||
			!strings.Contains(out.String(), "/a.zt") {
			t.Errorf("%v: %d, %s", args, status, &out)
		}
	}
}

func TestAddressesAreFiles(t *testing.T) {
	var requests atomic.Int64
	files := http.FileServer(http.Dir("../../testdata"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.Header.Get("X-Token") == "wrong" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		if r.URL.Path == "/page.zt" {
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader("<!DOCTYPE html><html>"))
			return
		}
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	whole := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		w.Write(make([]byte, 100<<10))
	}))
	defer whole.Close()
	const name = "/ztensor/crate-1.2.3-digests.zt"
	for _, test := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"ls", server.URL + name}, 0, "float32 crc32c"},
		{[]string{"hash", server.URL + name}, 0, "float32 sha256"},
		{[]string{"du", server.URL + name}, 0, "unused"},
		{[]string{"verify", server.URL + name, "../../testdata" + name}, 0, "ok"},
		{[]string{"diff", server.URL + name, "../../testdata" + name}, 0, "the same"},
		{[]string{"cat", server.URL + "/pte/export-1.5.1-linear.pte", "forward/1"}, 0, "["},
		{[]string{"ls", server.URL + "/absent.zt"}, 3, "404"},
		{[]string{"ls", server.URL + "/absent.zt"}, 3, "try: check the address\n"},
		{[]string{"ls", "--json", server.URL + "/absent.zt"}, 3,
			"404 Not Found\",\n  \"class\": \"io\"\n}"},
		{[]string{"ls", whole.URL + "/whole.zt"}, 3, "try: curl -L"},
		{[]string{"ls", "http://example.org/refused.zt"}, 3,
			"refused.zt: remote: not encrypted"},
		{[]string{"ls", server.URL + "/ztensor/README.md"}, 3, "not a tensor file"},
		{[]string{"ls", "--header", "X-Token: wrong", server.URL + name}, 3, "try: --header"},
		{[]string{"ls", "--header", "X-Token", server.URL + name}, 2, "colon"},
		{[]string{"ls", "--header", "X-Token: a\r\nX-Other: b", server.URL + name}, 2,
			"control character"},
		{[]string{"ls", server.URL + "/page.zt"}, 3, "it is an HTML page"},
		{[]string{"ls", strings.Replace(server.URL, "http", "HTTP", 1) + name}, 0, "float32"},
		{[]string{"ls", "--public-only", server.URL + name}, 3,
			"127.0.0.1 is not a public address"},
		{[]string{"ls", "--limit-input", "100", server.URL + name}, 4, "limit"},
		{[]string{"ls", "--in-flight", "1", server.URL + name}, 0, "float32"},
		{[]string{"ls", "--in-flight", "0", server.URL + name}, 2, "is not a number from 1 to"},
		{[]string{"ls", "http://example.org/model.zt"}, 3, "https"},
		{[]string{"check", server.URL + name}, 3, "try: tensorfile verify, which checks a file"},
	} {
		var out bytes.Buffer
		if s := run(t.Context(), test.args, strings.NewReader(""), &out, &out,
			os.Getenv); s != test.status || !strings.Contains(out.String(), test.want) {
			t.Errorf("%q: exit status %d, want %d and %q:\n%s", test.args, s, test.status,
				test.want, out.String())
		}
	}
	requests.Store(0)
	var out bytes.Buffer
	run(t.Context(), []string{"cat", server.URL + name, "int64 crc32c"}, nil, &out, &out,
		os.Getenv)
	if n := requests.Load(); n > 2 {
		t.Errorf("one tensor took %d requests", n)
	}
}

// hubOf serves a directory as the repository acme/tiny of the Hub.
func hubOf(t *testing.T, dir string) *httptest.Server {
	t.Helper()
	const commit = "0123456789abcdef0123456789abcdef01234567"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch name, isFile := strings.CutPrefix(r.URL.Path, "/acme/tiny/resolve/"+commit+"/"); {
		case r.URL.Path == "/api/models/acme/tiny/revision/main":
			json.NewEncoder(w).Encode(map[string]any{"sha": commit})
		case strings.HasPrefix(r.URL.Path, "/api/models/acme/tiny/tree/"+commit):
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Error(err)
			}
			rows := []map[string]any{}
			for _, e := range entries {
				info, _ := e.Info()
				rows = append(rows, map[string]any{"type": "file", "path": e.Name(),
					"size": info.Size(), "oid": strings.Repeat("a", 40)})
			}
			json.NewEncoder(w).Encode(rows)
		case isFile:
			w.Header().Set("ETag", `"git"`)
			http.ServeFile(w, r, filepath.Join(dir, name))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// --dequantize writes the same bytes from the Hub, from a server and from this machine.
func TestDequantizeWritesTheSameFromAnywhere(t *testing.T) {
	for _, name := range []string{"fp8-block-ragged", "ct-int4-group", "gptq-4-act",
		"mlx-affine-4", "bnb-nf4"} {
		dir := t.TempDir()
		write := func(name string, b []byte) {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		for _, ext := range [][2]string{{".safetensors", "model.safetensors"},
			{".json", "config.json"}} {
			b, err := os.ReadFile("../../testdata/quant/" + name + ext[0])
			if err != nil {
				t.Fatal(err)
			}
			write(ext[1], b)
		}
		write("tokenizer.json", []byte("{}"))
		t.Setenv("HF_ENDPOINT", hubOf(t, dir).URL)
		files := httptest.NewServer(http.FileServer(http.Dir(dir)))
		command := func(args ...string) {
			t.Helper()
			var out bytes.Buffer
			if status := run(t.Context(), args, strings.NewReader(""), &out, &out,
				os.Getenv); status != 0 {
				t.Fatalf("%s: %q: exit status %d: %s", name, args, status, &out)
			}
		}
		to := t.TempDir()
		converted := func(from, as string, flags ...string) string {
			t.Helper()
			as = filepath.Join(to, as)
			command(append([]string{"convert", "-q", from, as}, flags...)...)
			return as
		}
		equal := func(a, b string) {
			t.Helper()
			x, err := os.ReadFile(a)
			if err != nil {
				t.Fatal(err)
			}
			y, err := os.ReadFile(b)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(x, y) {
				t.Errorf("%s: %s and %s differ", name, a, b)
			}
		}
		for _, form := range []string{"float32.safetensors --dequantize",
			"bfloat16.safetensors --dequantize=bfloat16", "float16.npz --dequantize=float16"} {
			as, flag, _ := strings.Cut(form, " ")
			want := converted(dir, "local-"+as, flag)
			equal(want, converted(dir+"/model.safetensors", "file-"+as, flag))
			equal(want, converted("hf://acme/tiny", "hub-"+as, flag))
			equal(want, converted("hf://acme/tiny/model.safetensors", "hub-file-"+as, flag))
			equal(want, converted(files.URL+"/model.safetensors", "server-"+as, flag))
		}
		want := converted(dir, "local/", "--dequantize")
		got := converted("hf://acme/tiny", "hub/", "--dequantize")
		entries, err := os.ReadDir(want)
		if err != nil || len(entries) != 3 {
			t.Fatal(entries, err)
		}
		for _, e := range entries {
			equal(filepath.Join(want, e.Name()), filepath.Join(got, e.Name()))
		}
		command("diff", want, "hf://acme/tiny", "--dequantize")
		command("check", got)
		files.Close()
	}
}

// The first shard of a .gguf is the model in every command, at an address as on this
// machine; a shard that is missing is named.
func TestFirstShardAtAnAddressIsTheModel(t *testing.T) {
	dir := t.TempDir()
	checkCommand(t, 0, "m-00005-of-00005.gguf", "split", "../../testdata/gguf/numbers.gguf",
		"-o", dir, "--name", "m", "--max", "64")
	t.Setenv("HF_ENDPOINT", hubOf(t, dir).URL)
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	const first = "m-00001-of-00005.gguf"
	local, copied := filepath.Join(dir, first), filepath.Join(t.TempDir(), "copy.gguf")
	commands := []string{"info FIRST", "ls FIRST", "stats FIRST", "hash FIRST",
		"hash --content FIRST", "verify FIRST", "check FIRST", "du FIRST", "detect FIRST",
		"extract FIRST DIR --force",
		"cat FIRST int64", "diff FIRST LOCAL", "convert FIRST COPY", "merge FIRST COPY"}
	below := dir + string(filepath.Separator)
	// output is the exit status, what is printed without the directory, and the copy.
	output := func(line, from string) string {
		t.Helper()
		words := strings.NewReplacer("FIRST", from+first, "LOCAL", local, "COPY", copied,
			"DIR", filepath.Dir(copied))
		status, out := command(t, strings.Split(words.Replace(line), " ")...)
		b, _ := os.ReadFile(copied) // of those that write one
		os.Remove(copied)
		return fmt.Sprintf("%d %d bytes %x\n%s", status, len(b), sha256.Sum256(b),
			strings.NewReplacer(from, "", below, "").Replace(out))
	}
	for _, from := range []string{server.URL + "/", "hf://acme/tiny/"} {
		checkCommand(t, 0, "7 tensors", "ls", "-r", from+first) // no directory is listed
		for _, c := range commands {
			want := output(c, below)
			if got := output(c, from); got != want || !strings.HasPrefix(got, "0 ") {
				t.Errorf("%s: at %s\n%s\non this machine\n%s", c, from, got, want)
			}
		}
	}
	if err := os.Remove(filepath.Join(dir, "m-00003-of-00005.gguf")); err != nil {
		t.Fatal(err)
	}
	findings := filepath.Join(t.TempDir(), "findings.sarif")
	checkCommand(t, 1, "missing-shard", "check", server.URL+"/"+first, "--sarif", findings)
	if b, err := os.ReadFile(findings); !strings.Contains(string(b),
		`"uri": "`+server.URL+`/m-00003-of-00005.gguf"`) {
		t.Errorf("%s, %v", b, err)
	}
	for _, c := range commands {
		want, got := output(c, below), output(c, server.URL+"/")
		isWritten := strings.HasSuffix(c, "COPY") // whose message has the error of the server
		isNamed := strings.Contains(got, "m-00003-of-00005.gguf")
		if got != want && !isWritten || got[0] != want[0] ||
			!isNamed && c != "cat FIRST int64" && c != "detect FIRST" {
			t.Errorf("%s: without a shard at an address\n%s\non this machine\n%s", c, got, want)
		}
	}
}
