package source

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadPieceKeepsTheErrorsOfItsReader(t *testing.T) {
	failing := func(s string, err error) io.Reader {
		return io.MultiReader(strings.NewReader(s), iotest.ErrReader(err))
	}
	for name, c := range map[string]struct {
		r    io.Reader
		n    int
		want error
	}{
		"a full piece":             {strings.NewReader("abcdef"), 4, nil},
		"a full piece and the end": {iotest.DataErrReader(strings.NewReader("abcd")), 4, nil},
		"one byte at a time":       {iotest.OneByteReader(strings.NewReader("abcdef")), 4, nil},
		"an early end":             {strings.NewReader("abc"), 3, io.EOF},
		"no bytes":                 {strings.NewReader(""), 0, io.EOF},
		"a truncated stream": {failing("abc", io.ErrUnexpectedEOF), 3,
			io.ErrUnexpectedEOF},
		"a truncated, empty stream": {failing("", io.ErrUnexpectedEOF), 0, io.ErrUnexpectedEOF},
		"an error":                  {failing("ab", io.ErrClosedPipe), 2, io.ErrClosedPipe},
		"neither bytes nor an error": {readerFunc(func([]byte) (int, error) { return 0, nil }), 0,
			io.ErrNoProgress},
	} {
		if n, err := ReadPiece(c.r, make([]byte, 4)); n != c.n || err != c.want {
			t.Errorf("%s: %d, %v; want %d, %v", name, n, err, c.n, c.want)
		}
	}
	bad := readerFunc(func(p []byte) (int, error) { return len(p) + 1, nil })
	if _, err := ReadPiece(bad, make([]byte, 4)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("an impossible count: %v", err)
	}
}

func TestElementsEndsWithTheErrorOfItsReader(t *testing.T) {
	upper := func(p []byte) {
		for i := range p {
			p[i] -= 'a' - 'A'
		}
	}
	for name, c := range map[string]struct {
		in   string
		err  error
		out  string
		want error
	}{
		"whole elements":           {"abcd", io.EOF, "ABCD", nil},
		"an end within an element": {"abc", io.EOF, "AB", io.ErrUnexpectedEOF},
		"truncated after a whole element": {"abcd", io.ErrUnexpectedEOF, "ABCD",
			io.ErrUnexpectedEOF},
		"truncated within an element": {"abc", io.ErrUnexpectedEOF, "AB",
			io.ErrUnexpectedEOF},
		"truncated before the first":     {"", io.ErrUnexpectedEOF, "", io.ErrUnexpectedEOF},
		"an error after a whole element": {"ab", io.ErrClosedPipe, "AB", io.ErrClosedPipe},
		"more than what is read at a time": {strings.Repeat("ab", 5000), io.EOF,
			strings.Repeat("AB", 5000), nil},
	} {
		for _, reader := range []func(io.Reader) io.Reader{
			func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader,
		} {
			in := io.NopCloser(reader(io.MultiReader(strings.NewReader(c.in),
				iotest.ErrReader(c.err))))
			got, err := io.ReadAll(iotest.OneByteReader(Elements(in, 2, upper)))
			if string(got) != c.out || err != c.want {
				t.Errorf("%s: %d bytes, %v; want %d, %v", name, len(got), err, len(c.out), c.want)
			}
		}
	}
}
