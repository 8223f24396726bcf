// Package inspect computes what the command tensorfile shows: statistics, hashes and
// differences of tensors, summaries, usage and graphs of files. A call that reads tensors
// takes a context, uses all cores, holds a few MiB in addition to its result and reports
// progress. Results are structs with JSON tags, the same on every machine.
package inspect

// A counter is called with the number of bytes that were read since the last call, from
// one goroutine at a time. nil counts nothing.
type counter func(bytes int64)

func (c counter) add(n int64) {
	if c != nil {
		c(n)
	}
}
