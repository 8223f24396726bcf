package readtest

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Allocated is the number of bytes that do allocates, freed ones included: an upper bound of its peak that does not depend
// on the collector. Other goroutines count too.
func Allocated(do func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// Allocations is how many times do allocates, on as many goroutines as it likes. Other goroutines count too.
func Allocations(do func()) int64 {
	// A goroutine that waits takes what it needs for that from a cache of the runtime's, which a collection empties.
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	do()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return int64(after.Mallocs - before.Mallocs)
}

// Took is how long do takes, if that is more than enough the least of five times.
func Took(enough time.Duration, do func()) time.Duration {
	return Least(enough, func() time.Duration {
		start := time.Now()
		do()
		return time.Since(start)
	})
}

// Least measures up to five times, until the result is no more than enough, and answers the least: what else runs in the process
// and on the machine only ever adds to a number of bytes, of allocations or of nanoseconds.
func Least[T cmp.Ordered](enough T, measure func() T) T {
	least := measure()
	for i := 1; i < 5 && least > enough; i++ {
		runtime.GC() // of what was measured, so that no collection of it falls into the next round
		least = min(least, measure())
	}
	return least
}

// PeakHeap is the most bytes that objects on the heap took while do ran, beyond those that were there before. It is a
// sample every fifty microseconds, of a heap that is collected early: what lives shorter may be missed, and what is dead
// may count for a moment. Other goroutines count too. Of up to five times it is the least, see Least; after the first the heap
// is collected all the time, since on a busy machine what died while the collector waited for a core counts as well.
func PeakHeap(enough int64, do func()) int64 {
	percent := 10
	return Least(enough, func() int64 {
		defer func() { percent = 2 }()
		return peakHeap(percent, do)
	})
}

func peakHeap(percent int, do func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(percent))
	runtime.GC()
	live := func() int64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return int64(s[0].Value.Uint64())
	}
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
	after := live()
	close(stop)
	return max(0, max(<-peaks, after)-before)
}
