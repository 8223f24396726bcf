package parallel

import (
	"context"
	"io"
)

// A Stream is an io.ReadCloser of bytes that are made piece by piece on all cores. Pieces
// begin in order and are read in order; the memory of one that was read serves for
// another.
type Stream[J any] struct {
	line        *Line[*J]
	next        func(*J) (cost int64, err error)
	out         func(*J) []byte
	end         func() error
	ready, free []*J   // made, in order; read
	current     []byte // of the piece before ready, not yet read
	err         error  // once ready is empty
}

// NewStream returns a Stream of pieces that cost at most budget together. next begins a
// piece, in one goroutine, and returns io.EOF after the last; work makes it, in several;
// out returns its bytes. Close calls end.
func NewStream[J any](budget int64, next func(*J) (cost int64, err error), work func(*J) error,
	out func(*J) []byte, end func() error) *Stream[J] {
	s := &Stream[J]{next: next, out: out, end: end}
	s.line = New(context.Background(), budget,
		func(_ context.Context, j *J) error { return work(j) },
		func(j *J) error {
			s.ready = append(s.ready, j)
			return nil
		})
	return s
}

func (s *Stream[J]) Read(p []byte) (int, error) {
	for len(s.current) == 0 {
		switch {
		case len(p) == 0:
			return 0, nil
		case len(s.ready) > 0:
			j := s.ready[0]
			s.ready = s.ready[1:]
			s.current = s.out(j)
			s.free = append(s.free, j) // is read before the next piece begins
		case s.err != nil:
			return 0, s.err
		default:
			s.err = s.advance()
		}
	}
	n := copy(p, s.current)
	s.current = s.current[n:]
	return n, nil
}

// advance begins one piece, or at the end waits for all that are under way: io.EOF.
func (s *Stream[J]) advance() error {
	j := new(J)
	if k := len(s.free); k > 0 {
		j, s.free = s.free[k-1], s.free[:k-1]
	}
	cost, err := s.next(j)
	if err == io.EOF {
		if err := s.line.Flush(); err != nil {
			return err
		}
		return io.EOF
	}
	if err != nil {
		return err
	}
	return s.line.Put(j, cost)
}

// Close ends the work and waits for it.
func (s *Stream[J]) Close() error {
	s.line.Close()
	return s.end()
}
