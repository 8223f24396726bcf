package main

import (
	"context"
	"errors"
	"io"
	"runtime"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/tensorfile/tensorfile/tensor"
)

// inOrder does n pieces of work on all cores and hands out the results in
// order, each as soon as it and those before it are done. It stops early, with
// no result handed out twice, when the context ends.
func inOrder[T any](ctx context.Context, n int, work func(i int) T, emit func(i int, result T)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	if workers <= 1 {
		for i := range n {
			if ctx.Err() != nil {
				return
			}
			emit(i, work(i))
		}
		return
	}
	// A slot is a promise; the queue bounds how far work runs ahead.
	type slot struct {
		i    int
		done chan T
	}
	todo := make(chan slot)
	queue := make(chan slot, 4*workers)
	for range workers {
		go func() {
			for s := range todo {
				s.done <- work(s.i)
			}
		}()
	}
	go func() {
		defer close(todo)
		defer close(queue)
		for i := range n {
			if ctx.Err() != nil {
				return
			}
			s := slot{i, make(chan T, 1)}
			queue <- s
			todo <- s
		}
	}()
	for s := range queue {
		emit(s.i, <-s.done)
	}
}

// stream calls f with all bytes of a blob in pieces, none of which but the last
// ends within an element. It reads through a copy, so
// that a file that somebody truncates meanwhile is an error and no crash.
func stream(ctx context.Context, b tensor.Blob, f func(p []byte)) error {
	r, err := b.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	const piece = 3 << 18 // a whole number of elements of every width, 6 bits included
	size := b.Size()
	if size < 0 || size > piece {
		size = piece
	}
	buf := make([]byte, max(size, 1))
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n, err := 0, error(nil)
		for n < len(buf) && err == nil {
			var k int
			k, err = r.Read(buf[n:])
			n += k
		}
		f(buf[:n])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// A bar shows progress on standard error when that is a terminal.
type bar struct{ p *progressbar.ProgressBar }

func (a *app) bar(what string, total int64) *bar {
	if !a.bars || total < 64<<20 {
		return &bar{}
	}
	return &bar{progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(a.stderr), progressbar.OptionSetDescription(display(what)),
		progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetRenderBlankState(true))}
}

func (b *bar) set(done int64) {
	if b.p != nil {
		b.p.Set64(done)
	}
}

func (b *bar) add(n int64) {
	if b.p != nil {
		b.p.Add64(n)
	}
}

func (b *bar) done() {
	if b.p != nil {
		b.p.Finish()
	}
}

// isInterrupt tells an error that only says that the user has had enough.
func isInterrupt(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
