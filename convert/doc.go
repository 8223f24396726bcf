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
// Write streams: it holds some MiB of its own, whatever the size of the tensors.
// Of a sparse tensor that becomes dense, indices that are out of order are held with
// their values, and a window for each part that is compressed. A tensor of more than 2 MiB that changes its order although
// it is not in memory (mapped) goes through a temporary file.
// Digests of the source are checked on the way, on other cores.
package convert
