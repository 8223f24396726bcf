package readtest

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// Measuring reports whether tests may measure time and memory: with TENSORFILE_MEASURE=1,
// which is for a machine that does nothing else, and GODEBUG=gcstoptheworld=1: else what
// is allocated during a collection counts as live.
func Measuring() bool { return os.Getenv("TENSORFILE_MEASURE") == "1" }

// Measure skips a test that only measures, unless Measuring.
func Measure(t testing.TB) {
	t.Helper()
	if !Measuring() {
		t.Skip("measures time or memory: set TENSORFILE_MEASURE=1 GODEBUG=gcstoptheworld=1")
	}
}

// Allocated returns how many bytes do allocates, freed ones included: an upper bound of
// its peak that does not depend on the collector. Other goroutines count too.
func Allocated(do func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// Allocations returns how many times do allocates in the second of two calls, on any
// goroutine. The runtime adds some of its own now and then: leave headroom.
func Allocations(do func()) int64 {
	do()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return int64(after.Mallocs - before.Mallocs)
}

// AllocatesNothing fails the test if do allocates in more than half of its calls.
func AllocatesNothing(t testing.TB, do func()) {
	t.Helper()
	const calls = 100
	n := Allocations(func() {
		for range calls {
			do()
		}
	})
	if n > calls/2 {
		t.Errorf("%d allocations in %d calls", n, calls)
	}
}

// PeakHeap returns the largest number of bytes of live objects on the heap while do runs,
// beyond those before. An object that lives for less than a collection, which runs
// whenever the heap has grown by a tenth, may be missed. Unless Measuring it only calls
// do, and returns 0.
func PeakHeap(do func()) int64 {
	if !Measuring() {
		do()
		return 0
	}
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	live := func() int64 {
		s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(s)
		return int64(s[0].Value.Uint64())
	}
	runtime.GC()
	before := live()
	stop, peaks := make(chan struct{}), make(chan int64)
	go func() {
		var peak int64
		for {
			peak = max(peak, live())
			select {
			case <-stop:
				peaks <- peak
				return
			case <-time.After(50 * time.Microsecond):
			}
		}
	}()
	do()
	runtime.GC()
	after := live()
	close(stop)
	return max(0, max(<-peaks, after)-before)
}
