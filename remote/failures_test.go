package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Each of these answers must be refused at once: asking again would be asking for the
// same.
func TestWrongAnswersAreRefusedAtOnce(t *testing.T) {
	const size = 200_000
	status := func(code int) func(*server, http.ResponseWriter, *http.Request) bool {
		return func(_ *server, w http.ResponseWriter,
			_ *http.Request) bool {
			w.WriteHeader(code)
			return true
		}
	}
	part := func(p partly) func(*server, http.ResponseWriter, *http.Request) bool {
		return func(s *server, w http.ResponseWriter,
			r *http.Request) bool {
			return p.serve(s, w, r)
		}
	}
	for name, c := range map[string]struct {
		class   error // nil: any
		instead func(*server, http.ResponseWriter, *http.Request) bool
	}{
		"the whole file": {ErrNoRanges, func(s *server, w http.ResponseWriter,
			r *http.Request) bool {
			w.Header().Set("ETag", s.etag)
			w.Write(s.data)
			return true
		}},
		"the whole file, length not said": {ErrNoRanges,
			func(s *server, w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("ETag", s.etag)
				w.(http.Flusher).Flush()
				w.Write(s.data)
				return true
			}},
		"no Content-Range": {nil,
			part(partly{header: map[string]string{"Content-Range": ""}})},
		"another unit":   {nil, part(partly{contentRange: "items 0-65535/200000"})},
		"nonsense":       {nil, part(partly{contentRange: "bytes 0-"})},
		"a sign":         {nil, part(partly{contentRange: "bytes +0-65535/200000"})},
		"size unknown":   {nil, part(partly{contentRange: "bytes 0-65535/*"})},
		"size too small": {nil, part(partly{contentRange: "bytes 0-65535/65535"})},
		"backwards":      {nil, part(partly{contentRange: "bytes 65535-0/200000"})},
		"offset beyond int64": {nil,
			part(partly{contentRange: "bytes 9223372036854775808-9223372036854775809/9223372036854775810"})},
		"end beyond int64": {nil,
			part(partly{contentRange: "bytes 0-9223372036854775807/9223372036854775807"})},
		"another range": {nil, part(partly{contentRange: "bytes 1-65536/200000"})},
		"a longer range": {nil, part(partly{contentRange: "bytes 0-199999/200000",
			body: make([]byte, 200_000)})},
		"more than announced": {nil, part(partly{body: make([]byte, 70_000),
			chunked: true})},
		"another length": {nil, part(partly{body: make([]byte, 1000)})},
		"compressed": {errors.ErrUnsupported,
			part(partly{header: map[string]string{"Content-Encoding": "gzip"}})},
		"not found":                 {fs.ErrNotExist, status(404)},
		"gone":                      {fs.ErrNotExist, status(410)},
		"unauthorised":              {fs.ErrPermission, status(401)},
		"forbidden":                 {fs.ErrPermission, status(403)},
		"a bad request":             {nil, status(400)},
		"a range that is too large": {nil, status(416)},
		"no content":                {nil, status(204)},
		"not modified":              {nil, status(304)},
		"not implemented":           {nil, status(501)},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, size)
			s.behave(func(_ int, w http.ResponseWriter,
				r *http.Request) bool {
				return c.instead(s, w, r)
			})
			_, waited, err := s.open("f", nil)
			if err == nil || c.class != nil && !errors.Is(err, c.class) || len(*waited) != 0 {
				t.Errorf("opened: %v, waited %v", err, *waited)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "remote: "+s.URL+"/f: ") {
				t.Errorf("the message does not say where: %v", err)
			}

			// The same in the middle of the file, when the first answer was good.
			s = serve(t, size)
			s.behave(func(n int, w http.ResponseWriter, r *http.Request) bool {
				return n > 1 &&
					c.instead(s, w, r)
			})
			r, waited, err := s.open("f", nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.ReadAt(make([]byte, 10), 100_000)
			if err == nil || c.class != nil && !errors.Is(err, c.class) || len(*waited) != 0 {
				t.Errorf("read: %v, waited %v", err, *waited)
			}
		})
	}
}

func TestFailuresThatPassAreTriedAgain(t *testing.T) {
	const size = 3_000_000
	for name, fail := range map[string]func(s *server, w http.ResponseWriter, r *http.Request){
		"429": func(_ *server, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) },
		"500": func(_ *server, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"502": func(_ *server, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) },
		"503": func(_ *server, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"504": func(_ *server, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(504) },
		"hung up": func(*server, http.ResponseWriter,
			*http.Request) {
			panic(http.ErrAbortHandler)
		},
		"cut in the middle": func(s *server, w http.ResponseWriter, r *http.Request) {
			var off, last int
			fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &off, &last)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", off, last, size))
			w.Header().Set("Content-Length", fmt.Sprint(last-off+1))
			w.Header().Set("ETag", s.etag)
			w.WriteHeader(206)
			w.Write(s.data[off : (off+last)/2])
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, size)
			s.behave(func(n int, w http.ResponseWriter, r *http.Request) bool {
				if n%3 != 0 { // every third request goes well
					fail(s, w, r)
				}
				return n%3 != 0
			})
			r, waited, err := s.open("f", nil)
			if err != nil {
				t.Fatal(err)
			}
			s.wantRead(r, 100_000, 10)
			s.wantRead(r, 200_000, 2_000_000)
			// net/http asks again by itself when a connection that was used before is
			// hung up.
			if n := len(*waited); n > 6 && name != "cut in the middle" || n < 6 && name[0] <= '9' {
				t.Errorf("waited %v", *waited)
			}
			for _, d := range *waited {
				if d < firstPause/2 || d > mostPause {
					t.Errorf("waited %v", *waited)
				}
			}
			if name == "cut in the middle" && r.Stats().Bytes > 64<<10*3+2_000_000 {
				t.Errorf("what had been received was asked for again: %+v", r.Stats())
			}
		})
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	s := serve(t, 1000)
	s.behave(func(_ int, w http.ResponseWriter,
		_ *http.Request) bool {
		w.WriteHeader(503)
		return true
	})
	_, waited, err := s.open("f", nil)
	var status *StatusError
	if !errors.As(err, &status) || status.Code != 503 || len(*waited) != 4 {
		t.Errorf("%v, waited %v", err, *waited)
	}
	for i := 1; i < len(*waited); i++ {
		if (*waited)[i] < (*waited)[i-1]*2/3 {
			t.Errorf("pauses do not grow: %v", *waited)
		}
	}
	s.ranges()
	if _, _, err := s.open("f", &Options{Attempts: 1}); err == nil || s.ranges() != "0-65535" {
		t.Errorf("one attempt: %v", err)
	}
	// A server that sends a little each time is not asked without end.
	s.behave(func(n int, w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Range", "bytes 0-999/1000")
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(206)
		w.Write([]byte{1})
		panic(http.ErrAbortHandler)
	})
	if _, waited, err := s.open("f", nil); err == nil || len(*waited) != 4 {
		t.Errorf("a byte at a time: %v, waited %v", err, *waited)
	}
}

func TestRetryAfterTakesADate(t *testing.T) {
	now := time.Date(2026, 11, 23, 5, 0, 0, 0, time.UTC)
	for _, want := range []time.Duration{40 * time.Second, 0} {
		if got := retryAfter(now.Add(want).Format(http.TimeFormat), now); got != want {
			t.Errorf("%v from now: %v", want, got)
		}
	}
}

func TestRetryAfterTellsHowLongToWait(t *testing.T) {
	for _, c := range []struct {
		header string
		want   time.Duration
		fails  bool
	}{
		{"7", 7 * time.Second, false},
		{"0", 0, false},
		{"-5", 0, false},
		{"soon", 0, false},
		{"Thu, 01 Jan 1970 00:00:00 GMT", 0, false},
		{"3600", 0, true},
		{"99999999999999999999", 0, false},
	} {
		s := serve(t, 1000)
		s.behave(func(n int, w http.ResponseWriter, _ *http.Request) bool {
			if n == 1 {
				w.Header().Set("Retry-After", c.header)
				w.WriteHeader(429)
			}
			return n == 1
		})
		_, waited, err := s.open("f", nil)
		if (err != nil) != c.fails {
			t.Errorf("%q: %v", c.header, err)
		}
		if c.fails {
			continue
		}
		if d := (*waited)[0]; d < c.want || d > c.want+3*time.Second {
			t.Errorf("%q: waited %v", c.header, d)
		}
	}
}

// An answer of two parts ends, whatever stands before, between and after them.
func TestEndlessMultipartEnds(t *testing.T) {
	s := serve(t, file)
	for name, what := range map[string]string{"preamble": "x\r\n", "headers": "--b\r\nA: b\r\n",
		"parts": "--b\r\n\r\n"} {
		var sent atomic.Int64
		s.behave(func(_ int, w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.Header.Get("Range"), ",") {
				return false
			}
			w.Header().Set("Content-Type", `multipart/byteranges; boundary="b"`)
			w.WriteHeader(http.StatusPartialContent)
			for piece := []byte(strings.Repeat(what, 1000)); ; {
				if _, err := w.Write(piece); err != nil || sent.Add(int64(len(piece))) > 64<<20 {
					return true
				}
			}
		})
		r := s.mustOpen("model.zt", nil)
		s.wantRead(r, 0, 8)
		if sent.Load() > 64<<20 {
			t.Errorf("%s: read without end", name)
		}
	}
}

// A server that answers each request with one byte is given up.
func TestServersThatSendOneByteAreGivenUp(t *testing.T) {
	s := serve(t, 3_000_000)
	r := s.mustOpen("f", nil)
	var requests atomic.Int64
	s.behave(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		requests.Add(1)
		var off int
		fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &off)
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", off, off))
		return false
	})
	if _, err := r.ReadAt(make([]byte, 2_000_000), 500_000); err == nil || requests.Load() != 5 {
		t.Errorf("%v after %d requests", err, requests.Load())
	}
}

// The address that a redirect led to was signed for a while only.
func TestARedirectThatExpiresIsFollowedAgain(t *testing.T) {
	s := serve(t, 3_000_000)
	valid := "1"
	s.behave(func(n int, w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == "/f":
			http.Redirect(w, r, "/blob?signature="+valid, http.StatusFound)
			return true
		case r.URL.Query().Get("signature") != valid:
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	r := s.mustOpen("f", nil)
	s.wantRead(r, 1_000_000, 10)
	if r.Stats().Requests != 3 {
		t.Errorf("%+v", r.Stats())
	}
	valid = "2"
	s.wantRead(r, 2_000_000, 10)
	s.wantRead(r, 2_500_000, 10)
	if r.Stats().Requests != 3+3+1 {
		t.Errorf("%+v", r.Stats())
	}
	valid = "" // neither the old nor a new one
	s.behave(func(n int, w http.ResponseWriter, r *http.Request) bool {
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	if _, err := r.ReadAt(make([]byte, 1), 1_500_000); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
}

func TestSilentServersTimeOut(t *testing.T) {
	s := serve(t, 3_000_000)
	release := make(chan bool)
	defer close(release)
	for name, fall := range map[string]func(w http.ResponseWriter, r *http.Request){
		"at once": func(w http.ResponseWriter, r *http.Request) { <-release },
		"in the middle": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes 1000000-1065535/3000000")
			w.Header().Set("ETag", s.etag)
			w.Header().Set("Content-Length", "65536")
			w.WriteHeader(206)
			w.Write(s.data[1_000_000:1_010_000])
			w.(http.Flusher).Flush()
			<-release
		},
		"but for a byte now and then": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes 1000000-1065535/3000000")
			w.Header().Set("ETag", s.etag)
			w.Header().Set("Content-Length", "65536")
			w.WriteHeader(206)
			for i := 0; r.Context().Err() == nil; i++ {
				if i == 200 {
					t.Error("200 bytes are waited for, each as long as the first")
					return
				}
				w.Write(s.data[1_000_000+i:][:1])
				w.(http.Flusher).Flush()
				select {
				case <-release:
				case <-time.After(20 * time.Millisecond):
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.ranges()
			s.behave(func(n int, w http.ResponseWriter, r *http.Request) bool {
				if n == 2 {
					fall(w, r)
				}
				return n == 2
			})
			r, waited, err := s.open("f", &Options{Timeout: 200 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			s.wantRead(r, 1_000_000, 10)
			if len(*waited) != 1 {
				t.Errorf("waited %v", *waited)
			}
			s.behave(func(_ int, w http.ResponseWriter,
				r *http.Request) bool {
				<-release
				return true
			})
			r.opts.Attempts = 2
			if _, err := r.ReadAt(make([]byte, 1), 2_000_000); !errors.Is(err,
				os.ErrDeadlineExceeded) {
				t.Error(err)
			}
		})
	}
}

func TestContextAndCloseEndAllReads(t *testing.T) {
	s := serve(t, 3_000_000)
	entered, release := make(chan bool, 10), make(chan bool)
	defer close(release)
	s.behave(func(n int, w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Range") == "bytes=0-65535" {
			return false
		}
		entered <- true
		<-release
		return true
	})
	for _, closed := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := Open(ctx, s.URL+"/f", nil)
		if err != nil {
			t.Fatal(err)
		}
		errs := make(chan error)
		for i, n := range []int{10, 10, 1_500_000} { // the second waits for the first
			go func() {
				_, err := r.ReadAt(make([]byte, n),
					1_000_000+int64(i/2)*200_000)
				errs <- err
			}()
		}
		<-entered
		<-entered
		want := context.Canceled
		if closed {
			want = fs.ErrClosed
			for range 2 {
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
		} else {
			cancel()
		}
		for range 3 {
			if err := <-errs; !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		for _, n := range []int{0, 10} { // even what was in the cache
			if _, err := r.ReadAt(make([]byte, n), 0); !errors.Is(err, want) {
				t.Errorf("afterwards: %v", err)
			}
		}
		if _, _, err := r.Companion("g"); !errors.Is(err, want) {
			t.Errorf("Companion afterwards: %v", err)
		}
		cancel()
		r.Close()
	}
	// Waiting between attempts ends too.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s.behave(func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "100")
		w.WriteHeader(503)
		return true
	})
	if _, err := Open(ctx, s.URL+"/f", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
