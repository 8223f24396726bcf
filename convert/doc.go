// Package convert converts tensors from one format to another, and lists what is lost
// before it writes a byte.
//
//	err := convert.File(ctx, "model.safetensors", "model.zt", nil)
//
// See the examples of the package, [File], [NewPlan] and [SetWeights].
//
// [File] converts one file into another. [NewPlan] and [Plan.Write] do the same in two
// steps, for other sources and targets.
//
// NewPlan lists the losses. It reads metadata, and data only where the data decides what
// is lost: indices of sparse tensors, and elements that become integers. A [Loss] is
// content that the target cannot represent: an attribute, a blob, a program, a dtype, a
// shape, an order of dimensions, a sparse layout, a name. Options.Allow allows kinds of
// losses by name. While a loss is not allowed, Write fails with all of them, before it
// writes a byte. Losses that other options ask for, such as a narrower dtype, are listed
// too, and need no permission. Nothing else is changed.
//
// Write streams. For dense tensors of any size it has at most 64 MiB in memory on two
// cores, if the source requires zstd windows of at most 8 MiB and the target is not
// compressed, or at a level below 7. A sparse tensor takes memory for its indices: 8
// bytes for each value. If they are out of order, or the tensor becomes sparse, it takes
// some 24 bytes and the value for each. A tensor of more than 1 MiB that changes its
// order is put into a temporary file, unless its bytes are in memory or mapped. Write
// checks the digests of the source. It fails with tensor.ErrOverflow if a number becomes
// an infinity or NaN.
package convert
