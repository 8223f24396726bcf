package remote

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// A gate counts requests that are under way, and holds those from an offset on until so
// many are held at once.
type gate struct {
	mu       sync.Mutex
	now, max int
	off      int64
	need     int
	held     int
	open     chan struct{}
}

func (g *gate) pass(s *server) func(int, http.ResponseWriter, *http.Request) bool {
	g.open = make(chan struct{})
	return func(_ int, w http.ResponseWriter, r *http.Request) bool {
		var off int64
		fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &off)
		g.mu.Lock()
		g.now++
		g.max = max(g.max, g.now)
		if isHeld := g.need > 0 && off >= g.off; isHeld {
			if g.held++; g.held == g.need {
				close(g.open)
			}
			g.mu.Unlock()
			select {
			case <-g.open:
			case <-r.Context().Done():
			}
			g.mu.Lock()
		}
		g.mu.Unlock()
		s.good(w, r)
		g.mu.Lock()
		g.now--
		g.mu.Unlock()
		return true
	}
}

// kept returns the bytes of blocks.
func (r *Reader) kept() (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.blocks {
		n += b.end - b.off
	}
	return n
}

// readInOrder reads all of r in steps.
func readInOrder(t *testing.T, s *server, r *Reader, step int, each func()) {
	t.Helper()
	p := make([]byte, step)
	for off := 0; off < len(s.data); off += step {
		n, err := r.ReadAt(p, int64(off))
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if !bytes.Equal(p[:n], s.data[off:off+n]) {
			t.Fatalf("other bytes at %d", off)
		}
		each()
	}
}

func TestReadingInOrderHasSeveralRequestsUnderWay(t *testing.T) {
	const size = 128<<20 + 12345
	steps := []int{3_000_000, 10_000, 1 << 20}
	if testing.Short() {
		steps = steps[:1]
	}
	for _, step := range steps {
		s := serve(t, size)
		g := &gate{off: 48 << 20, need: 4}
		s.behave(g.pass(s))
		r := s.mustOpen("f", &Options{InFlight: 4})
		readInOrder(t, s, r, step, func() {
			if n := r.kept(); n > 4*blockSize {
				t.Fatalf("%d bytes are kept", n)
			}
		})
		st := r.Stats()
		if g.max != 4 || st.Bytes != size || st.Requests > 40 {
			t.Errorf("steps of %d: %d at once, %+v", step, g.max, st)
		}
		r.Close()
		if n := r.client.blocks.Load(); n != 0 || len(r.client.buffers.free) != 0 {
			t.Errorf("%d blocks, %d buffers after Close", n, len(r.client.buffers.free))
		}
	}
}

// Workers that take the next tensor in turn read the file in order together.
func TestReadingInOrderByTurnsIsReadAhead(t *testing.T) {
	const size, piece = 96 << 20, 2_000_000
	s := serve(t, size)
	g := &gate{}
	s.behave(g.pass(s))
	r := s.mustOpen("f", &Options{InFlight: 4})
	next := make(chan int)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			p := make([]byte, 500_000)
			for from := range next {
				for off := from; off < min(from+piece, size); off += len(p) {
					if n, err := r.ReadAt(p, int64(off)); err != nil && err != io.EOF ||
						!bytes.Equal(p[:n], s.data[off:off+n]) {
						t.Errorf("at %d: %v", off, err)
					}
				}
			}
		})
	}
	for off := 0; off < size; off += piece {
		next <- off
	}
	close(next)
	wg.Wait()
	if st := r.Stats(); st.Requests > 60 || st.Bytes > size*11/10 || g.max > 4+3 {
		t.Errorf("%+v, %d at once", st, g.max)
	}
}

// A worker that falls behind fetches nothing again of what the others have read.
func TestSlowWorkersFetchNothingAgain(t *testing.T) {
	const size, step = 96 << 20, 1 << 20
	for _, late := range []int{0, 1 << 20, 9 << 20, 17 << 20} {
		if testing.Short() && late != 9<<20 {
			continue
		}
		s := serve(t, size)
		r := s.mustOpen("f", &Options{InFlight: 4})
		slow := late
		for off := 0; off < size; off += step {
			if off != late {
				s.wantRead(r, off, step)
			}
			if off > late && slow < late+step {
				s.wantRead(r, slow, step/64)
				slow += step / 64
			}
		}
		if n := r.Stats().Bytes; n > size+step {
			t.Errorf("%d bytes for %d, with what is at %d read slowly", n, size, late)
		}
	}
}

func TestALargeReadIsSeveralRequests(t *testing.T) {
	s := serve(t, 50<<20)
	g := &gate{off: 5_000_000, need: 3}
	s.behave(g.pass(s))
	r := s.mustOpen("f", &Options{InFlight: 3})
	s.ranges()
	s.wantRead(r, 5_000_000, 5*blockSize-1000)
	if st := r.Stats(); g.max != 3 || st.Requests != 6 || st.Bytes != window+5*blockSize-1000 {
		t.Errorf("%+v, %d at once", st, g.max)
	}
	s.behave(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		http.Error(w, "gone", http.StatusGone)
		return true
	})
	n := r.Stats().Requests
	if _, err := r.ReadAt(make([]byte, 5*blockSize), 5_000_000); err == nil ||
		r.Stats().Requests > n+6 {
		t.Errorf("%v, %+v", err, r.Stats())
	}
}

// The bytes that are fetched ahead are at most twice what was read, and a look at single
// places fetches nothing ahead.
func TestReadingAheadIsProportional(t *testing.T) {
	s := serve(t, 96<<20)
	r := s.mustOpen("f", nil)
	const read = 12 << 20
	for off := 0; off < read; off += 1 << 20 {
		s.wantRead(r, off, 1<<20)
	}
	r.fetching.Wait()
	if n := r.Stats().Bytes; n > 3*read {
		t.Errorf("%d bytes for %d", n, read)
	}
	r = s.mustOpen("f", nil)
	for i := range 20 {
		s.wantRead(r, i*37%96<<20, 1000)
	}
	if n := r.Stats().Bytes; n > 21*window {
		t.Errorf("%d bytes for single places", n)
	}
	r = s.mustOpen("f", &Options{MaxBytes: 30 << 20})
	for off := 0; off < 30<<20; off += 1 << 20 {
		s.wantRead(r, off, 1<<20)
	}
	if _, err := r.ReadAt(make([]byte, 1<<20), 30<<20); !errors.Is(err, tensor.ErrLimit) {
		t.Error(err)
	}
}

func TestReadingAheadThatFailsIsTheErrorOfItsRead(t *testing.T) {
	s := serve(t, 64<<20)
	for name, want := range map[string]error{"changes": ErrChanged, "is gone": nil} {
		s.behave(nil)
		r := s.mustOpen("f", nil)
		s.behave(func(_ int, w http.ResponseWriter, req *http.Request) bool {
			var off int64
			fmt.Sscanf(req.Header.Get("Range"), "bytes=%d-", &off)
			switch {
			case off < 24<<20:
				return false
			case want == nil:
				http.Error(w, "gone", http.StatusGone)
			default:
				w.WriteHeader(http.StatusPreconditionFailed)
			}
			return true
		})
		var err error
		off := int64(0)
		for p := make([]byte, 1<<20); err == nil; off += 1 << 20 {
			_, err = r.ReadAt(p, off)
		}
		if want != nil && !errors.Is(err, want) || off < 16<<20 {
			t.Errorf("a file that %s: %v at %d", name, err, off)
		}
		r.Close()
		if n := r.client.blocks.Load(); n != 0 {
			t.Errorf("%d blocks after Close", n)
		}
	}
}

// Files of one client share its blocks; those that nobody reads on with are given up.
func TestBlocksAreOfTheClient(t *testing.T) {
	s := serve(t, 96<<20)
	c, err := NewClient(&Options{InFlight: 2})
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Open(t.Context(), s.URL+"/a")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for off := 0; off < 20<<20; off += 1 << 20 {
		s.wantRead(a, off, 1<<20)
	}
	b, err := c.Open(t.Context(), s.URL+"/b")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	readInOrder(t, s, b, 1<<20, func() {
		if n := a.kept() + b.kept(); n > 2*blockSize {
			t.Fatalf("%d bytes are kept", n)
		}
	})
	readInOrder(t, s, a, 1<<20, func() {})
	if n := a.Stats().Bytes + b.Stats().Bytes; n > 3*96<<20 {
		t.Errorf("%d bytes", n)
	}
}
