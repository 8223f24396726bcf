package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tensorfile/tensorfile/tensor"
)

// fakeStore is an Opener of objects in memory.
type fakeStore struct {
	objects map[string]string
	rows    []Entry // instead of the names of objects
	err     error
}

func (s *fakeStore) Open(_ context.Context, address string) (io.ReaderAt, int64, error) {
	data, ok := s.objects[address]
	if !ok {
		return nil, 0, fs.ErrNotExist
	}
	return strings.NewReader(data), int64(len(data)), nil
}

func (s *fakeStore) List(_ context.Context, prefix string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for address, data := range s.objects {
			if strings.HasPrefix(address, prefix) && s.rows == nil &&
				!yield(Entry{Address: address, Size: int64(len(data))}, nil) {
				return
			}
		}
		for _, e := range s.rows {
			if !yield(e, nil) {
				return
			}
		}
		if s.err != nil {
			yield(Entry{}, s.err)
		}
	}
}

func TestOpenFSListsTheObjectsOfAnOpener(t *testing.T) {
	s := &fakeStore{objects: map[string]string{
		"x://bucket/llama/config.json": "{}", "x://bucket/llama/a/b": "weights",
		"x://bucket/llama/a/": "", "x://bucket/other": "no",
	}}
	for _, address := range []string{"x://bucket/llama", "x://bucket/llama/"} {
		f, err := OpenFS(t.Context(), s, address)
		if err != nil {
			t.Fatal(err)
		}
		if err := fstest.TestFS(f, "config.json", "a/b"); err != nil {
			t.Error(err)
		}
		if _, err := fs.Stat(f, "other"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("an object outside of the prefix: %v", err)
		}
	}
	if _, err := OpenFS(t.Context(), s, "x://bucket/absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a prefix without objects: %v", err)
	}
	for _, rows := range [][]Entry{
		{{Address: "x://bucket/../secret"}}, {{Address: "x://elsewhere/a"}},
		{{Address: "x://bucket//a"}}, {{Address: "x://bucket/a", Size: -1}},
		{{Address: "x://bucket/a"}, {Address: "x://bucket/a/b"}}, {{Address: "x://bucket/a"},
			{Address: "x://bucket/a"}},
	} {
		if _, err := OpenFS(t.Context(), &fakeStore{rows: rows}, "x://bucket"); !errors.Is(err,
			tensor.ErrMalformed) {
			t.Errorf("a listing of %+v: %v", rows, err)
		}
	}
	for _, name := range []string{strings.Repeat("a/", 20_000) + "b",
		strings.Repeat("a", 5000)} {
		rows := []Entry{{Address: "x://bucket/" + name}}
		if _, err := OpenFS(t.Context(), &fakeStore{rows: rows}, "x://bucket"); !errors.Is(err,
			tensor.ErrLimit) {
			t.Errorf("a path of %d bytes: %v", len(name), err)
		}
	}
	failed := errors.New("the listing broke off")
	if _, err := OpenFS(t.Context(), &fakeStore{rows: []Entry{{Address: "x://bucket/a"}},
		err: failed}, "x://bucket"); !errors.Is(err, failed) {
		t.Errorf("a listing that breaks off: %v", err)
	}
	s.rows = []Entry{{Address: "x://bucket/other", Size: 3}}
	f, err := OpenFS(t.Context(), s, "x://bucket")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fs.ReadFile(f, "other"); !errors.Is(err, ErrChanged) {
		t.Errorf("an object of another size than listed: %v", err)
	}
}

func TestEachAttemptIsSignedForItsHostOnly(t *testing.T) {
	data := bytes.Repeat([]byte("weights "), 50_000)
	var signed, elsewhere []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		elsewhere = append(elsewhere, r.Header.Get("Signature")+r.URL.RawQuery)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}))
	defer other.Close()
	s := serve(t, 0)
	s.behave(func(n int, w http.ResponseWriter, r *http.Request) bool {
		signed = append(signed, r.Header.Get("Signature")+" "+r.URL.RawQuery)
		if n == 1 {
			http.Error(w, "later", http.StatusServiceUnavailable)
		} else {
			http.Redirect(w, r, other.URL, http.StatusFound)
		}
		return true
	})
	n := 0
	r := s.mustOpen("f", &Options{Sign: func(req *http.Request) error {
		n++
		req.Header.Set("Signature", fmt.Sprintf("%d of %s", n, req.Header.Get("Range")))
		req.URL.RawQuery = "sig=secret"
		return nil
	}})
	if r.Size() != int64(len(data)) {
		t.Errorf("%d bytes", r.Size())
	}
	if got := fmt.Sprintf("%q",
		signed); got != `["1 of bytes=0-65535 sig=secret" "2 of bytes=0-65535 sig=secret"]` {
		t.Errorf("requests %s", got)
	}
	if got := fmt.Sprintf("%q", elsewhere); got != `[""]` {
		t.Errorf("the other host sees %s", got)
	}
	failed := errors.New("no credentials")
	if _, _, err := s.open("f",
		&Options{Sign: func(*http.Request) error { return failed }}); !errors.Is(err, failed) {
		t.Errorf("a failing Sign: %v", err)
	}
}

func TestStatusErrorsHaveTheCodeOfTheStore(t *testing.T) {
	for body, want := range map[string]string{
		"<Error><Code>NoSuchKey</Code><Message>x</Message></Error>": "NoSuchKey",
		"<Error><Code>\x1b[31m</Code></Error>":                      "",
		strings.Repeat(" ", maxReason) + "<Code>TooLate</Code>":     "",
		"plain": "",
	} {
		s := serve(t, 0)
		s.behave(func(_ int, w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("X-Amz-Bucket-Region", "eu-central-1")
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, body)
			return true
		})
		_, _, err := s.open("f", nil)
		var status *StatusError
		if !errors.As(err, &status) || !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if status.Reason != want || status.Code != 404 ||
			status.Header.Get("X-Amz-Bucket-Region") != "eu-central-1" {
			t.Errorf("%q: %+v", body, status)
		}
		if want != "" && !strings.HasSuffix(err.Error(), "("+want+")") {
			t.Errorf("the message does not end with the store's word: %v", err)
		}
	}
}

func TestAChangedFileIsRefusedByTheServer(t *testing.T) {
	s := serve(t, 500_000)
	r := s.mustOpen("f", nil)
	s.mu.Lock()
	s.etag = `"v2"`
	s.mu.Unlock()
	s.behave(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("If-Match") != `"v1"` {
			t.Errorf("If-Match %q", r.Header.Get("If-Match"))
		}
		return false // ServeContent answers 412
	})
	var status *StatusError
	if _, err := r.ReadAt(make([]byte, 10), 300_000); !errors.Is(err, ErrChanged) ||
		!errors.As(err, &status) || status.Code != http.StatusPreconditionFailed {
		t.Error(err)
	}
}

// The Hub's own host knows another ETag than the host that it redirects to.
func TestConditionsGoToTheHostOfTheVersion(t *testing.T) {
	data := make([]byte, 500_000)
	expired := false
	storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if expired && r.URL.RawQuery == "n=1" {
			http.Error(w, "expired", http.StatusForbidden)
			return
		}
		w.Header().Set("ETag", `"of-the-storage"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}))
	defer storage.Close()
	s := serve(t, 0)
	s.behave(func(n int, w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("If-Match") != "" {
			t.Errorf("request %d: If-Match %q", n, r.Header.Get("If-Match"))
		}
		http.Redirect(w, r, fmt.Sprintf("%s/?n=%d", storage.URL, n), http.StatusFound)
		return true
	})
	r := s.mustOpen("f", nil)
	expired = true
	if _, err := r.ReadAt(make([]byte, 10), 300_000); err != nil {
		t.Error(err)
	}
}

func TestAServerInTroubleIsLeftAlone(t *testing.T) {
	s := serve(t, 0)
	s.behave(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		http.Error(w, "overload", http.StatusServiceUnavailable)
		return true
	})
	c, err := NewClient(&Options{Attempts: 10})
	if err != nil {
		t.Fatal(err)
	}
	requests := int64(0)
	for range 100 {
		r, err := c.reader(t.Context(), s.URL+"/f")
		if err != nil {
			t.Fatal(err)
		}
		r.wait = func(context.Context, time.Duration) error { return nil }
		if err := r.first(); err == nil {
			t.Fatal("no error")
		}
		requests += r.Stats().Requests
	}
	if requests > 100+freeRetries+20 {
		t.Errorf("%d requests for 100 files", requests)
	}
}
