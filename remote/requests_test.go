package remote

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

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

func TestBothEndsAreAskedForAtOnce(t *testing.T) {
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

func TestBothEndsAreReadFromServersThatKnowOneRange(t *testing.T) {
	for name, instead := range map[string]func(s *server, w http.ResponseWriter,
		r *http.Request) bool{
		"refuse": func(_ *server, w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return true
		},
		"send all": func(s *server, w http.ResponseWriter,
			_ *http.Request) bool {
			w.Write(s.data)
			return true
		},
		"send the first": func(s *server, w http.ResponseWriter, r *http.Request) bool {
			r.Header.Set("Range", "bytes=0-4095")
			return false
		},
		"hang up": func(_ *server, w http.ResponseWriter,
			_ *http.Request) bool {
			panic(http.ErrAbortHandler)
		},
		"say nonsense": func(_ *server, w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "multipart/byteranges; boundary=x")
			w.WriteHeader(http.StatusPartialContent)
			io.WriteString(w,
				"--x\r\nContent-Range: bytes 0-99999999/100000000\r\n\r\nshort\r\n--x--\r\n")
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
				s.behave(func(n int, w http.ResponseWriter,
					r *http.Request) bool {
					return n == 1 && instead(s, w, r)
				})
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

func TestAnyReadReturnsTheBytesOfTheFile(t *testing.T) {
	for _, size := range []int{1, 100, window - 1, window, window + 1, 3_000_000} {
		for _, name := range []string{"f", "f.zt"} {
			s := serve(t, size)
			r := s.mustOpen(name, &Options{CacheBytes: 500_000})
			rnd := rand.New(rand.NewPCG(1, uint64(size)))
			for range readtest.Entries(300) {
				off := rnd.IntN(size + 10)
				p := make([]byte, rnd.IntN(1+rnd.IntN(1+size*3/2)))
				n, err := r.ReadAt(p, int64(off))
				want := s.data[min(off, size):min(off+len(p), size)]
				if !bytes.Equal(p[:n], want) || (err == io.EOF) != (off+len(p) > size) ||
					err != nil && err != io.EOF {
					t.Fatalf("size %d: ReadAt(%d at %d) = %d, %v", size, len(p), off, n, err)
				}
			}
			if _, err := r.ReadAt(make([]byte, 1), -1); err == nil {
				t.Error("a negative offset is no error")
			}
		}
	}
}

func TestManyGoroutinesReadTheSameBytes(t *testing.T) {
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
				if m, err := r.ReadAt(p, int64(off)); err != nil ||
					!bytes.Equal(p[:m], s.data[off:off+n]) {
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

func TestEmptyFilesOpen(t *testing.T) {
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

// A server may answer with less than it was asked for.
func TestShorterRangesAreCompleted(t *testing.T) {
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

func TestFilesOfUnknownLengthAreRead(t *testing.T) {
	s := serve(t, 3_000_000)
	s.behave(func(_ int, w http.ResponseWriter,
		r *http.Request) bool {
		return partly{chunked: true}.serve(s, w, r)
	})
	r := s.mustOpen("f", nil)
	s.wantRead(r, 100_000, 10)
	s.wantRead(r, 1_000_000, 1_500_000)
}

func TestMaxBytesBoundsWhatIsFetched(t *testing.T) {
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
	// Bytes that the file does not have are not counted.
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
