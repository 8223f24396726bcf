package inspect

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/tensorfile/tensorfile/internal/memory"
	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	// pieceSize is how many bytes are read at a time: a whole number of elements of every
	// dtype, also of 6 bits.
	pieceSize = 3 << 18
	// budget bounds the bytes of all pieces at a time.
	budget = 16 << 20
)

// eachPiece reads one or more blobs of the same size in pieces. It calls work on all
// cores with a piece of each blob, and use with the results in order. Blobs with a digest
// are streamed, which checks it; workers read the pieces of other blobs at random.
func eachPiece[R any](ctx context.Context, blobs []tensor.Blob, progress counter,
	work func(off int64, ps [][]byte, r *R) error, use func(r *R) error) error {
	return readPieces(ctx, blobs, progress, func() any { return new(R) },
		func(off int64, ps [][]byte, r any) error { return work(off, ps, r.(*R)) },
		func(r any) error { return use(r.(*R)) })
}

// readPieces is eachPiece, compiled once for all types of results.
func readPieces(ctx context.Context, blobs []tensor.Blob, progress counter, result func() any,
	work func(off int64, ps [][]byte, r any) error, use func(r any) error) error {
	p := &pieceReader{blobs: blobs, size: blobs[0].Size(), progress: progress, result: result,
		work: work, use: use}
	if p.size < 0 {
		p.size = math.MaxInt64 // until the stream ends
	}
	defer p.close()
	if err := p.open(); err != nil {
		return err
	}
	if p.size <= pieceSize && len(p.closers) == 0 {
		return p.processSingle(ctx)
	}
	line := parallel.New(ctx, budget, p.process, p.finish)
	defer line.Close()
	for off := int64(0); off < p.size; {
		j, err := p.next(off)
		if err != nil {
			return err
		}
		if j.n == 0 {
			break
		}
		if err := line.Put(j, int64(j.n)*int64(len(blobs))); err != nil {
			return err
		}
		off += int64(j.n)
	}
	if err := line.Flush(); err != nil {
		return err
	}
	return p.checkEnds()
}

// A pieceReader is the state of a call of readPieces.
type pieceReader struct {
	blobs    []tensor.Blob
	size     int64       // of each blob; math.MaxInt64 if it is not known
	streams  []io.Reader // by blob; nil: read at random
	closers  []io.Closer // of the streams
	borrowed [][]byte    // by blob: its bytes, if they are in memory or mapped
	mapped   [][]byte    // slices of borrowed that can fault
	free     []*pieceJob

	progress counter
	result   func() any
	work     func(off int64, ps [][]byte, r any) error
	use      func(r any) error
}

// A pieceJob is a piece of each blob.
type pieceJob struct {
	off  int64
	n    int
	bufs [][]byte
	ps   [][]byte
	r    any
}

func (p *pieceReader) open() error {
	p.streams, p.borrowed = make([]io.Reader, len(p.blobs)), make([][]byte, len(p.blobs))
	for i, b := range p.blobs {
		m, ok := b.Memory()
		if !ok && readsAtRandom(b) {
			if ok = true; p.size > pieceSize {
				if m, _ = b.Bytes(); m != nil {
					p.mapped = append(p.mapped, m)
				}
			}
		}
		if ok {
			p.borrowed[i] = m
			continue
		}
		r, err := b.Open()
		if err != nil {
			return err
		}
		p.streams[i], p.closers = r, append(p.closers, r)
	}
	return nil
}

func (p *pieceReader) close() {
	for _, c := range p.closers {
		c.Close()
	}
}

// processSingle does the work for blobs of one piece that are not streamed.
func (p *pieceReader) processSingle(ctx context.Context) error {
	if err := ctx.Err(); err != nil || p.size == 0 {
		return err
	}
	j, err := p.next(0)
	if err != nil {
		return err
	}
	if err := p.process(ctx, j); err != nil {
		return err
	}
	return p.finish(j)
}

// next returns the job at off, with the pieces of streams. At the end of a stream of
// unknown size it sets p.size.
func (p *pieceReader) next(off int64) (*pieceJob, error) {
	var j *pieceJob
	if k := len(p.free); k > 0 {
		j, p.free = p.free[k-1], p.free[:k-1]
	} else {
		n := len(p.blobs)
		j = &pieceJob{bufs: make([][]byte, n), ps: make([][]byte, n), r: p.result()}
	}
	j.off, j.n = off, int(min(pieceSize, p.size-off))
	for i, r := range p.streams {
		if p.borrowed[i] == nil && j.bufs[i] == nil {
			j.bufs[i] = make([]byte, j.n)
		}
		if r == nil {
			continue
		}
		n, err := io.ReadFull(r, j.bufs[i][:j.n])
		if p.size == math.MaxInt64 && (err == io.EOF || err == io.ErrUnexpectedEOF) {
			p.size, j.n = off+int64(n), n
			if i > 0 {
				return nil, fmt.Errorf("inspect: data of unknown size is not compared: %w",
					tensor.ErrMalformed)
			}
		} else if err != nil {
			return nil, shortRead(err)
		}
		j.ps[i] = j.bufs[i][:j.n]
	}
	return j, nil
}

// process reads the pieces that are not streamed, and does the work.
func (p *pieceReader) process(_ context.Context, j *pieceJob) error {
	for i, b := range p.blobs {
		if p.streams[i] != nil {
			continue
		}
		if m := p.borrowed[i]; m != nil {
			j.ps[i] = m[j.off : j.off+int64(j.n)]
			continue
		}
		j.ps[i] = j.bufs[i][:j.n]
		if n, err := b.ReadAt(j.ps[i], j.off); n < j.n {
			return shortRead(err)
		}
	}
	work := func() error { return p.work(j.off, j.ps, j.r) }
	for _, m := range p.mapped {
		inner := work
		work = func() error { return memory.Guard(m, inner) }
	}
	return work()
}

func (p *pieceReader) finish(j *pieceJob) error {
	p.progress.add(int64(j.n) * int64(len(p.blobs)))
	err := p.use(j.r)
	p.free = append(p.free, j)
	return err
}

// checkEnds fails if a stream has more data. Reading to the end checks digests.
func (p *pieceReader) checkEnds() error {
	for _, r := range p.streams {
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

// readsAtRandom reports whether b is stored raw and has no digest.
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
