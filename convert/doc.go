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
// Write streams: it holds less than 16 MiB of its own on two cores, whatever the size of the tensors, where the source asks
// for windows and frames of zstd of at most 8 MiB and the target is compressed at a level below 7, if at all. A target of zTensor 1.x with
// digests reads several tensors at a time, and takes a window for each. What takes more lies in a temporary file: a tensor of more than 1 MiB
// that changes its order although it is not in memory (mapped), the indices of a sparse tensor where more than one of its
// parts is compressed, and its values where their indices are not in order, neither by rows nor at all.
// Digests of the source are checked on the way, on other cores.
package convert
