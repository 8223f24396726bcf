package core

import (
	"cmp"
	"context"
	"errors"
	"iter"

	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	// InFlight bounds the memory of what is prepared and not written yet.
	InFlight = 32 << 20
	// batchBytes is how many bytes of small tensors are prepared by one worker.
	batchBytes = 256 << 10
)

// A job is a tensor that is to be written.
type job interface {
	// Cost returns how many bytes it has, and how much memory it takes once it is
	// prepared.
	Cost() (size, memory int64)
	// Prepare makes it ready to be written. An error shows when it is.
	Prepare(ctx context.Context)
}

// A planned tensor is one with its job.
type planned[J job] struct {
	t   *tensor.Tensor
	job J
}

// Ahead yields the tensors of ts in order, each after its job has been prepared on all
// cores and handed to ready. plan makes the job in the goroutine of the caller. After an
// error of ts or plan, what came before is yielded first.
func Ahead[J job](ctx context.Context, ts iter.Seq2[*tensor.Tensor, error],
	plan func(t *tensor.Tensor) (J, error), ready func(job J)) iter.Seq2[*tensor.Tensor, error] {
	return func(yield func(*tensor.Tensor, error) bool) {
		stopped := errors.New("ztensor: the tensor was refused")
		line := parallel.New(ctx, InFlight, func(ctx context.Context, b []planned[J]) error {
			for _, p := range b {
				p.job.Prepare(ctx)
			}
			return nil
		}, func(b []planned[J]) error {
			for _, p := range b {
				if ready(p.job); !yield(p.t, nil) {
					return stopped
				}
			}
			return nil
		})
		defer line.Close()
		var batch []planned[J]
		var size, memory int64
		send := func() error {
			b, m := batch, memory
			batch, size, memory = nil, 0, 0
			return line.Put(b, m)
		}
		err := error(nil)
		for t, e := range ts {
			var j J
			if err = cmp.Or(e, context.Cause(ctx)); err == nil {
				j, err = plan(t)
			}
			if err != nil {
				break
			}
			n, m := j.Cost()
			size, memory = size+max(n, 1<<10), memory+m
			if batch = append(batch, planned[J]{t, j}); size >= batchBytes {
				if err = send(); err != nil {
					break
				}
			}
		}
		if e := cmp.Or(send(), line.Flush()); e != nil {
			err = e
		}
		if err != nil && err != stopped {
			yield(nil, err)
		}
	}
}
