package readtest

import (
	"slices"
	"testing"
	"time"
)

// A Turn is one side of a comparison.
type Turn struct {
	Name string
	Do   func()
}

// InTurns runs base and each of the others in turns, so that what else the machine does
// falls on all of them. It reports the median of base in milliseconds, and of each
// other the ratio of its median to that, and of its best round to the best of base.
func InTurns(b *testing.B, base func(), others ...Turn) {
	b.Helper()
	turns := append([]Turn{{"base", base}}, others...)
	times := make([][]time.Duration, len(turns))
	b.ReportAllocs()
	for b.Loop() {
		for i, t := range turns {
			start := time.Now()
			t.Do()
			times[i] = append(times[i], time.Since(start))
		}
	}
	for _, ts := range times {
		slices.Sort(ts)
	}
	median := func(i int) float64 { return float64(times[i][len(times[i])/2]) }
	best := func(i int) float64 { return float64(times[i][0]) }
	b.ReportMetric(median(0)/1e6, "base-ms")
	for i, t := range turns[1:] {
		b.ReportMetric(median(i+1)/median(0), t.Name+"/base")
		b.ReportMetric(best(i+1)/best(0), t.Name+"/base-best")
	}
	b.ReportMetric(0, "ns/op")
}
