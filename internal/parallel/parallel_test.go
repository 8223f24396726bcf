package parallel

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestResultsComeInOrder(t *testing.T) {
	const n = 1000
	var got []int
	results := make([]int, n)
	l := New(t.Context(), 1<<30, func(_ context.Context, i int) error {
		if i%7 == 0 {
			runtime.Gosched()
		}
		results[i] = i * i
		return nil
	}, func(i int) error {
		got = append(got, results[i])
		return nil
	})
	defer l.Close()
	for i := range n {
		if err := l.Put(i, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Flush(); err != nil || len(got) != n || !slices.IsSorted(got) {
		t.Fatalf("%d results, sorted %v: %v", len(got), slices.IsSorted(got), err)
	}
}

func TestJobsInFlightStayWithinTheBudget(t *testing.T) {
	var inFlight, peak atomic.Int64
	l := New(t.Context(), 10, func(context.Context, int64) error { return nil },
		func(c int64) error {
			inFlight.Add(-c)
			return nil
		})
	defer l.Close()
	for _, cost := range []int64{4, 4, 4, 1, 9, 10, 25, 3, 3, 3, 3} {
		if err := l.Put(cost, cost); err != nil {
			t.Fatal(err)
		}
		if now := inFlight.Add(cost); now > 10 && now != cost {
			t.Errorf("%d in flight, of which the last costs %d", now, cost)
		} else if now > peak.Load() {
			peak.Store(now)
		}
	}
	if err := l.Flush(); err != nil || inFlight.Load() != 0 || peak.Load() != 25 {
		t.Errorf("%d left, at most %d: %v", inFlight.Load(), peak.Load(), err)
	}
}

func TestTheFirstErrorInOrderWins(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	release := make(chan struct{})
	var used []int
	l := New(t.Context(), 100, func(ctx context.Context, i int) error {
		switch i {
		case 2:
			<-release // the later error happens before
			return first
		case 3:
			close(release)
			return second
		}
		return nil
	}, func(i int) error {
		used = append(used, i)
		return nil
	})
	defer l.Close()
	for i := range 4 {
		l.Put(i, 1)
		if i == 3 && runtime.GOMAXPROCS(0) == 1 {
			t.Skip("one core: the second job would never run")
		}
	}
	if err := l.Flush(); err != first {
		t.Errorf("the error is %v", err)
	}
	if err := l.Put(9, 1); err != first {
		t.Errorf("a later job: %v", err)
	}
	if !slices.Equal(used, []int{0, 1}) {
		t.Errorf("used %v", used)
	}
}

func TestAnErrorOfUseEndsTheWork(t *testing.T) {
	stop := errors.New("stop")
	l := New(t.Context(), 100, func(context.Context, int) error { return nil }, func(i int) error {
		if i == 1 {
			return stop
		}
		return nil
	})
	defer l.Close()
	var err error
	n := 0
	for ; n < 1000 && err == nil; n++ {
		err = l.Put(n, 1)
	}
	if err != stop || n == 1000 || l.Flush() != stop {
		t.Errorf("after %d jobs: %v", n, err)
	}
}

func TestAPanicOfAWorkerIsTheCallers(t *testing.T) {
	var ended atomic.Int64
	defer func() {
		if p := recover(); p != "boom" {
			t.Errorf("recovered %v", p)
		}
		if n := ended.Load(); n != 1 {
			t.Errorf("%d other jobs have ended", n)
		}
	}()
	started := make(chan struct{})
	l := New(t.Context(), 100, func(ctx context.Context, i int) error {
		if i == 0 {
			if runtime.GOMAXPROCS(0) > 1 {
				<-started
			}
			panic("boom")
		}
		close(started)
		<-ctx.Done() // a worker that still runs is waited for
		ended.Add(1)
		return ctx.Err()
	}, nil)
	defer l.Close()
	if runtime.GOMAXPROCS(0) == 1 {
		ended.Add(1)
		close(started)
		l.Put(0, 1)
	} else {
		l.Put(0, 1)
		l.Put(1, 1)
	}
	l.Flush()
	t.Error("no panic")
}

func TestCancelEndsTheWork(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := New(ctx, 100, func(ctx context.Context, _ int) error {
		<-ctx.Done()
		return ctx.Err()
	}, nil)
	defer l.Close()
	l.Put(0, 1)
	cancel()
	if err := l.Flush(); !errors.Is(err, context.Canceled) {
		t.Errorf("Flush: %v", err)
	}
	if err := l.Put(1, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Put: %v", err)
	}
}

func TestCloseDropsWhatWasNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine does not end
		used := false
		l := New(t.Context(), 100, func(context.Context, int) error { return nil },
			func(int) error {
				used = true
				return nil
			})
		l.Put(0, 1)
		l.Close()
		l.Close()
		if err := l.Put(1, 1); err == nil || used {
			t.Errorf("after Close: %v, used %v", err, used)
		}
	})
}

func TestForEachDoesAllAndReportsAnError(t *testing.T) {
	var sum atomic.Int64
	if err := ForEach(t.Context(), 100, func(_ context.Context, i int) error {
		sum.Add(int64(i))
		return nil
	}); err != nil || sum.Load() != 4950 {
		t.Errorf("%d, %v", sum.Load(), err)
	}
	bad := errors.New("bad")
	if err := ForEach(t.Context(), 100, func(_ context.Context, i int) error {
		if i >= 40 {
			return bad
		}
		return nil
	}); err != bad {
		t.Errorf("the error is %v", err)
	}
	if err := ForEach(t.Context(), 0, nil); err != nil {
		t.Error(err)
	}
}

// An addressFault is what the runtime panics with when memory cannot be read.
type addressFault struct{}

func (addressFault) Addr() uintptr { return 0xbad }

func TestAFaultOfAWorkerIsAPanic(t *testing.T) {
	defer func() {
		if p := recover(); p != (addressFault{}) {
			t.Errorf("recovered %v", p)
		}
	}()
	err := ForEach(t.Context(), 1, func(context.Context, int) error { panic(addressFault{}) })
	t.Errorf("no panic, %v", err)
}
