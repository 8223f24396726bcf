package tensorfile

import (
	"errors"
	"io"
	"sync"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// edgeSize is what is read of the start of a file at once, and of its end where a
// format looks there: enough for the metadata of most files.
const edgeSize = 64 << 10

// edges is an io.ReaderAt that reads the start of another, and its end, at most once
// each, however often detection and the format's reader look there.
type edges struct {
	r     io.ReaderAt
	size  int64
	ahead bool // r reads ahead by itself

	mu      sync.Mutex
	head    []byte
	tail    []byte
	opening bool  // the tail may be read
	started bool  // the head was read
	err     error // the first of r, other than io.EOF: not taken for an unknown format
}

// companionEdges are those of a tensor.Companion, and one too.
type companionEdges struct {
	*edges
	c tensor.Companion
}

func (e companionEdges) Name() string { return e.c.Name() }

func (e companionEdges) Companion(name string) (io.ReaderAt, int64, error) {
	return e.c.Companion(name)
}

func (e companionEdges) Unfinished() error {
	if unfinished := atomicfile.UnfinishedOf(e.c); unfinished != nil {
		return unfinished()
	}
	return nil
}

func newEdges(r io.ReaderAt, size int64) *edges {
	_, ahead := r.(interface{ ReadsAhead() })
	return &edges{r: r, size: size, ahead: ahead, opening: true}
}

// opened ends the reading ahead: what is asked for from now on is payload.
func (e *edges) opened() {
	e.mu.Lock()
	e.opening = false
	e.mu.Unlock()
}

// ReadAt implements io.ReaderAt.
func (e *edges) ReadAt(p []byte, off int64) (int, error) {
	if off >= 0 && off <= e.size && int64(len(p)) > e.size-off {
		n, err := e.ReadAt(p[:e.size-off], off)
		if err == nil {
			err = io.EOF
		}
		return n, err
	}
	if e.cached(p, off) {
		return len(p), nil
	}
	n, err := e.r.ReadAt(p, off)
	e.note(err)
	return n, err
}

// cached fills p from the start or the end of the file.
func (e *edges) cached(p []byte, off int64) bool {
	n := int64(len(p))
	if e.ahead || off < 0 || n == 0 || off > e.size || n > e.size-off {
		return false
	}
	if n <= edgeSize-off {
		e.readHead()
		return off+n <= int64(len(e.head)) && copy(p, e.head[off:]) == len(p)
	}
	at := max(e.size-edgeSize, edgeSize)
	if off < at {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tail == nil && e.opening {
		e.tail = e.readUpTo(make([]byte, e.size-at), at)
	}
	return off-at+n <= int64(len(e.tail)) && copy(p, e.tail[off-at:]) == len(p)
}

// readHead reads the start of the file, the first time. What cannot be read is absent.
func (e *edges) readHead() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.started {
		e.started = true
		n := int64(edgeSize)
		if e.ahead {
			n = 4 << 10
		}
		e.head = e.readUpTo(make([]byte, min(n, max(e.size, 0))), 0)
	}
}

// readUpTo reads p at off and returns what r had of it. The caller has the lock.
func (e *edges) readUpTo(p []byte, off int64) []byte {
	n := 0
	for n < len(p) {
		k, err := e.r.ReadAt(p[n:], off+int64(n))
		if k < 0 || k > len(p)-n {
			return p[:n:n] // the format's reader asks r itself, and reports it
		}
		n += k
		if err != nil && n < len(p) && !errors.Is(err, io.EOF) && e.err == nil {
			e.err = err
		}
		if err != nil || k == 0 {
			break
		}
	}
	return p[:n:n]
}

func (e *edges) note(err error) {
	if err == nil || errors.Is(err, io.EOF) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = err
	}
}
