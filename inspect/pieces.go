package inspect

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	// pieceSize is how many bytes are read at a time: whole elements of every width, 6
	// bits too.
	pieceSize = 3 << 18
	// budget bounds the bytes of pieces under way.
	budget = 16 << 20
)

// eachPiece reads blobs of the same size, at least one, in pieces side by side; work
// gets one piece of each and runs on all cores, use gets its results in order. Blobs
// with a digest are streamed, so that it is checked; of others the workers read their
// own pieces.
func eachPiece[R any](ctx context.Context, blobs []tensor.Blob, progress Progress,
	work func(off int64, ps [][]byte, r *R) error, use func(r *R) error) error {
	return readPieces(ctx, blobs, progress, func() any { return new(R) },
		func(off int64, ps [][]byte, r any) error { return work(off, ps, r.(*R)) },
		func(r any) error { return use(r.(*R)) })
}

// readPieces is eachPiece, compiled once for all types of results.
func readPieces(ctx context.Context, blobs []tensor.Blob, progress Progress, result func() any,
	work func(off int64, ps [][]byte, r any) error, use func(r any) error) error {
	size := blobs[0].Size()
	if size < 0 {
		size = math.MaxInt64 // until the stream ends
	}
	streams := make([]io.Reader, len(blobs)) // nil: read at random
	borrowed := make([][]byte, len(blobs))   // in memory, or mapped
	for i, b := range blobs {
		m, ok := b.Memory()
		if !ok && readsAtRandom(b) {
			if ok = true; size > pieceSize {
				m, _ = b.Bytes() // workers turn a fault into an error
			}
		}
		if ok {
			borrowed[i] = m
			continue
		}
		r, err := b.Open()
		if err != nil {
			return err
		}
		defer r.Close()
		streams[i] = r
	}
	type job struct {
		off  int64
		n    int
		bufs [][]byte
		ps   [][]byte
		r    any
	}
	newJob := func() *job {
		return &job{bufs: make([][]byte, len(blobs)), ps: make([][]byte, len(blobs)), r: result()}
	}
	var free []*job
	process := func(_ context.Context, j *job) error {
		for i, b := range blobs {
			if streams[i] != nil {
				continue
			}
			if m := borrowed[i]; m != nil {
				j.ps[i] = m[j.off : j.off+int64(j.n)]
				continue
			}
			j.ps[i] = j.bufs[i][:j.n]
			if n, err := b.ReadAt(j.ps[i], j.off); n < j.n {
				return shortRead(err)
			}
		}
		return work(j.off, j.ps, j.r)
	}
	finish := func(j *job) error {
		progress.add(int64(j.n) * int64(len(blobs)))
		err := use(j.r)
		free = append(free, j)
		return err
	}
	if isOne := size <= pieceSize &&
		!slices.ContainsFunc(streams, func(r io.Reader) bool { return r != nil }); isOne {
		j := newJob()
		j.n = int(size)
		for i := range blobs {
			if borrowed[i] == nil {
				j.bufs[i] = make([]byte, size)
			}
		}
		if err := ctx.Err(); err != nil || size == 0 {
			return err
		}
		if err := process(ctx, j); err != nil {
			return err
		}
		return finish(j)
	}
	line := parallel.New(ctx, budget, process, finish)
	defer line.Close()
	for off := int64(0); off < size; {
		var j *job
		if k := len(free); k > 0 {
			j, free = free[k-1], free[:k-1]
		} else {
			j = newJob()
		}
		j.off, j.n = off, int(min(pieceSize, size-off))
		for i := range blobs {
			if borrowed[i] != nil {
				continue
			}
			if j.bufs[i] == nil {
				j.bufs[i] = make([]byte, j.n)
			}
			if streams[i] == nil {
				continue
			}
			n, err := io.ReadFull(streams[i], j.bufs[i][:j.n])
			if size == math.MaxInt64 && (err == io.EOF || err == io.ErrUnexpectedEOF) {
				size, j.n = off+int64(n), n // the end of a stream of unknown size, or of all
				if i > 0 {
					return fmt.Errorf("inspect: data of unknown size is not compared: %w",
						tensor.ErrMalformed)
				}
			} else if err != nil {
				return shortRead(err)
			}
			j.ps[i] = j.bufs[i][:j.n]
		}
		off += int64(j.n)
		if j.n == 0 {
			break
		}
		if err := line.Put(j, int64(j.n)*int64(len(blobs))); err != nil {
			return err
		}
	}
	if err := line.Flush(); err != nil {
		return err
	}
	for _, r := range streams { // a digest is checked at the end
		if r == nil {
			continue
		}
		var one [1]byte
		if n, err := io.ReadFull(r, one[:]); n > 0 {
			return fmt.Errorf("%w: more data than its size says", tensor.ErrMalformed)
		} else if err != io.EOF {
			return err
		}
	}
	return nil
}

// readsAtRandom reports whether b is stored plain and has no digest to check.
func readsAtRandom(b tensor.Blob) bool {
	st, ok := b.Stored()
	return ok && st.Encoding == "raw" && st.Digest == "" && b.Size() >= 0
}

func shortRead(err error) error {
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
