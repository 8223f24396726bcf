package batch

import (
	"context"
	"iter"
	"sync"
)

// window is how many results may wait for one before them.
const window = 1024

// Run calls work for each item in a goroutine of its own, as many at once as slots of the
// item holds, and then use, one at a time, in the order of the items. It returns the
// first error of items or use, or of ctx, when all that was begun has ended.
func Run[I, R any](ctx context.Context, items iter.Seq2[I, error],
	slots func(I) chan struct{}, work func(I) R, use func(R) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make(chan chan R, window)
	var used sync.WaitGroup
	used.Go(func() {
		for c := range results {
			if r := <-c; ctx.Err() == nil {
				if err := use(r); err != nil {
					cancel(err)
				}
			}
		}
	})
	for item, err := range items {
		if err != nil {
			cancel(err)
			break
		}
		free := slots(item)
		select {
		case <-ctx.Done():
		case free <- struct{}{}:
		}
		if ctx.Err() != nil {
			break
		}
		c := make(chan R, 1)
		results <- c
		go func() {
			defer func() { <-free }()
			c <- work(item)
		}()
	}
	close(results)
	used.Wait()
	return context.Cause(ctx)
}
