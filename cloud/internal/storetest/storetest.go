// Package storetest is a server for the tests of stores, and what every store must
// survive.
package storetest

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tensorfile/tensorfile/remote"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Server serves objects by the path of the request, well or badly.
type Server struct {
	*httptest.Server
	// Check looks at a request and answers it itself where it returns false.
	Check func(w http.ResponseWriter, r *http.Request) bool
	// List answers requests for a listing; Listing makes its text of the names of a page.
	List    func(w http.ResponseWriter, r *http.Request) bool
	Objects map[string][]byte // by path, a slash before it

	mu      sync.Mutex
	n       int
	instead func(n int, w http.ResponseWriter, r *http.Request) bool
}

// Start starts a server that ends with the test.
func Start(t *testing.T, objects map[string][]byte) *Server {
	s := &Server{Objects: objects}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// Behave has instead answer requests that pass Check, counted from 1, if it returns true.
func (s *Server) Behave(instead func(n int, w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n, s.instead = 0, instead
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.Check != nil && !s.Check(w, r) {
		return
	}
	s.mu.Lock()
	s.n++
	n, instead := s.n, s.instead
	s.mu.Unlock()
	if instead != nil && instead(n, w, r) || s.List != nil && s.List(w, r) {
		return
	}
	data, ok := s.Objects[r.URL.Path]
	if !ok {
		Fail(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	w.Header().Set("ETag", fmt.Sprintf(`"%x"`, md5.Sum(data)))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// Fail answers as stores do.
func Fail(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>no</Message></Error>`,
		code)
}

// Data returns n bytes that differ.
func Data(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return b
}

// HostileKey has every character that addresses usually give a meaning.
const HostileKey = "m/a b+c?d#e%41&f=g/ü;'~.bin"

// Objects are the objects that Run reads, in a bucket below a path that ends with a
// slash.
func Objects(root string) map[string][]byte {
	return map[string][]byte{
		root + "m/config.json": []byte("{}"), root + "m/big.bin": Data(300_000),
		root + HostileKey:    Data(1000),
		root + "m/sub/empty": {}, root + "m/sub/": {}, root + "other/x": []byte("x"),
	}
}

// Run tries what every store must survive. The address root ends with a slash; denied
// are words that an error of missing permission has, and secrets such that no error
// has.
func Run(t *testing.T, s *Server, store remote.Opener, root string, denied string,
	secrets ...string) {
	ctx := t.Context()
	open := func(address string) error {
		r, _, err := store.Open(ctx, address)
		if err == nil {
			err = r.(io.Closer).Close()
		}
		if err != nil {
			for _, secret := range secrets {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("a secret in %q", err)
				}
			}
		}
		return err
	}
	t.Run("parts of an object", func(t *testing.T) {
		r, size, err := store.Open(ctx, root+"m/big.bin")
		if err != nil || size != 300_000 {
			t.Fatalf("%d bytes, %v", size, err)
		}
		defer r.(io.Closer).Close()
		p := make([]byte, 1000)
		if _, err := r.ReadAt(p, 200_000); err != nil ||
			!bytes.Equal(p, Data(300_000)[200_000:201_000]) {
			t.Errorf("other bytes, %v", err)
		}
	})
	t.Run("an object next to it", func(t *testing.T) {
		r, _, err := store.Open(ctx, root+"m/config.json")
		if err != nil {
			t.Fatal(err)
		}
		defer r.(io.Closer).Close()
		next, size, err := r.(tensor.Companion).Companion("big.bin")
		if err != nil || size != 300_000 {
			t.Fatalf("%d bytes, %v", size, err)
		}
		next.(io.Closer).Close()
	})
	t.Run("a key of many characters", func(t *testing.T) {
		if err := open(root + HostileKey); err != nil {
			t.Error(err)
		}
	})
	t.Run("a listing", func(t *testing.T) {
		var got []string
		for e, err := range store.List(ctx, root+"m/") {
			if err != nil {
				t.Fatal(err)
			}
			if e.Address == root+"m/big.bin" && (e.Size != 300_000 || e.ETag == "" ||
				e.Modified.IsZero()) {
				t.Errorf("%+v", e)
			}
			got = append(got, strings.TrimPrefix(e.Address, root))
		}
		slices.Sort(got)
		if want := []string{HostileKey, "m/big.bin", "m/config.json", "m/sub/",
			"m/sub/empty"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
	t.Run("a file system", func(t *testing.T) {
		f, err := remote.OpenFS(ctx, store, root+"m")
		if err != nil {
			t.Fatal(err)
		}
		if err := fstest.TestFS(f, "config.json", "big.bin", "sub/empty"); err != nil {
			t.Error(err)
		}
		if _, err := remote.OpenFS(ctx, store, root+"absent"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("no objects: %v", err)
		}
	})
	t.Run("an object that is missing", func(t *testing.T) {
		if err := open(root + "absent"); !errors.Is(err, fs.ErrNotExist) ||
			!strings.Contains(err.Error(), "NoSuchKey") {
			t.Error(err)
		}
	})
	t.Run("an address that is none", func(t *testing.T) {
		for _, address := range []string{root[:3] + "//", root[:3] + "//a@evil.example/x",
			root[:3] + "//a:80/x", "x://a/b", ""} {
			if err := open(address); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%q: %v", address, err)
			}
			for _, err := range store.List(ctx, address) {
				if !errors.Is(err, fs.ErrInvalid) {
					t.Errorf("%q: %v", address, err)
				}
			}
		}
	})
	t.Run("an address without a key", func(t *testing.T) {
		for _, address := range []string{root, strings.TrimSuffix(root, "/")} {
			if err := open(address); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%q opens: %v", address, err)
			}
		}
	})
	t.Run("permission that is missing", func(t *testing.T) {
		s.Behave(func(n int, w http.ResponseWriter, r *http.Request) bool {
			if n > 1 {
				t.Error("tried again")
			}
			Fail(w, http.StatusForbidden, "AccessDenied")
			return true
		})
		err := open(root + "m/big.bin")
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "AccessDenied") ||
			!strings.Contains(err.Error(), denied) {
			t.Error(err)
		}
		s.Behave(nil)
	})
	t.Run("an object that changes", func(t *testing.T) {
		r, _, err := store.Open(ctx, root+"m/big.bin")
		if err != nil {
			t.Fatal(err)
		}
		defer r.(io.Closer).Close()
		for _, ignored := range []bool{false, true} { // whether the server knows If-Match
			s.Behave(func(n int, w http.ResponseWriter, r *http.Request) bool {
				if ignored {
					r.Header.Del("If-Match")
				}
				w.Header().Set("ETag", `"v2"`)
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(Data(300_000)))
				return true
			})
			if _, err := r.ReadAt(make([]byte, 10), 200_000); !errors.Is(err, remote.ErrChanged) {
				t.Error(err)
			}
		}
		s.Behave(nil)
	})
	t.Run("a server that fails for a while", func(t *testing.T) {
		s.Behave(func(n int, w http.ResponseWriter, r *http.Request) bool {
			switch n {
			case 1:
				Fail(w, http.StatusServiceUnavailable, "SlowDown")
			case 2:
				panic(http.ErrAbortHandler)
			default:
				return false
			}
			return true
		})
		if err := open(root + "m/big.bin"); err != nil {
			t.Error(err)
		}
		s.Behave(nil)
	})
	t.Run("a listing with wrong names", func(t *testing.T) {
		for _, body := range []string{"", "{}", "<html>",
			`<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "b">]><ListBucketResult>&a;`} {
			s.Behave(func(n int, w http.ResponseWriter, r *http.Request) bool {
				io.WriteString(w, body)
				return true
			})
			if _, err := remote.OpenFS(ctx, store, root+"m"); !errors.Is(err,
				tensor.ErrMalformed) {
				t.Errorf("%q: %v", body, err)
			}
		}
		s.Behave(nil)
	})
	t.Run("a server that is silent", func(t *testing.T) {
		ctx, cancel := context.WithCancel(ctx)
		s.Behave(func(n int, w http.ResponseWriter, r *http.Request) bool {
			cancel()
			<-r.Context().Done()
			return true
		})
		if _, _, err := store.Open(ctx, root+"m/big.bin"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		s.Behave(nil)
	})
}
