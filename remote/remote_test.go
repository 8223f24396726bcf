package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile/tensor"
)

const file = 10_000_000 // more than a cache

func TestListingTakesOneOrTwoRequests(t *testing.T) {
	s := serve(t, file)
	r := s.mustOpen("model.pte", nil)
	if r.Size() != file {
		t.Fatalf("Size = %d", r.Size())
	}
	s.wantRead(r, 0, 64)       // a header
	s.wantRead(r, 64, 30_000)  // metadata
	s.wantRead(r, 500, 10_000) // again
	if got := s.ranges(); got != "0-65535" {
		t.Errorf("small metadata: %s", got)
	}
	s.wantRead(r, 64, 300_000)
	if got := s.ranges(); got != "65536-300063" {
		t.Errorf("larger metadata: %s", got)
	}
	s.wantRead(r, 4_000_000, 2_000_000) // a tensor
	if got := s.ranges(); got != "4000000-5999999" {
		t.Errorf("a tensor: %s", got)
	}
	if st := r.Stats(); st.Requests != 3 || st.Bytes != 300_064+2_000_000 {
		t.Errorf("%+v", st)
	}
}

func TestBothEndsAtOnce(t *testing.T) {
	s := serve(t, file)
	r := s.mustOpen("model.zt", nil)
	s.wantRead(r, 0, 8)
	s.wantRead(r, file-16, 16)
	s.wantRead(r, file-60_000, 59_000)
	if got := s.ranges(); got != "0-4095,-65536" {
		t.Errorf("listing: %s", got)
	}
	s.wantRead(r, 1_000_000, 3_000_000)
	if got := s.ranges(); got != "1000000-3999999" {
		t.Errorf("a tensor: %s", got)
	}
	// A manifest that is larger than the tail takes one request for the rest of it.
	s.wantRead(r, file-300_000, 300_000-16)
	if got := s.ranges(); got != fmt.Sprintf("%d-%d", file-300_000, file-65536-1) {
		t.Errorf("a large manifest: %s", got)
	}
}

func TestBothEndsFromServersThatKnowOneRange(t *testing.T) {
	for name, instead := range map[string]func(s *server, w http.ResponseWriter, r *http.Request) bool{
		"refuse": func(_ *server, w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return true
		},
		"send all": func(s *server, w http.ResponseWriter, _ *http.Request) bool { w.Write(s.data); return true },
		"send the first": func(s *server, w http.ResponseWriter, r *http.Request) bool {
			r.Header.Set("Range", "bytes=0-4095")
			return false
		},
		"hang up": func(_ *server, w http.ResponseWriter, _ *http.Request) bool { panic(http.ErrAbortHandler) },
		"say nonsense": func(_ *server, w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "multipart/byteranges; boundary=x")
			w.WriteHeader(http.StatusPartialContent)
			io.WriteString(w, "--x\r\nContent-Range: bytes 0-99999999/100000000\r\n\r\nshort\r\n--x--\r\n")
			return true
		},
		"send three": func(s *server, w http.ResponseWriter, r *http.Request) bool {
			r.Header.Set("Range", "bytes=0-1,4-5,-3")
			return false
		},
		"send other ends": func(s *server, w http.ResponseWriter, r *http.Request) bool {
			r.Header.Set("Range", "bytes=1-10,20-30")
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{file, 100, 66_000} {
				s := serve(t, size)
				s.behave(func(n int, w http.ResponseWriter, r *http.Request) bool { return n == 1 && instead(s, w, r) })
				r := s.mustOpen("model.zt", nil)
				s.wantRead(r, size-16, 16)
				s.wantRead(r, 0, 8)
				s.wantRead(r, 50, 40)
				if r.Size() != int64(size) || r.Stats().Requests > 3 {
					t.Errorf("Size %d, %+v", r.Size(), r.Stats())
				}
			}
		})
	}
}

func TestSmallReadsAreCoalesced(t *testing.T) {
	s := serve(t, file)
	r := s.mustOpen("f", nil)
	for off := 0; off < 1_000_000; off += 500 {
		s.wantRead(r, off, 500)
	}
	if n := r.Stats().Requests; n > 7 { // 64, 64, 128, 256, 512 KiB
		t.Errorf("%d requests for 1 MB in a row: %s", n, s.ranges())
	}
	s.ranges()
	// From the end, in the way of directories: what comes before is fetched too.
	for off := file - 100; off > file-60_000; off -= 100 {
		s.wantRead(r, off, 100)
	}
	if got := s.ranges(); got != fmt.Sprintf("%d-%d", file-window, file-1) {
		t.Errorf("the end: %s", got)
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	s := serve(t, file)
	r := s.mustOpen("f", &Options{CacheBytes: 300_000})
	for i := range 200 {
		s.wantRead(r, i*7_654_321%(file-100), 100)
	}
	if r.cache.have > 300_000 {
		t.Errorf("%d bytes in the cache", r.cache.have)
	}
	var sum int64
	for _, p := range r.cache.pieces {
		sum += int64(len(p.b))
	}
	if sum != r.cache.have {
		t.Errorf("the cache has %d bytes and believes %d", sum, r.cache.have)
	}
}

func TestAnyRead(t *testing.T) {
	for _, size := range []int{1, 100, window - 1, window, window + 1, 3_000_000} {
		for _, name := range []string{"f", "f.zt"} {
			s := serve(t, size)
			r := s.mustOpen(name, &Options{CacheBytes: 500_000})
			rnd := rand.New(rand.NewPCG(1, uint64(size)))
			for range 300 {
				off := rnd.IntN(size + 10)
				p := make([]byte, rnd.IntN(1+rnd.IntN(1+size*3/2)))
				n, err := r.ReadAt(p, int64(off))
				want := s.data[min(off, size):min(off+len(p), size)]
				if !bytes.Equal(p[:n], want) || (err == io.EOF) != (off+len(p) > size) || err != nil && err != io.EOF {
					t.Fatalf("size %d: ReadAt(%d at %d) = %d, %v", size, len(p), off, n, err)
				}
			}
			if _, err := r.ReadAt(make([]byte, 1), -1); err == nil {
				t.Error("a negative offset is no error")
			}
		}
	}
}

func TestManyGoroutines(t *testing.T) {
	s := serve(t, file)
	r := s.mustOpen("f", nil)
	s.ranges()
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rnd := rand.New(rand.NewPCG(2, uint64(g)))
			for range 50 {
				off, n := rnd.IntN(file-2_000_000), rnd.IntN(1000)
				if rnd.IntN(20) == 0 {
					n = 1_500_000
				}
				p := make([]byte, n)
				if m, err := r.ReadAt(p, int64(off)); err != nil || !bytes.Equal(p[:m], s.data[off:off+n]) {
					t.Errorf("ReadAt(%d at %d) = %d, %v", n, off, m, err)
				}
			}
		}()
	}
	wg.Wait()

	// All that want the same wait for one.
	r = s.mustOpen("f", nil)
	s.ranges()
	for range 16 {
		wg.Add(1)
		go func() { defer wg.Done(); r.ReadAt(make([]byte, 100), 5_000_000) }()
	}
	wg.Wait()
	if got := s.ranges(); got != "5000000-5065535" {
		t.Errorf("sixteen for the same: %s", got)
	}
}

func TestEmptyFile(t *testing.T) {
	for name, instead := range map[string]func(int, http.ResponseWriter, *http.Request) bool{
		"200": nil, // as Go's own server answers
		"416": func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Range", "bytes */0")
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return true
		},
	} {
		for _, file := range []string{"f", "f.zt"} {
			s := serve(t, 0)
			s.behave(instead)
			r := s.mustOpen(file, nil)
			if n, err := r.ReadAt(make([]byte, 1), 0); r.Size() != 0 || n != 0 || err != io.EOF {
				t.Errorf("%s: size %d, ReadAt = %d, %v", name, r.Size(), n, err)
			}
		}
	}
}

// Each of these answers must be refused at once: asking again would be asking for the same.
func TestAnswersThatAreRefused(t *testing.T) {
	const size = 200_000
	status := func(code int) func(*server, http.ResponseWriter, *http.Request) bool {
		return func(_ *server, w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(code); return true }
	}
	part := func(p partly) func(*server, http.ResponseWriter, *http.Request) bool {
		return func(s *server, w http.ResponseWriter, r *http.Request) bool { return p.serve(s, w, r) }
	}
	for name, c := range map[string]struct {
		class   error // nil: any
		instead func(*server, http.ResponseWriter, *http.Request) bool
	}{
		"the whole file": {ErrNoRanges, func(s *server, w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("ETag", s.etag)
			w.Write(s.data)
			return true
		}},
		"the whole file, length not said": {ErrNoRanges, func(s *server, w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("ETag", s.etag)
			w.(http.Flusher).Flush()
			w.Write(s.data)
			return true
		}},
		"no Content-Range":          {nil, part(partly{header: map[string]string{"Content-Range": ""}})},
		"another unit":              {nil, part(partly{contentRange: "items 0-65535/200000"})},
		"nonsense":                  {nil, part(partly{contentRange: "bytes 0-"})},
		"a sign":                    {nil, part(partly{contentRange: "bytes +0-65535/200000"})},
		"size unknown":              {nil, part(partly{contentRange: "bytes 0-65535/*"})},
		"size too small":            {nil, part(partly{contentRange: "bytes 0-65535/65535"})},
		"backwards":                 {nil, part(partly{contentRange: "bytes 65535-0/200000"})},
		"offset beyond int64":       {nil, part(partly{contentRange: "bytes 9223372036854775808-9223372036854775809/9223372036854775810"})},
		"end beyond int64":          {nil, part(partly{contentRange: "bytes 0-9223372036854775807/9223372036854775807"})},
		"another range":             {nil, part(partly{contentRange: "bytes 1-65536/200000"})},
		"a longer range":            {nil, part(partly{contentRange: "bytes 0-199999/200000", body: make([]byte, 200_000)})},
		"more than announced":       {nil, part(partly{body: make([]byte, 70_000), chunked: true})},
		"another length":            {nil, part(partly{body: make([]byte, 1000)})},
		"compressed":                {errors.ErrUnsupported, part(partly{header: map[string]string{"Content-Encoding": "gzip"}})},
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
			s.behave(func(_ int, w http.ResponseWriter, r *http.Request) bool { return c.instead(s, w, r) })
			_, waited, err := s.open("f", nil)
			if err == nil || c.class != nil && !errors.Is(err, c.class) || len(*waited) != 0 {
				t.Errorf("opened: %v, waited %v", err, *waited)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "remote: "+s.URL+"/f: ") {
				t.Errorf("the message does not say where: %v", err)
			}

			// The same in the middle of the file, when the first answer was good.
			s = serve(t, size)
			s.behave(func(n int, w http.ResponseWriter, r *http.Request) bool { return n > 1 && c.instead(s, w, r) })
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
		"429":     func(_ *server, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) },
		"500":     func(_ *server, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"502":     func(_ *server, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) },
		"503":     func(_ *server, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"504":     func(_ *server, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(504) },
		"hung up": func(*server, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
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
			// net/http asks again by itself when a connection that was used before is hung up.
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

func TestWaitingEnds(t *testing.T) {
	s := serve(t, 1000)
	s.behave(func(_ int, w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(503); return true })
	_, waited, err := s.open("f", nil)
	if err == nil || len(*waited) != 4 || !strings.Contains(err.Error(), "5 attempts") || !strings.Contains(err.Error(), "503") {
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

func TestRetryAfterADate(t *testing.T) {
	now := time.Date(2026, 11, 23, 5, 0, 0, 0, time.UTC)
	for _, want := range []time.Duration{40 * time.Second, 0} {
		if got := retryAfter(now.Add(want).Format(http.TimeFormat), now); got != want {
			t.Errorf("%v from now: %v", want, got)
		}
	}
}

func TestRetryAfter(t *testing.T) {
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

func TestAFileThatChanges(t *testing.T) {
	const size = 500_000
	for name, change := range map[string]func(s *server, w http.ResponseWriter, r *http.Request) bool{
		"another version": func(s *server, _ http.ResponseWriter, _ *http.Request) bool {
			s.etag = `"v2"`
			return false
		},
		"another version, sent as a part": func(s *server, w http.ResponseWriter, r *http.Request) bool {
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
		if _, err := r.ReadAt(make([]byte, 10), 300_000); !errors.Is(err, ErrChanged) || len(*waited) != 0 {
			t.Errorf("%s: %v, waited %v", name, err, *waited)
		}
		if _, err := r.ReadAt(make([]byte, 2_000_000), 300_000); err == nil {
			t.Errorf("%s: a large read succeeds", name)
		}
	}
}

// A server without versions says when the file was last changed.
func TestAFileThatChangesItsDate(t *testing.T) {
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
		got = append(got, r.Header.Get("If-Range"), r.Header.Get("Accept-Encoding"))
		return false
	})
	r := s.mustOpen("f", &Options{Header: http.Header{"range": {"bytes=1-2"}, "If-Range": {"x"}, "accept-encoding": {"br"}}})
	s.wantRead(r, 300_000, 10)
	if fmt.Sprint(got) != `[ identity "v1" identity]` || s.ranges() != "0-65535 300000-365535" {
		t.Errorf("%q", got)
	}
}

func TestCredentialsStayAtHome(t *testing.T) {
	secret := http.Header{"Authorization": {"Bearer s3cret"}, "X-Api-Key": {"s3cret"}, "Cookie": {"s3cret"}}
	s := serve(t, 300_000)
	var other http.Header
	cdn := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		other = r.Header.Clone()
		if r.URL.Path == "/back" {
			http.Redirect(w, r, s.URL+"/at-home", http.StatusFound)
			return
		}
		s.good(w, r)
	}))
	defer cdn.Close()
	var home []string
	s.behave(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		home = append(home, r.URL.Path+" "+r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"))
		switch r.URL.Path {
		case "/f":
			http.Redirect(w, r, cdn.URL+"/blob?signature=s1gned", http.StatusFound)
		case "/round":
			http.Redirect(w, r, cdn.URL+"/back", http.StatusTemporaryRedirect)
		case "/here":
			http.Redirect(w, r, "at-home", http.StatusPermanentRedirect)
		default:
			return false
		}
		return true
	})
	r := s.mustOpen("f", &Options{Header: secret})
	s.wantRead(r, 200_000, 10)
	if all := fmt.Sprint(other); strings.Contains(all, "s3cret") || other.Get("Referer") != "" || other.Get("Range") == "" {
		t.Errorf("another host got %v", other)
	}
	if fmt.Sprint(home) != "[/f Bearer s3crets3cret]" {
		t.Errorf("the redirect was asked for again: %q", home)
	}
	for _, name := range []string{"round", "here"} {
		home = nil
		r = s.mustOpen(name, &Options{Header: secret})
		s.wantRead(r, 200_000, 10)
		if len(home) != 3 || !strings.HasPrefix(home[1], "/at-home Bearer s3cret") {
			t.Errorf("%s: at home: %q", name, home)
		}
	}
	// A password in the address is no other matter.
	pass := strings.Replace(s.URL, "http://", "http://user:s3cret@", 1)
	r, err := Open(t.Context(), pass+"/f", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if strings.Contains(fmt.Sprint(other), "s3cret") || other.Get("Authorization") != "" {
		t.Errorf("another host got %v", other)
	}
}

func TestMessagesKeepSecrets(t *testing.T) {
	s := serve(t, 300_000)
	port := strings.TrimPrefix(s.URL, "http://")
	for _, instead := range []func(http.ResponseWriter, *http.Request){
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://example.org/?token=s3cret", http.StatusFound)
		},
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://localhost/%zz?s3cret")
			w.WriteHeader(302)
		},
		func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.String(), http.StatusFound) },
	} {
		s.behave(func(_ int, w http.ResponseWriter, r *http.Request) bool { instead(w, r); return true })
		_, err := Open(t.Context(), "http://user:s3cret@"+port+"/f?token=s3cret", &Options{Attempts: 1})
		if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "/f") {
			t.Errorf("%v", err)
		}
	}
	for _, address := range []string{"https://user:s3cret@host:port/%zz", "s3cret", "http://s3cret@example.org/", "://s3cret", "https://h\x00?s3cret"} {
		if _, err := Open(t.Context(), address, nil); err == nil || strings.Contains(err.Error(), "s3cret@") || strings.Contains(err.Error(), "s3cret:") || strings.Contains(err.Error(), "?s3cret") {
			t.Errorf("%v", err)
		}
	}
}

func TestRedirectsThatAreNotFollowed(t *testing.T) {
	s := serve(t, 1000)
	for name, to := range map[string]string{
		"in a circle":      s.URL + "/f",
		"to a file":        "file:///etc/passwd",
		"without security": "http://example.org/f",
		"nowhere":          "",
		"nonsense":         "http://[::1",
		"no host":          "http:///f",
		"opaque":           "https:f",
		"another scheme":   "ftp://localhost/f",
	} {
		s.behave(func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			if to != "" {
				w.Header().Set("Location", to)
			}
			w.WriteHeader(http.StatusFound)
			return true
		})
		_, waited, err := s.open("f", nil)
		if err == nil || len(*waited) != 0 {
			t.Errorf("%s: %v, waited %v", name, err, *waited)
		}
		if n := len(strings.Fields(s.ranges())); n > mostHops+1 {
			t.Errorf("%s: %d requests", name, n)
		}
	}
	r, err := newReader(t.Context(), "https://example.org/f", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, to := range []string{
		"https://localhost/f", "https://LOCALHOST./f", "https://a.localhost/f", "https://127.0.0.1/f", "https://127.255.0.9:8443/f",
		"https://[::1]/f", "https://[::ffff:127.0.0.1]/f", "https://[::ffff:0.0.0.0]/f", "https://[::127.0.0.1]/f",
		"https://[64:ff9b::7f00:1]/f", "https://[2002:7f00:1::]/f", "https://0.0.0.0/f", "https://0.1.2.3/f", "https://[::]/f",
		"https://[::1%25lo]/f", "https://0/f", "https://127.1/f", "https://127.0.1/f", "https://2130706433/f", "https://0x7f000001/f",
		"https://0x7f.1/f", "https://0177.0.0.1/f", "https://017700000001/f", "http://example.org/f",
	} {
		resp := &http.Response{Header: http.Header{location: {to}}}
		if u, err := r.redirect(r.url, resp); err == nil {
			t.Errorf("from a public host to %v", u)
		}
	}
}

// A name that a redirect leads to is looked up, and its address checked where the connection is made.
func TestRedirectToANameOfThisMachine(t *testing.T) {
	for address, refused := range map[string]bool{
		"127.0.0.1:443": true, "[::1]:443": true, "0.0.0.0:443": true, "[::ffff:127.0.0.1]:443": true, "[::]:443": true,
		"8.8.8.8:443": false, "10.0.0.1:443": false, "[2606:4700::1111]:443": false,
	} {
		if err := refuseLocal("tcp", address, nil); (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
	s := serve(t, 1000)
	_, p, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	r, err := newReader(t.Context(), "http://example.org/f", &Options{AllowHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// A name that only the resolver knows for this machine stands behind the check of the text.
	to, err := r.redirect(r.url, &http.Response{Header: http.Header{location: {"http://example.com:" + p + "/f"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.redirected.Load(hostPort(to)); !ok {
		t.Errorf("connections to %s are not checked", hostPort(to))
	}
	r.redirected.Store("127.0.0.1:"+p, nil)
	_, err = r.ask(&url.URL{Scheme: "http", Host: "127.0.0.1:" + p, Path: "/f"}, "bytes=0-9")
	var refused *refusedError
	if !errors.As(err, &refused) || s.ranges() != "" {
		t.Errorf("%v, requests %q", err, s.ranges())
	}
}

// An answer of two parts ends, whatever stands before, between and after them.
func TestEndlessMultipart(t *testing.T) {
	s := serve(t, file)
	for name, what := range map[string]string{"preamble": "x\r\n", "headers": "--b\r\nA: b\r\n", "parts": "--b\r\n\r\n"} {
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
func TestTinyAnswers(t *testing.T) {
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

func TestAddressesThatAreNotAsked(t *testing.T) {
	for _, address := range []string{"", "f", "/etc/passwd", "file:///etc/passwd", "ftp://localhost/f", "http://example.org/f", "http://10.0.0.1/f",
		"http://localhost.example.org/f", "https://", "https:///f", "https:opaque", "http://[::1", "javascript:alert(1)"} {
		if r, err := Open(t.Context(), address, nil); err == nil {
			r.Close()
			t.Errorf("%q opened", address)
		}
	}
	for _, o := range []Options{{MaxBytes: -1}, {CacheBytes: -1}, {Attempts: -1}, {Timeout: -1}, {PublicOnly: true, Client: http.DefaultClient}} {
		if _, err := newReader(t.Context(), "https://example.org/f", &o); err == nil {
			t.Errorf("%+v accepted", o)
		}
	}
	if r, err := newReader(t.Context(), "http://example.org/f", &Options{AllowHTTP: true}); err != nil {
		t.Error(err)
	} else {
		r.Close()
	}
}

func TestPublicOnly(t *testing.T) {
	s := serve(t, 1000)
	_, waited, err := s.open("f", &Options{PublicOnly: true})
	var refused *refusedError
	if !errors.As(err, &refused) || len(*waited) != 0 || s.ranges() != "" {
		t.Errorf("%v, waited %v", err, *waited)
	}
	for address, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "2606:4700::1111": true, "192.1.0.1": true, "172.32.0.1": true,
		"127.0.0.1": false, "::1": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.0.1": false, "169.254.169.254": false,
		"fe80::1": false, "fc00::1": false, "fd12::1": false, "0.0.0.0": false, "::": false, "0.1.2.3": false, "100.64.0.1": false,
		"224.0.0.1": false, "255.255.255.255": false, "240.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:8.8.8.8": true,
		"64:ff9b::a00:1": false, "2002:a00:1::": false, "ff02::1": false, "198.18.0.1": false,
	} {
		err := refusePrivate("tcp", net.JoinHostPort(address, "443"), nil)
		if (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
		if a := netip.MustParseAddr(address); err != nil && !strings.Contains(err.Error(), a.Unmap().String()) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// The address that a redirect led to was signed for a while only.
func TestARedirectThatExpires(t *testing.T) {
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

// A server may answer with less than it was asked for.
func TestShorterRanges(t *testing.T) {
	s := serve(t, 3_000_000)
	s.behave(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		var off, last int
		fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &off, &last)
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", off, min(last, off+99_999)))
		return false
	})
	r := s.mustOpen("f", nil)
	s.wantRead(r, 123, 2_500_000)
	s.wantRead(r, 2_900_000, 100_000)
}

func TestUnknownLength(t *testing.T) {
	s := serve(t, 3_000_000)
	s.behave(func(_ int, w http.ResponseWriter, r *http.Request) bool { return partly{chunked: true}.serve(s, w, r) })
	r := s.mustOpen("f", nil)
	s.wantRead(r, 100_000, 10)
	s.wantRead(r, 1_000_000, 1_500_000)
}

func TestASilentServer(t *testing.T) {
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
			s.behave(func(_ int, w http.ResponseWriter, r *http.Request) bool { <-release; return true })
			r.opts.Attempts = 2
			if _, err := r.ReadAt(make([]byte, 1), 2_000_000); err == nil || !strings.Contains(err.Error(), "silent") {
				t.Error(err)
			}
		})
	}
}

func TestContextAndClose(t *testing.T) {
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
			go func() { _, err := r.ReadAt(make([]byte, n), 1_000_000+int64(i/2)*200_000); errs <- err }()
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

func TestBudget(t *testing.T) {
	s := serve(t, 3_000_000)
	r := s.mustOpen("f", &Options{MaxBytes: 200_000})
	s.wantRead(r, 100_000, 10)
	s.ranges()
	s.wantRead(r, 1_000_000, 50_000) // 64 KiB are left, and some
	s.wantRead(r, 2_000_000, 3000)   // nothing ahead any more
	if got := s.ranges(); got != "1000000-1065535 2000000-2002999" {
		t.Error(got)
	}
	_, err := r.ReadAt(make([]byte, 1000), 2_500_000)
	if !errors.Is(err, tensor.ErrLimit) || s.ranges() != "" {
		t.Errorf("%v", err)
	}
	if _, err := r.ReadAt(make([]byte, 1_500_000), 1_000_000); !errors.Is(err, tensor.ErrLimit) {
		t.Errorf("%v", err)
	}
	s.wantRead(r, 0, 1000) // from the cache
	if r.Stats().Bytes > 200_000 {
		t.Errorf("%+v", r.Stats())
	}
	// What the file does not have is not counted.
	s = serve(t, 1000)
	for _, name := range []string{"f", "f.zt"} {
		if r = s.mustOpen(name, &Options{MaxBytes: 500_000}); r.spent != 1000 {
			t.Errorf("%s: %d bytes counted for 1000", name, r.spent)
		}
	}
	if r = s.mustOpen("f", &Options{MaxBytes: 10}); r.Size() != 1000 || r.Stats().Bytes != 10 {
		t.Errorf("%+v", r.Stats())
	}
}

func TestCompanion(t *testing.T) {
	s := serve(t, 1000)
	var got []string
	s.behave(func(_ int, _ http.ResponseWriter, r *http.Request) bool {
		got = append(got, r.URL.RequestURI()+" "+r.Header.Get("X-Key"))
		return false
	})
	r := s.mustOpen("dir/model.pte?token=1", &Options{Header: http.Header{"X-Key": {"k"}}})
	for _, name := range []string{"weights.ptd", "sub/a?b#c%20 ü.ptd"} {
		c, size, err := r.Companion(name)
		if err != nil || size != 1000 {
			t.Fatalf("%d, %v", size, err)
		}
		defer c.(io.Closer).Close()
		p := make([]byte, 10)
		if _, err := c.ReadAt(p, 5); err != nil || !bytes.Equal(p, s.data[5:15]) {
			t.Errorf("%v", err)
		}
	}
	if want := "/dir/model.pte?token=1 k,/dir/weights.ptd k,/dir/sub/a%3Fb%23c%2520%20%C3%BC.ptd k"; strings.Join(got, ",") != want {
		t.Errorf("asked for %q", got)
	}
	for _, name := range []string{"", ".", "..", "../x", "/x", "a/../../x", "a//b", "//host/x", "https://host/x/../../.."} {
		if c, _, err := r.Companion(name); !errors.Is(err, fs.ErrInvalid) || c != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	s.behave(func(_ int, w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(404); return true })
	if c, _, err := r.Companion("missing"); !errors.Is(err, fs.ErrNotExist) || c != nil {
		t.Errorf("%v", err)
	}
	// It outlives the one that opened it.
	s.behave(nil)
	c, _, err := r.Companion("g")
	if err != nil {
		t.Fatal(err)
	}
	defer c.(io.Closer).Close()
	r.Close()
	if _, err := c.ReadAt(make([]byte, 10), 0); err != nil {
		t.Error(err)
	}
}

func TestTLS(t *testing.T) {
	data := make([]byte, 300_000)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/down" {
			http.Redirect(w, r, "http://example.org/f", http.StatusFound)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshakes that fail
	s.StartTLS()
	defer s.Close()
	r, err := Open(t.Context(), s.URL+"/f", &Options{Client: s.Client()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.ReadAt(make([]byte, 10), 200_000); err != nil {
		t.Error(err)
	}
	if _, err := Open(t.Context(), s.URL+"/down", &Options{Client: s.Client()}); err == nil || !strings.Contains(err.Error(), "not encrypted") {
		t.Errorf("%v", err)
	}
	// A certificate that nobody knows: no second attempt.
	r, err = newReader(t.Context(), s.URL+"/f", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.wait = func(context.Context, time.Duration) error { t.Error("tried again"); return errors.New("stop") }
	if err := r.first(); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v", err)
	}
	// https to a server that speaks http.
	plain := serve(t, 10)
	r, err = newReader(t.Context(), strings.Replace(plain.URL, "http:", "https:", 1)+"/f", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.wait = func(context.Context, time.Duration) error { t.Error("tried again"); return errors.New("stop") }
	if err := r.first(); err == nil {
		t.Error("opened")
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	s := serve(t, 3_000_000)
	conns := map[string]bool{}
	s.behave(func(n int, w http.ResponseWriter, r *http.Request) bool {
		conns[r.RemoteAddr] = true
		if r.URL.Path == "/f" {
			http.Redirect(w, r, "/g", http.StatusFound)
			return true
		}
		if n%2 == 0 {
			return partly{chunked: true}.serve(s, w, r)
		}
		return false
	})
	r := s.mustOpen("f", nil)
	for off := 100_000; off < 2_000_000; off += 200_000 {
		s.wantRead(r, off, 10)
	}
	if len(conns) != 1 {
		t.Errorf("%d connections for %d requests", len(conns), r.Stats().Requests)
	}
}
