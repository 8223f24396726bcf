package remote

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

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
