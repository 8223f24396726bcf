package remote

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"
)

func TestAFileThatChangesIsAnError(t *testing.T) {
	const size = 500_000
	for name, change := range map[string]func(s *server, w http.ResponseWriter,
		r *http.Request) bool{
		"another version": func(s *server, _ http.ResponseWriter, _ *http.Request) bool {
			s.etag = `"v2"`
			return false
		},
		"another version, sent as a part": func(s *server, w http.ResponseWriter,
			r *http.Request) bool {
			return partly{header: map[string]string{"ETag": `"v2"`}}.serve(s, w, r)
		},
		"no version": func(s *server, _ http.ResponseWriter, _ *http.Request) bool {
			s.etag = ""
			return false
		},
		"another size": func(s *server, w http.ResponseWriter, r *http.Request) bool {
			return partly{contentRange: "bytes 300000-365535/500001"}.serve(s, w, r)
		},
		"shorter": func(s *server, _ http.ResponseWriter, r *http.Request) bool {
			s.data = s.data[:1000]
			return false
		},
		"a failed condition": func(s *server, w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(http.StatusPreconditionFailed)
			return true
		},
	} {
		s := serve(t, size)
		s.behave(func(n int, w http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				return false
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			return change(s, w, r)
		})
		r, waited, err := s.open("f", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.ReadAt(make([]byte, 10), 300_000); !errors.Is(err, ErrChanged) ||
			len(*waited) != 0 {
			t.Errorf("%s: %v, waited %v", name, err, *waited)
		}
		if _, err := r.ReadAt(make([]byte, 2_000_000), 300_000); err == nil {
			t.Errorf("%s: a large read succeeds", name)
		}
	}
}

// A server without versions says when the file was last changed.
func TestAFileThatChangesItsDateIsAnError(t *testing.T) {
	s := serve(t, 500_000)
	date := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	weak := ""
	s.behave(func(n int, w http.ResponseWriter, r *http.Request) bool {
		if weak != "" {
			w.Header().Set("ETag", weak)
		}
		http.ServeContent(w, r, "", date, bytes.NewReader(s.data))
		return true
	})
	for _, weak = range []string{"", `W/"v1"`} {
		r := s.mustOpen("f", nil)
		s.wantRead(r, 300_000, 10)
		date = date.Add(time.Hour)
		if _, err := r.ReadAt(make([]byte, 10), 400_000); !errors.Is(err, ErrChanged) {
			t.Errorf("%q: %v", weak, err)
		}
	}
}

func TestConditionsAreSent(t *testing.T) {
	s := serve(t, 500_000)
	var got []string
	s.behave(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		got = append(got, r.Header.Get("If-Match"), r.Header.Get("If-Range"),
			r.Header.Get("Accept-Encoding"))
		return false
	})
	r := s.mustOpen("f", &Options{Header: http.Header{"range": {"bytes=1-2"}, "If-Range": {"x"},
		"accept-encoding": {"br"}}})
	s.wantRead(r, 300_000, 10)
	if fmt.Sprint(got) != `[  identity "v1"  identity]` || s.ranges() != "0-65535 300000-365535" {
		t.Errorf("%q", got)
	}
}
