// Package parallel runs jobs on all cores and hands their results over in order.
package parallel

import (
	"context"
	"runtime"
	"sync"
)

// A Line works on jobs with several goroutines and hands each to use in the order of Put.
// Put, Flush, and so use, run in the goroutine of the caller. The first error in that
// order ends the work: it is the error of every later call, and no later job reaches use.
// A panic of a worker becomes a panic of Put or Flush.
type Line[J any] struct {
	line // not generic: it is compiled once
	work func(context.Context, J) error
	use  func(J) error
}

type line struct {
	ctx    context.Context // ends with the first error
	cancel context.CancelFunc

	queue   []*entry // jobs that have not reached use, in order
	todo    chan *entry
	running sync.WaitGroup
	workers int

	budget, cost int64
	err          error
	closed       bool
}

// An entry is a job in the queue.
type entry struct {
	work     func(context.Context) error
	use      func() error
	cost     int64
	done     chan struct{} // closed when it was worked on
	err      error
	panicked bool
	value    any // of the panic
}

// queued is how many jobs may be in a line, for each worker.
const queued = 4

// New returns a Line whose jobs cost at most budget together, though one of any cost is
// always accepted. work runs in up to GOMAXPROCS goroutines and must return soon after
// its context ends; it touches memory of a mapped file under fault.Guard only. use may
// be nil. The caller must call Close.
func New[J any](ctx context.Context, budget int64, work func(context.Context, J) error,
	use func(J) error) *Line[J] {
	l := &Line[J]{work: work, use: use, line: line{budget: budget}}
	l.ctx, l.cancel = context.WithCancel(ctx)
	l.todo = make(chan *entry, queued*runtime.GOMAXPROCS(0))
	return l
}

// Put adds a job, after the first ones of the queue have reached use where the line
// is full.
func (l *Line[J]) Put(job J, cost int64) error {
	e := &entry{cost: cost, done: make(chan struct{})}
	e.work = func(ctx context.Context) error { return l.work(ctx, job) }
	if l.use != nil {
		e.use = func() error { return l.use(job) }
	}
	return l.put(e)
}

func (l *line) put(e *entry) error {
	for len(l.queue) > 0 && l.err == nil {
		full := len(l.queue) == cap(l.todo) || e.cost > l.budget-l.cost
		if !full && !l.queue[0].ready() {
			break
		}
		l.take()
	}
	if l.err == nil {
		l.err = l.ctx.Err()
	}
	if l.err != nil {
		return l.err
	}
	l.queue = append(l.queue, e)
	l.cost += e.cost
	l.todo <- e // has capacity for the whole queue
	if l.workers < runtime.GOMAXPROCS(0) {
		l.workers++
		l.running.Add(1)
		go l.run()
	}
	return nil
}

// Flush returns when all jobs have reached use.
func (l *line) Flush() error {
	for len(l.queue) > 0 && l.err == nil {
		l.take()
	}
	return l.err
}

// Close drops the jobs that have not reached use, and returns when no goroutine runs any
// more.
func (l *line) Close() {
	if l.closed {
		return
	}
	l.closed = true
	if l.err == nil {
		l.err = context.Canceled
	}
	l.cancel()
	close(l.todo)
	l.running.Wait()
}

// take waits for the first job of the queue and hands it to use.
func (l *line) take() {
	e := l.queue[0]
	<-e.done
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.cost -= e.cost
	if e.panicked {
		l.Close()
		panic(e.value)
	}
	if l.err = e.err; l.err == nil && e.use != nil {
		l.err = e.use()
	}
	if l.err != nil {
		l.cancel()
	}
}

func (e *entry) ready() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

func (l *line) run() {
	defer l.running.Done()
	for e := range l.todo {
		e.run(l.ctx)
	}
}

func (e *entry) run(ctx context.Context) {
	defer close(e.done)
	defer func() {
		if p := recover(); p != nil {
			e.panicked, e.value = true, p
		}
	}()
	if e.err = ctx.Err(); e.err == nil {
		e.err = e.work(ctx)
	}
}

// ForEach calls work for all integers from 0 below n, and returns the error of the least
// one that has one.
func ForEach(ctx context.Context, n int, work func(ctx context.Context, i int) error) error {
	l := New(ctx, int64(n), work, nil)
	defer l.Close()
	for i := range n {
		if err := l.Put(i, 0); err != nil {
			return err
		}
	}
	return l.Flush()
}
