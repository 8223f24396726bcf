// Package inspect computes what the command tensorfile shows: statistics, hashes and
// differences of tensors, summaries, usage and graphs of files. A call that reads tensors
// takes a context, uses all cores, holds a few MiB in addition to its result and reports
// progress. Results are structs with JSON tags. They are the same on every machine.
//
// Begin with one of these calls; most other types are parts of their results:
//
//	a file           NewInfo, NewUsage, NewGraph, Attributes, Program, TotalSize, Shards
//	two files        Diff
//	a tensor         Stats, Histogram, Hash, Value, WriteValues, Part
//	two tensors      Compare
//	many tensors     StatsEach, HashEach, Content
//	quantised files  Dequantized, BlobTensors
//	names            CompareNames, CutNumbers, JoinNumbers
//
// A call on many tensors is a loop:
//
//	f, err := tensorfile.Open("model.gguf", nil)
//	if err != nil {
//		return err
//	}
//	defer f.Close()
//	for sums, err := range inspect.HashEach(ctx, f.Tensors(), nil) {
//		…
//	}
//
// See the examples of [Compare], [Content], [Diff], [HashEach], [Histogram], [NewGraph],
// [NewUsage], [Stats] and [WriteValues].
package inspect

// A counter is called with the number of bytes that were read since the last call, from
// one goroutine at a time. nil counts nothing.
type counter func(bytes int64)

func (c counter) add(n int64) {
	if c != nil {
		c(n)
	}
}
