package readtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// ErrInjected is what the failing readers and writers of this package return.
var ErrInjected = errors.New("readtest: injected failure")

// A Read is one request of a reader.
type Read struct {
	Off int64
	N   int
}

// A Counter is an io.ReaderAt that remembers what was asked of it. A call that goes on
// where the one before was answered short is the same request.
type Counter struct {
	r     io.ReaderAt
	mu    sync.Mutex
	reads []Read
	rest  Read // what the last answer left out
}

// NewCounter counts the requests to data.
func NewCounter(data []byte) *Counter { return Count(bytes.NewReader(data)) }

// Count counts the requests to r.
func Count(r io.ReaderAt) *Counter { return &Counter{r: r} }

func (c *Counter) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.r.ReadAt(p, off)
	c.mu.Lock()
	defer c.mu.Unlock()
	if asked := (Read{off, len(p)}); c.rest.N == 0 || c.rest != asked {
		c.reads = append(c.reads, asked)
	}
	c.rest = Read{off + int64(n), len(p) - n}
	return n, err
}

// Reads returns the requests so far, in order.
func (c *Counter) Reads() []Read {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.reads)
}

// Calls is the number of requests so far.
func (c *Counter) Calls() int { return len(c.Reads()) }

// Bytes is the number of bytes that were asked for so far.
func (c *Counter) Bytes() (n int64) {
	for _, r := range c.Reads() {
		n += int64(r.N)
	}
	return n
}

// Reset forgets the requests.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads, c.rest = nil, Read{}
}

// ReaderFunc is an io.ReaderAt made of a function.
type ReaderFunc func(p []byte, off int64) (int, error)

func (f ReaderFunc) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

// Short serves every read of r with most bytes at most, and without the error that
// io.ReaderAt asks for then.
func Short(r io.ReaderAt, most int) io.ReaderAt {
	return ReaderFunc(func(p []byte, off int64) (int, error) {
		return r.ReadAt(p[:min(most, len(p))], off)
	})
}

// Failing reads as r does up to byte at, and returns ErrInjected for what follows
// it.
func Failing(r io.ReaderAt, at int64) io.ReaderAt { return ending(r, at, ErrInjected) }

// Truncating reads as r does up to byte at, where the file ends although more was
// promised.
func Truncating(r io.ReaderAt, at int64) io.ReaderAt { return ending(r, at, io.EOF) }

func ending(r io.ReaderAt, at int64, end error) io.ReaderAt {
	return ReaderFunc(func(p []byte, off int64) (int, error) {
		if off >= at {
			return 0, end
		}
		if int64(len(p)) <= at-off {
			return r.ReadAt(p, off)
		}
		n, err := r.ReadAt(p[:at-off], off)
		if err == nil || err == io.EOF {
			err = end
		}
		return n, err
	})
}

// Slow waits before each read of r.
func Slow(r io.ReaderAt, wait time.Duration) io.ReaderAt {
	return ReaderFunc(func(p []byte, off int64) (int, error) {
		time.Sleep(wait)
		return r.ReadAt(p, off)
	})
}

// Changing reads as r does the first time, and with every bit of each byte turned over
// when a byte is read again: what was checked is then no longer what is there.
func Changing(r io.ReaderAt) io.ReaderAt {
	var mu sync.Mutex
	seen := map[int64]bool{}
	return ReaderFunc(func(p []byte, off int64) (int, error) {
		n, err := r.ReadAt(p, off)
		mu.Lock()
		defer mu.Unlock()
		for i := range p[:max(n, 0)] {
			if at := off + int64(i); seen[at] {
				p[i] = ^p[i]
			} else {
				seen[at] = true
			}
		}
		return n, err
	})
}

// A Liar is an io.ReaderAt that breaks the contract.
type Liar struct {
	Name string
	io.ReaderAt
}

// Liars returns readers of data that break the contract of io.ReaderAt in every way
// that a reader can believe. Each one must be an error, whatever it is used for.
func Liars(data []byte) []Liar {
	r := bytes.NewReader(data)
	answer := func(lie func(n int) (int, error)) io.ReaderAt {
		return ReaderFunc(func(p []byte, off int64) (int, error) {
			n, _ := r.ReadAt(p, off)
			return lie(n)
		})
	}
	return []Liar{
		{"more bytes than asked for", answer(func(n int) (int, error) { return n + 1, nil })},
		{"the largest int", answer(func(int) (int, error) { return int(^uint(0) >> 1), nil })},
		{"a negative count", answer(func(int) (int, error) { return -1, nil })},
		{"a negative count at the end", answer(func(int) (int, error) { return -1, io.EOF })},
		{"nothing, and no error", answer(func(int) (int, error) { return 0, nil })},
		{"nothing, at the end", answer(func(int) (int, error) { return 0, io.EOF })},
		{"half, at the end", answer(func(n int) (int, error) { return n / 2, io.EOF })},
		{"half, and a failure", answer(func(n int) (int, error) { return n / 2, ErrInjected })},
	}
}

// FailingWriter passes the first after bytes on to w and returns ErrInjected from there.
func FailingWriter(w io.Writer,
	after int64) io.Writer {
	return &failingWriter{w, after, ErrInjected}
}

// ShortWriter passes the first after bytes on to w; then it claims to have written less
// than it got, without an error.
func ShortWriter(w io.Writer, after int64) io.Writer { return &failingWriter{w, after, nil} }

type failingWriter struct {
	w    io.Writer
	left int64
	err  error
}

func (f *failingWriter) Write(p []byte) (int, error) {
	if int64(len(p)) <= f.left {
		n, err := f.w.Write(p)
		f.left -= int64(n)
		return n, err
	}
	n, err := f.w.Write(p[:f.left])
	f.left -= int64(n)
	if err == nil {
		err = f.err
	}
	return n, err
}

// countingWriter counts what it throws away.
type countingWriter int64

func (c *countingWriter) Write(p []byte) (int, error) {
	*c += countingWriter(len(p))
	return len(p), nil
}

// FailedWrites runs write against a writer that fails after n bytes, for every n short
// of the length of the output (or for some thousand of them, if it is long: every n
// near the start and the end, and steps in between), or with -short every Stride-th of
// these, and the last. It returns the complaint about the first n for which write did
// not answer the writer's error, nil if there is none.
// Output is expected to be the same each time.
func FailedWrites(write func(w io.Writer) error) error {
	var size countingWriter
	if err := write(&size); err != nil {
		return fmt.Errorf("write to a sound writer: %w", err)
	}
	const dense = 1024
	total := int64(size)
	step := max(1, (total-2*dense)/dense)
	tried, stride := 0, Stride()
	for n := int64(0); n < total; n++ {
		if n > dense && n < total-dense-step {
			n += step - 1
		}
		if tried++; tried%stride != 1%stride && n < total-1 {
			continue
		}
		switch err := write(FailingWriter(io.Discard, n)); {
		case err == nil:
			return fmt.Errorf("no error although the writer failed after %d of %d bytes", n, total)
		case !errors.Is(err, ErrInjected):
			return fmt.Errorf("the writer failed after %d of %d bytes; the error returned is: %w",
				n, total, err)
		}
	}
	if err := write(ShortWriter(io.Discard, total/2)); total > 0 && err == nil {
		return fmt.Errorf("no error although the writer took only %d of %d bytes", total/2, total)
	}
	return nil
}

// A WriterLiar is an io.Writer that breaks the contract.
type WriterLiar struct {
	Name string
	io.Writer
}

// LyingWriters returns writers that break the contract of io.Writer once they have got
// after bytes. Writing to each one must be an error, and no panic.
func LyingWriters(after int64) []WriterLiar {
	lie := func(count func(n int) int) io.Writer {
		return &lyingWriter{left: after, count: count}
	}
	return []WriterLiar{
		{"one byte more than it was given", lie(func(n int) int { return n + 1 })},
		{"the largest int", lie(func(int) int { return int(^uint(0) >> 1) })},
		{"a negative count", lie(func(int) int { return -1 })},
		{"the least int", lie(func(int) int { return -int(^uint(0)>>1) - 1 })},
		{"nothing, and no error", lie(func(int) int { return 0 })},
	}
}

type lyingWriter struct {
	left  int64
	count func(n int) int
}

func (l *lyingWriter) Write(p []byte) (int, error) {
	if l.left -= int64(len(p)); l.left >= 0 || len(p) == 0 {
		return len(p), nil
	}
	return l.count(len(p)), nil
}
