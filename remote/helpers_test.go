package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile/tensor"
)

// The helpers of tests in several files.

// A server serves one file over http on this machine, well or badly.
type server struct {
	*httptest.Server
	t    *testing.T
	data []byte

	mu   sync.Mutex
	etag string
	// the ranges of the requests, or their paths where there is none
	asked []string
	// answers request n, from 1 on, if it returns true
	instead func(n int, w http.ResponseWriter, r *http.Request) bool
}

// serve starts a server of size bytes that differ, which ends with the test.
func serve(t *testing.T, size int) *server {
	t.Helper()
	s := &server{t: t, data: make([]byte, size), etag: `"v1"`}
	rand.NewChaCha8([32]byte{7}).Read(s.data)
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, strings.TrimPrefix(r.Header.Get("Range"), "bytes="))
	n, instead := len(s.asked), s.instead
	s.mu.Unlock()
	if instead != nil && instead(n, w, r) {
		return
	}
	s.good(w, r)
}

// behave has instead answer requests from now on.
func (s *server) behave(instead func(n int, w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instead = instead
}

// good answers as servers should.
func (s *server) good(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	etag, data := s.etag, s.data
	s.mu.Unlock()
	if etag != "" {
		w.Header().Set("ETag", etag)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// ranges returns what was asked since the last call.
func (s *server) ranges() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.asked
	s.asked = nil
	return strings.Join(a, " ")
}

// open opens the file of that name without waiting between attempts. The time that was
// waited for is kept in waited.
func (s *server) open(name string, opts *Options) (r *Reader, waited *[]time.Duration, err error) {
	r, err = newReader(context.Background(), s.URL+"/"+name, opts)
	if err != nil {
		return nil, nil, err
	}
	waited = new([]time.Duration)
	var mu sync.Mutex
	r.wait = func(ctx context.Context, d time.Duration) error {
		mu.Lock()
		*waited = append(*waited, d)
		mu.Unlock()
		return ctx.Err()
	}
	s.t.Cleanup(func(opened *Reader) func() { return func() { opened.Close() } }(r))
	if err := r.first(); err != nil {
		return nil, waited, err
	}
	return r, waited, nil
}

// mustOpen opens the file, and fails the test if it cannot.
func (s *server) mustOpen(name string, opts *Options) *Reader {
	s.t.Helper()
	r, _, err := s.open(name, opts)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// wantRead fails the test unless r has n bytes at off as the server has.
func (s *server) wantRead(r *Reader, off, n int) {
	s.t.Helper()
	p := make([]byte, n)
	if m, err := r.ReadAt(p, int64(off)); err != nil || m != n {
		s.t.Fatalf("ReadAt(%d at %d) = %d, %v", n, off, m, err)
	}
	if !bytes.Equal(p, s.data[off:off+n]) {
		s.t.Fatalf("ReadAt(%d at %d) has other bytes", n, off)
	}
}

// partly answers a range as a part, with any of its properties changed.
type partly struct {
	contentRange string // instead of the true one
	body         []byte // instead of the true one
	header       map[string]string
	chunked      bool // do not say how long it is
}

func (p partly) serve(s *server, w http.ResponseWriter, r *http.Request) bool {
	var off, last int
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &off, &last); err != nil {
		s.t.Errorf("Range %q", r.Header.Get("Range"))
	}
	last = min(last, len(s.data)-1)
	cr := p.contentRange
	if cr == "" {
		cr = fmt.Sprintf("bytes %d-%d/%d", off, last, len(s.data))
	}
	body := p.body
	if body == nil {
		body = s.data[off : last+1]
	}
	w.Header().Set("Content-Range", cr)
	w.Header().Set("ETag", s.etag)
	for k, v := range p.header {
		w.Header().Set(k, v)
	}
	if !p.chunked {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	}
	w.WriteHeader(http.StatusPartialContent)
	if p.chunked {
		w.(http.Flusher).Flush()
	}
	w.Write(body)
	return true
}

// model returns n tensors of size bytes each, named as in a language model.
func model(n, size int) (ts []*tensor.Tensor) {
	for i := range n {
		data := bytes.Repeat([]byte{byte(i)}, size)
		ts = append(ts, tensor.New(fmt.Sprintf("model.layers.%d.self_attn.q_proj.weight", i),
			tensor.Shape{int64(size)}, data))
	}
	return ts
}

func newStandIn(t *testing.T, files map[string][]byte) *standIn {
	t.Helper()
	s := &standIn{files: files}
	s.hub = httptest.NewServer(http.HandlerFunc(s.serveHub))
	s.cdn = httptest.NewServer(http.HandlerFunc(s.serveCDN))
	t.Cleanup(s.hub.Close)
	t.Cleanup(s.cdn.Close)
	return s
}

const file = 10_000_000 // more than a cache

// A standIn answers as Hugging Face's Hub does: the API, small files by itself and
// whole, large ones by a redirect to another host, which refuses a token.
type standIn struct {
	hub, cdn *httptest.Server
	files    map[string][]byte
	token    string
	rows     func(page int) []map[string]any // replaces the listing
	next     string                          // replaces the address of every next page

	mu      sync.Mutex
	asked   []string
	expired int // requests to the other host that are refused
}

func (s *standIn) options() *Options {
	return &Options{HF: HF{Endpoint: s.hub.URL, Token: s.token}, Attempts: 1}
}

func (s *standIn) serveHub(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.Path)
	s.mu.Unlock()
	if s.token != "" && r.Header.Get("Authorization") != "Bearer "+s.token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	base := "/api/models/acme/tiny"
	if at, ok := strings.CutPrefix(r.URL.Path, base+"/revision/"); ok {
		if at != "main" && at != "refs/pr/3" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"sha": testCommit})
		return
	}
	if strings.HasPrefix(r.URL.Path, base+"/tree/"+testCommit) {
		s.serveTree(w, r)
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/acme/tiny/resolve/"+testCommit+"/")
	b, there := s.files[name]
	if !ok || !there {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if !isLarge(b) {
		w.Header().Set("ETag", `"git"`)
		w.Write(b)
		return
	}
	w.Header().Set("X-Linked-Size", fmt.Sprint(len(b)))
	w.Header().Set("Location", s.cdn.URL+(&url.URL{Path: "/signed/" + name}).EscapedPath())
	w.WriteHeader(http.StatusFound)
}

func (s *standIn) serveTree(w http.ResponseWriter, r *http.Request) {
	below := strings.Trim(strings.TrimPrefix(r.URL.Path,
		"/api/models/acme/tiny/tree/"+testCommit), "/")
	page := 1
	if r.URL.Query().Get("cursor") != "" {
		page = 2
	}
	rows := []map[string]any{{"type": "directory", "path": "sub", "size": 0, "oid": ""}}
	if s.rows != nil {
		rows = s.rows(page)
	} else {
		names := []string{}
		for name := range s.files {
			if below == "" || strings.HasPrefix(name, below+"/") {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		half := (len(names) + 1) / 2
		if page == 1 {
			names = names[:half]
		} else {
			names = names[half:]
		}
		for _, name := range names {
			row := map[string]any{"type": "file", "path": name, "size": len(s.files[name]),
				"oid": strings.Repeat("a", 40)}
			if isLarge(s.files[name]) {
				sum := sha256.Sum256(s.files[name])
				row["lfs"] = map[string]any{"oid": hex.EncodeToString(sum[:]),
					"size": len(s.files[name]), "pointerSize": 130}
			}
			rows = append(rows, row)
		}
	}
	if page == 1 || s.next != "" {
		next := s.next
		if next == "" {
			next = s.hub.URL + r.URL.Path + "?recursive=true&cursor=x"
		}
		w.Header().Set("Link", "<"+next+`>; rel="next"`)
	}
	json.NewEncoder(w).Encode(rows)
}

func (s *standIn) serveCDN(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	expired := s.expired > 0
	if expired {
		s.expired--
	}
	s.mu.Unlock()
	if r.Header.Get("Authorization") != "" || expired {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/signed/")
	w.Header().Set("ETag", `"cdn"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.files[name]))
}

const testCommit = "0123456789abcdef0123456789abcdef01234567"

func isLarge(b []byte) bool { return len(b) > 1000 }
