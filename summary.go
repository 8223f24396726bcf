package tensorfile

import (
	"context"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Summary is what fits on a line about a file.
type Summary struct {
	Format     Format
	Version    string
	Size       int64 // of the file
	Tensors    int64
	Parameters int64 // elements of all tensors, at most math.MaxInt64
	Bytes      int64 // decoded, of all tensors whose size is known
	ByDType    map[tensor.DType]Total
	Blobs      int64
	Attributes map[string]string
}

// A Total sums up the tensors of one element type.
type Total struct{ Tensors, Parameters, Bytes int64 }

// Summary walks the metadata once.
func (f *File) Summary() Summary {
	s := Summary{
		Format: f.format, Version: f.Version(), Size: f.size,
		ByDType: map[tensor.DType]Total{}, Attributes: maps.Collect(f.Attributes()),
	}
	var all Total
	for t := range f.Tensors() {
		n, _ := t.Shape.Elements()
		size := t.Size()
		if t.External {
			size, _ = t.DType.Bytes(n)
		}
		one := Total{1, n, max(size, 0)}
		all = all.plus(one)
		s.ByDType[t.DType] = s.ByDType[t.DType].plus(one)
	}
	s.Tensors, s.Parameters, s.Bytes = all.Tensors, all.Parameters, all.Bytes
	for range f.Blobs() {
		s.Blobs++
	}
	return s
}

func (t Total) plus(u Total) Total {
	sum := func(a, b int64) int64 {
		if c, ok := align.Add(a, b); ok {
			return c
		}
		return math.MaxInt64
	}
	return Total{t.Tensors + u.Tensors, sum(t.Parameters, u.Parameters), sum(t.Bytes, u.Bytes)}
}

// String writes the summary on one line.
func (s Summary) String() string {
	line := s.Format.String()
	if s.Version != "" {
		line += " " + s.Version
	}
	line += fmt.Sprintf(": %d tensors, %d parameters, %d bytes", s.Tensors, s.Parameters, s.Bytes)
	for _, d := range slices.Sorted(maps.Keys(s.ByDType)) {
		line += fmt.Sprintf(", %v %d", d, s.ByDType[d].Bytes)
	}
	return line
}

// LoadAll reads the elements of many tensors at once, on all cores, into memory
// that the caller has: into answers, for each tensor, where its bytes go, little-
// endian and in storage order, as long as its Data; nil leaves the tensor out.
// into is called by the goroutine that called LoadAll, in file order.
//
// It stops at the first error, or when ctx ends, and returns when nothing is
// being written any more. Tensors that are not dense or kept elsewhere are not
// asked for.
func (f *File) LoadAll(ctx context.Context, into func(t *tensor.Tensor) []byte) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type job struct {
		t *tensor.Tensor
		p []byte
	}
	jobs := make(chan job)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for j := range jobs {
				if err := loadInto(ctx, j.t, j.p); err != nil {
					cancel(fmt.Errorf("%s: %w", tensor.Quote(j.t.Name), err))
				}
			}
		}()
	}
	for t := range f.Tensors() {
		if t.External || !t.Dense() {
			continue
		}
		p := into(t)
		if p == nil {
			continue
		}
		select {
		case jobs <- job{t, p}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
	}
	close(jobs)
	workers.Wait()
	return context.Cause(ctx)
}

// loadInto reads one tensor, plain bytes by pieces so that a cancel is seen.
func loadInto(ctx context.Context, t *tensor.Tensor, p []byte) error {
	const piece = 1 << 20
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := t.Check(); err != nil {
		return err
	}
	st, ok := t.Data.Stored()
	if !ok || st.Encoding != "raw" || st.Digest != "" || int64(len(p)) != t.Data.Size() {
		return t.Data.ReadInto(p)
	}
	for off := 0; off < len(p); off += piece {
		if err := ctx.Err(); err != nil {
			return err
		}
		q := p[off:min(off+piece, len(p))]
		if n, err := t.Data.ReadAt(q, int64(off)); n < len(q) {
			return err
		}
	}
	return nil
}
