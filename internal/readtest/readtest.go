// Package readtest is what the tests of the format packages share: one file in every
// form in which a package can be given it, readers and writers that misbehave, damaged
// copies of a file, and a measure of memory.
//
// A format package says once what its common API is,
//
//	var api = readtest.API[*Reader]{
//		Open: func(name string, noMap bool) (*Reader, error) {
//			return Open(name, &ReaderOptions{NoMap: noMap})
//		},
//		OpenBytes: func(b []byte) (*Reader, error) { return OpenBytes(b, nil) },
//		NewReader: func(r io.ReaderAt, size int64) (*Reader, error) {
//			return NewReader(r, size, nil)
//		},
//	}
//
// and then runs a test over all four sources:
//
//	api.Each(t, data, func(t *testing.T, r *Reader) { … })
//
// or shows that hostile files are refused in the same words whichever way they come:
//
//	api.Same(t, data, func(r *Reader) string { … })
package readtest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A Source is one form of a file.
type Source struct {
	Name string // mapped, unmapped, bytes, reader

	Path  string // of a file, for the first two
	NoMap bool   // for the second: do not map it

	Bytes []byte // for bytes: a slice of a larger array, which is followed by Canary

	Reader *Counter // for reader: it gives short reads, and counts requests
	Size   int64
}

// Canary follows the bytes of the source of that name, within its capacity: it must
// never appear in anything read.
const Canary = "SECRET-of-another-request"

// WithCanary returns a copy of data that is followed by Canary within its capacity.
func WithCanary(data []byte) []byte {
	b := make([]byte, len(data)+len(Canary))
	copy(b[copy(b, data):], Canary)
	return b[:len(data):len(b)]
}

// shortRead is the most that the reader of Sources gives at once: less than any header
// is common, and no divisor of anything.
const shortRead = 13

// Sources returns data as a file to be mapped, a file not to be mapped, bytes, and a
// counting reader that gives short reads. Close what was opened from the files before
// the test ends.
func Sources(t testing.TB, data []byte) []Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	size := int64(len(data))
	most := shortRead
	if len(data) > 1<<20 {
		most = len(data)/1000 + shortRead // still short, but not for ever
	}
	return []Source{
		{Name: "mapped", Path: path, Size: size},
		{Name: "unmapped", Path: path, NoMap: true, Size: size},
		{Name: "bytes", Bytes: WithCanary(data), Size: size},
		{Name: "reader", Reader: Count(Short(bytes.NewReader(data), most)), Size: size},
	}
}

// An API is how a package opens its format. R is its reader.
type API[R io.Closer] struct {
	Open      func(name string, noMap bool) (R, error)
	OpenBytes func(b []byte) (R, error)
	NewReader func(r io.ReaderAt, size int64) (R, error)
}

// OpenSource opens s by the function that is meant for its form.
func (f API[R]) OpenSource(s Source) (R, error) {
	switch {
	case s.Path != "":
		return f.Open(s.Path, s.NoMap)
	case s.Reader != nil:
		return f.NewReader(s.Reader, s.Size)
	default:
		return f.OpenBytes(s.Bytes)
	}
}

// Each opens data in all four forms, and runs test with each reader as a subtest named
// after the form. Readers are closed afterwards, which must not fail, even if test has
// closed them already.
func (f API[R]) Each(t *testing.T, data []byte, test func(t *testing.T, r R)) {
	t.Helper()
	for _, s := range Sources(t, data) {
		t.Run(s.Name, func(t *testing.T) {
			r, err := f.OpenSource(s)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := r.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}()
			test(t, r)
		})
	}
}

// Same opens data in all four forms and requires that describe says the same of each
// reader, or that opening fails with the same message each time. It returns that text,
// or the message of the error.
func (f API[R]) Same(t testing.TB, data []byte, describe func(r R) string) string {
	t.Helper()
	var first string
	for i, s := range Sources(t, data) {
		text := func() string {
			r, err := f.OpenSource(s)
			if err != nil {
				return err.Error()
			}
			defer r.Close()
			return describe(r)
		}()
		if i == 0 {
			first = text
		} else if text != first {
			t.Fatalf("%s: %s\nmapped: %s", s.Name, cut(text), cut(first))
		}
	}
	return first
}

// cut keeps messages readable.
func cut(s string) string {
	if len(s) > 2000 {
		return fmt.Sprintf("%s… (%d bytes)", s[:2000], len(s))
	}
	return s
}
