package remote

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tensorfile/tensorfile/tensor"
)

func hubFiles() map[string][]byte {
	return map[string][]byte{
		"config.json":       []byte(`{"dtype": "float32"}`),
		"model.safetensors": bytes.Repeat([]byte("weights!"), 20_000),
		"sub/a b#c.bin":     bytes.Repeat([]byte{7}, 3000),
		"empty":             {},
	}
}

func TestHubAddressesAreParsed(t *testing.T) {
	for address, want := range map[string]hubAddress{
		"hf://acme/tiny":                 {"models", "acme/tiny", "", ""},
		"hf://acme/tiny/":                {"models", "acme/tiny", "", ""},
		"hf://models/acme/tiny/a/b.gguf": {"models", "acme/tiny", "", "a/b.gguf"},
		"hf://datasets/acme/tiny@v1.0/x": {"datasets", "acme/tiny", "v1.0", "x"},
		"hf://spaces/acme/tiny":          {"spaces", "acme/tiny", "", ""},
		"hf://acme/tiny@refs/pr/3/x":     {"models", "acme/tiny", "refs/pr/3", "x"},
		"hf://acme/tiny@refs/pr/3":       {"models", "acme/tiny", "refs/pr/3", ""},
		"hf://acme/tiny@refs/convert/parquet/x": {"models", "acme/tiny", "refs/convert/parquet",
			"x"},
		"hf://acme/tiny@feature%2Fx/y": {"models", "acme/tiny", "feature/x", "y"},
		"hf://acme/tiny/dir@2/x":       {"models", "acme/tiny", "", "dir@2/x"},
	} {
		if got, err := parseHub(address); err != nil || got != want {
			t.Errorf("%s: %+v, %v", address, got, err)
		}
	}
	for _, address := range []string{
		"hf://", "hf://gpt2", "hf://acme/", "hf://acme/tiny@", "hf://acme/tiny@refs/x/3",
		"hf://acme/tiny@refs/pr",
		"hf://acme/tiny/../x", "hf://acme/tiny//x", "hf://acme/../x", "hf://ac me/x",
		"hf://acme/tiny@%zz",
		"hf://acme/ti?ny", "https://huggingface.co/acme/tiny",
	} {
		if got, err := parseHub(address); err == nil {
			t.Errorf("%s is taken for %+v", address, got)
		}
	}
}

func TestHubFilesAreRead(t *testing.T) {
	s := newStandIn(t, hubFiles())
	s.token = "hf_secret"
	for _, name := range []string{"model.safetensors", "config.json", "sub/a b#c.bin", "empty"} {
		r, err := Open(t.Context(), "hf://acme/tiny@refs/pr/3/"+name, s.options())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
		if err != nil || !bytes.Equal(got, s.files[name]) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err := Open(t.Context(), "hf://acme/tiny/absent", s.options())
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an absent file: %v", err)
	}
	_, err = Open(t.Context(), "hf://acme/tiny@v9/config.json", s.options())
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an absent revision: %v", err)
	}
	o := s.options()
	o.HF.Token = "wrong"
	_, err = Open(t.Context(), "hf://acme/tiny/config.json", o)
	if !errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), "wrong") {
		t.Errorf("a wrong token: %v", err)
	}
}

// A companion is of the same commit, and needs no resolving.
func TestHubCompanionIsOfTheSameCommit(t *testing.T) {
	s := newStandIn(t, hubFiles())
	r, err := Open(t.Context(), "hf://acme/tiny/config.json", s.options())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s.asked = nil
	c, size, err := r.Companion("model.safetensors")
	if err != nil || size != 160_000 {
		t.Fatalf("%d bytes, %v", size, err)
	}
	defer c.(io.Closer).Close()
	if want := "/acme/tiny/resolve/" + testCommit + "/model.safetensors"; len(s.asked) != 1 ||
		s.asked[0] != want {
		t.Errorf("asked for %q", s.asked)
	}
}

// A signed address that has expired is resolved again.
func TestHubSignedAddressThatExpiredIsResolvedAgain(t *testing.T) {
	s := newStandIn(t, hubFiles())
	r, err := Open(t.Context(), "hf://acme/tiny/model.safetensors", s.options())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s.mu.Lock()
	s.expired = 1
	s.mu.Unlock()
	var b [8]byte
	if _, err := r.ReadAt(b[:], 150_000); err != nil || string(b[:]) != "weights!" {
		t.Errorf("%q, %v", b, err)
	}
}

// A redirecting transport answers as the Hub does, without a network, whose locks would
// keep what the race detector looks for from happening at once.
type redirecting struct {
	size    int64
	signed  atomic.Pointer[string] // the address that is valid
	waiting atomic.Int32           // redirects that wait for as many others
	all     chan struct{}
}

func (r *redirecting) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{},
		Body: http.NoBody, Request: req}
	switch {
	case req.URL.Host == "hub.example":
		if r.waiting.Load() > 0 {
			if r.waiting.Add(-1) == 0 {
				close(r.all)
			}
			<-r.all
		}
		resp.StatusCode = http.StatusFound
		resp.Header.Set("X-Linked-Size", fmt.Sprint(r.size))
		resp.Header.Set("Location", *r.signed.Load())
	case req.URL.String() == *r.signed.Load():
		var off, end int64
		fmt.Sscanf(req.Header.Get("Range"), "bytes=%d-%d", &off, &end)
		end = min(end+1, r.size)
		resp.StatusCode, resp.ContentLength = http.StatusPartialContent, end-off
		resp.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", off, end-1, r.size))
		resp.Header.Set("ETag", `"cdn"`)
		resp.Body = io.NopCloser(bytes.NewReader(make([]byte, end-off)))
	}
	return resp, nil
}

// Reads in parallel resolve an address that has expired each by itself, and all see at
// once what the redirects say.
func TestParallelReadsResolveAnExpiredHubAddress(t *testing.T) {
	const readers, step = 8, 1 << 20
	hub := &redirecting{size: (readers + 1) * step, all: make(chan struct{})}
	first, second := "https://cdn.example/1", "https://cdn.example/2"
	hub.signed.Store(&first)
	r, err := Open(t.Context(), "hf://acme/tiny@"+testCommit+"/model.safetensors", &Options{
		HF: HF{Endpoint: "https://hub.example"}, Client: &http.Client{Transport: hub},
		Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	hub.signed.Store(&second)
	hub.waiting.Store(readers)
	var wg sync.WaitGroup
	for i := range readers {
		wg.Go(func() {
			if _, err := r.ReadAt(make([]byte, 8), int64(i+1)*step-step/2); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestHubRepositoriesAreOpenedAtOneCommit(t *testing.T) {
	s := newStandIn(t, hubFiles())
	s.token = "hf_secret"
	r, err := OpenRepository(t.Context(), "hf://acme/tiny", s.options())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if name, commit := r.Repository(); name != "acme/tiny" || commit != testCommit {
		t.Errorf("%s at %s", name, commit)
	}
	if n := len(s.asked); n != 3 {
		t.Errorf("listing takes %d requests: %q", n, s.asked)
	}
	if err := fstest.TestFS(r, "config.json", "model.safetensors", "sub/a b#c.bin",
		"empty"); err != nil {
		t.Error(err)
	}
	sum := sha256.Sum256(s.files["model.safetensors"])
	if sha, git := r.Digest("model.safetensors"); sha != hex.EncodeToString(sum[:]) || git != "" {
		t.Errorf("digests %q and %q", sha, git)
	}
	if sha, git := r.Digest("config.json"); sha != "" || git != strings.Repeat("a", 40) {
		t.Errorf("digests %q and %q", sha, git)
	}
	var names []string
	fs.WalkDir(r, ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if got := strings.Join(names,
		" "); got != "config.json empty model.safetensors sub/a b#c.bin" {
		t.Errorf("files %q", got)
	}

	below, err := OpenRepository(t.Context(), "hf://acme/tiny/sub", s.options())
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close()
	if b, err := fs.ReadFile(below, "a b#c.bin"); err != nil || len(b) != 3000 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	f, err := r.Open("config.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	next, size, err := f.(tensor.Companion).Companion("model.safetensors")
	if err != nil || size != 160_000 {
		t.Fatalf("a companion of %d bytes, %v", size, err)
	}
	defer next.(io.Closer).Close()
}

func TestHubListingsThatLieAreRefused(t *testing.T) {
	file := func(path string, size int) map[string]any {
		return map[string]any{"type": "file", "path": path, "size": size, "oid": "x"}
	}
	for name, rows := range map[string][]map[string]any{
		"a path out of the repository": {file("../x", 1)},
		"an absolute path":             {file("/etc/passwd", 1)},
		"an empty path":                {file("", 1)},
		"the root as a file":           {file(".", 1)},
		"a duplicate":                  {file("x", 1), file("x", 1)},
		"a file that is a directory":   {file("x/y", 1), file("x", 1)},
		"a directory that is a file":   {file("x", 1), file("x/y", 1)},
		"a negative size":              {file("x", -1)},
	} {
		s := newStandIn(t, hubFiles())
		s.rows = func(page int) []map[string]any {
			if page == 1 {
				return rows
			}
			return []map[string]any{}
		}
		if _, err := OpenRepository(t.Context(), "hf://acme/tiny", s.options()); !errors.Is(err,
			tensor.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := newStandIn(t, hubFiles())
	s.next = "http://127.0.0.1:1/next"
	if _, err := OpenRepository(t.Context(), "hf://acme/tiny", s.options()); !errors.Is(err,
		tensor.ErrMalformed) {
		t.Errorf("a next page at another host: %v", err)
	}
	s = newStandIn(t, hubFiles())
	s.next = s.hub.URL + "/api/models/acme/tiny/tree/" + testCommit + "?cursor=2"
	s.rows = func(page int) []map[string]any { return []map[string]any{} }
	if _, err := OpenRepository(t.Context(), "hf://acme/tiny", s.options()); !errors.Is(err,
		tensor.ErrMalformed) || len(s.asked) != 3 {
		t.Errorf("a page that leads back to itself: %v after %q", err, s.asked)
	}
	s = newStandIn(t, hubFiles())
	opts := s.options()
	opts.MaxBytes = 1500
	if _, err := OpenRepository(t.Context(), "hf://acme/tiny", opts); !errors.Is(err,
		tensor.ErrLimit) {
		t.Errorf("a listing above Options.MaxBytes: %v", err)
	}
	s = newStandIn(t, hubFiles())
	s.rows = func(page int) []map[string]any {
		if page == 1 {
			return []map[string]any{file("model.safetensors", 17)}
		}
		return []map[string]any{}
	}
	r, err := OpenRepository(t.Context(), "hf://acme/tiny", s.options())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := fs.ReadFile(r, "model.safetensors"); !errors.Is(err, ErrChanged) {
		t.Errorf("a size that the file does not have: %v", err)
	}
}

func TestHFFromEnvTakesEndpointAndToken(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"HF_ENDPOINT", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN",
		"HF_TOKEN_PATH", "HF_HUB_DISABLE_IMPLICIT_TOKEN"} {
		t.Setenv(name, "")
	}
	t.Setenv("HF_HOME", dir)
	want := func(endpoint, token string) {
		t.Helper()
		if hf, err := HFFromEnv(); err != nil || hf != (HF{endpoint, token}) {
			t.Errorf("%+v, %v", hf, err)
		}
	}
	want("", "")
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte(" of the\nfile \n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	want("", "of thefile")
	t.Setenv("HUGGING_FACE_HUB_TOKEN", "old")
	want("", "old")
	t.Setenv("HF_TOKEN", "new\r\n")
	t.Setenv("HF_ENDPOINT", "https://hub.example.org")
	want("https://hub.example.org", "new")
	t.Setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
	want("https://hub.example.org", "")
}

func TestRateLimitsTellHowLongToWait(t *testing.T) {
	for header, want := range map[string]time.Duration{
		`"resolvers";r=0;t=120`: 2 * time.Minute, "": 0, `"api";r=5;t=x`: 0,
		`"api"; t=3`: 3 * time.Second,
	} {
		if got := rateLimit(header); got != want {
			t.Errorf("%q: %v", header, got)
		}
	}
}
