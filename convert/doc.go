// Package convert converts tensors from one format to another, and lists what is lost
// before it writes a byte.
//
// [NewPlan] reads metadata, and data only where that decides what is lost: indices of
// sparse tensors, and elements that become integers. Content that the target cannot
// represent becomes a [Loss]: an attribute, a blob, a program, a dtype, a shape, an order
// of dimensions, a sparse layout, a name. Each kind of loss is allowed by name in
// Options.Allow; [Plan.Write] refuses, with all losses at once, while one of them is not
// allowed. Nothing else is changed: what comes back is what went in, but for the losses.
// A loss that other options ask for, such as a narrower dtype, is listed as well, and
// needs no permission. A number that becomes an infinity or NaN is found while it is
// written: tensor.ErrOverflow. [File] does all of it with two names.
//
// Write streams: of dense tensors of any size it holds at most 64 MiB of its own on two
// cores, where the source requires zstd windows of at most 8 MiB and the target is
// compressed at a level below 7, if at all. A sparse tensor takes memory for its indices,
// 8 bytes for each value, and some 24 bytes and the value for each where they are not in
// order or are to be made. A tensor of more than 1 MiB that changes its order although it
// is not in memory (mapped) is put into a temporary file. Digests of the source are
// checked on the way.
package convert
