package parallel

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// counting streams pieces of one letter each, 0 to n-1 times.
func counting(n int, fail error) *Stream[struct {
	i   int
	out []byte
}] {
	type piece = struct {
		i   int
		out []byte
	}
	at := 0
	return NewStream(10, func(p *piece) (int64, error) {
		if at == n {
			return 0, io.EOF
		}
		p.i = at
		at++
		return 3, nil
	}, func(p *piece) error {
		if fail != nil && p.i == n/2 {
			return fail
		}
		p.out = append(p.out[:0], strings.Repeat(string(rune('a'+p.i%26)), p.i)...)
		return nil
	}, func(p *piece) []byte { return p.out }, func() error { return errClosed })
}

var errClosed = errors.New("closed")

func TestStreamKeepsTheOrderOfPieces(t *testing.T) {
	var want strings.Builder
	for i := range 100 {
		want.WriteString(strings.Repeat(string(rune('a'+i%26)), i))
	}
	s := counting(100, nil)
	if err := iotest.TestReader(s, []byte(want.String())); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != errClosed {
		t.Errorf("Close returns %v", err)
	}
}

func TestStreamEndsWithTheErrorOfItsPiece(t *testing.T) {
	fail := errors.New("piece")
	s := counting(100, fail)
	defer s.Close()
	b, err := io.ReadAll(s)
	if err != fail {
		t.Errorf("%v", err)
	}
	want := 0
	for i := range 50 {
		want += i
	}
	if len(b) > want {
		t.Errorf("%d bytes of pieces before the error, %d are due at most", len(b), want)
	}
}
