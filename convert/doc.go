// Package convert carries tensors from one format into another, and says before
// it writes a byte what is lost on the way.
//
// NewPlan looks at metadata only, but for the indices of sparse tensors that go to
// version 2 of zTensor. What the target cannot hold as it stands
// becomes a [Loss]: an attribute, a blob, a program, an element type, an order of
// dimensions, a sparse layout, a name. Each kind of loss is allowed by name in
// Options.Allow; Write refuses, with all the losses at once, while one of them
// is not allowed. Nothing is converted silently, and nothing that the target can
// hold is changed.
//
// Write streams: of dense tensors of any size it holds at most 64 MiB of its own on two cores,
// where the source requires zstd windows of at most 8 MiB and the target is compressed at a level
// below 7, if at all. A sparse tensor takes memory for its indices, 8 bytes for each value, and
// some 24 bytes and the value for each where they are not in order or are to be made. A tensor of
// more than 1 MiB that changes its order although it is not in memory (mapped) is put into a
// temporary file. Digests of the source are checked on the way.
package convert
