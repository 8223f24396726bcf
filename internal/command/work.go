package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"

	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// inOrder works on jobs on all cores and emits the results in order. jobs and emit
// run in the goroutine of the caller. It stops early when the context ends.
func inOrder[J, T any](ctx context.Context, jobs iter.Seq[J], work func(J) T, emit func(J, T)) {
	type slot struct {
		j      J
		result T
	}
	line := parallel.New(ctx, 0, func(_ context.Context, s *slot) error {
		s.result = work(s.j)
		return nil
	}, func(s *slot) error {
		emit(s.j, s.result)
		return nil
	})
	defer line.Close()
	for j := range jobs {
		if line.Put(&slot{j: j}, 0) != nil {
			return
		}
	}
	line.Flush()
}

// upTo yields 0 to n-1.
func upTo(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// A ctxReader reads until its context ends.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// readAll reads a blob into memory of its own, until ctx ends.
func readAll(ctx context.Context, b tensor.Blob) ([]byte, error) {
	var all bytes.Buffer
	err := stream(ctx, b, nil, func(p []byte) { all.Write(p) })
	return all.Bytes(), err
}

// stream calls f with all bytes of a blob in pieces, none of which but the last
// ends within an element. It reads through a copy, so
// that a file that somebody truncates meanwhile is an error and no crash. The bar
// hears of every piece.
func stream(ctx context.Context, b tensor.Blob, bar *bar, f func(p []byte)) error {
	r, err := b.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	from := ctxReader{ctx, r}
	const piece = 3 << 18 // a whole number of elements of every width, 6 bits included
	size := b.Size()
	if size < 0 || size > piece {
		size = piece
	}
	buf := make([]byte, max(size, 1))
	for {
		n, err := source.ReadPiece(from, buf)
		f(buf[:n])
		bar.add(int64(n))
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// isInterrupt tells an error that only says that the user has had enough.
func isInterrupt(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
