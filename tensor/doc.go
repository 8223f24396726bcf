// Package tensor is the vocabulary that all formats share: dtypes, shapes and orders,
// tensors and blobs, views and loads, errors, findings and limits.
//
// See the examples of [As], [ConvertInto], [Convert], [LoadInto], [Load], [ParseDType],
// [Reordered], [Report], [Slice], [Values] and [View].
//
// # Lifetime of shared memory
//
// Slices that [Blob.Bytes] and [View] return are borrowed from the file:
//
//  1. they are valid until the Reader that they came from is closed;
//  2. they are read-only: a write to mapped memory is a fault that no program
//     recovers from;
//  3. the file must not be truncated or rewritten while it is open; replace it
//     by rename;
//  4. what [Load], [LoadInto], [Convert], [Blob.ReadAll] and [Blob.ReadInto]
//     hand out belongs to the caller;
//  5. nothing is unmapped by the garbage collector: forgetting Close leaks
//     address space;
//  6. on Windows an open Reader pins its file.
//
// # Digests
//
// Whether a digest is checked does not depend on mapping. If the Reader is Strict, it is
// checked once, in every way of reading. Otherwise streams ([Blob.Open], [Blob.WriteTo])
// check it at their end, and so do [Reordered], writers, conversion and Verify; views and
// copies ([View], [Load], [Blob.Bytes], [Blob.ReadAt], [Blob.ReadAll]) do not.
//
// # Names
//
// The name of a function says who owns its result: a View borrows memory of the file, or
// fails with [ErrNoView]; a Load copies. No function chooses one of them.
package tensor
