// Package core is what the readers of both generations of zTensor use: the index of an
// open file, payloads, and their verification.
package core

import (
	"context"
	"errors"
	"io/fs"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// A File is an open file of any version.
type File struct {
	*format.Input
	IsVersion2 bool   // a digest that does not fit breaks a rule of version 2
	Window     uint64 // the largest that a zstd frame may have
	index

	decoderOnce sync.Once
	zstd        *zstd.Decoder
	zstdErr     error

	tail   []byte // read by ReadTail, at tailAt; nil after ReadManifest
	tailAt int64

	checked sync.Map // strict: the payloads whose digest was found right

	Generation generation
}

// A generation is what differs between the versions of an open file, beyond its index.
type generation interface {
	// Shard opens one of the other files that have payloads, and returns the name under
	// which it was found; "" if it was not.
	Shard(i int) (src *source.Source, name string, err error)
	// VerifyFile verifies what is in no tensor, and VerifyTensor a tensor.
	VerifyFile(ctx context.Context, found *format.Findings) error
	VerifyTensor(ctx context.Context, w *Worker, t *tensor.Tensor)
	Close() error
}

// A ShardID is how a file names another one.
type ShardID struct {
	Name   string
	Size   int64
	Digest string
}

// Close releases the file.
func (r *File) Close() error {
	err := r.Generation.Close()
	if e := r.Input.Close(); e != nil {
		err = e
	}
	return err
}

// Errs makes the errors of this format.
const Errs = format.Errors("ztensor")

// tailWindow and the eight bytes at the start are less than 64 KiB together.
const tailWindow = 64<<10 - 64

// ReadTail returns the last n bytes. Where a second read would cost more than they do, it
// reads more of them, in which ReadManifest may find the manifest.
func (r *File) ReadTail(n int64) ([]byte, error) {
	size := r.Size()
	if r.tailAt = size - n; !r.Mapped() {
		r.tailAt = max(0, size-tailWindow)
	}
	var err error
	if r.tail, err = r.Metadata(r.tailAt, size-r.tailAt); err != nil {
		return nil, r.Locate(r.tailAt, "footer", err)
	}
	return r.tail[int64(len(r.tail))-n:], nil
}

// ReadManifest returns the n bytes at off in memory of their own, after ReadTail.
func (r *File) ReadManifest(off, n int64) ([]byte, error) {
	if limit := min(r.Options.Limits.MaxMetadata, 1<<30); n > limit {
		return nil, Errs.Limit(off, "manifest", "%d bytes of at most %d", n, limit)
	}
	r.ManifestAt, r.ManifestSize = off, n
	tail := r.tail
	r.tail = nil
	if from := off - r.tailAt; from >= 0 && n <= int64(len(tail))-from {
		return tail[from : from+n : from+n], nil
	}
	b, err := r.Metadata(off, n)
	return b, r.Locate(off, "manifest", err)
}

// ExplainUnfinished adds to an error of reading shards that their set is not finished, if that is
// so.
func (r *File) ExplainUnfinished(err error) error {
	class := tensor.ClassOf(err)
	if err == nil || !errors.Is(err, fs.ErrNotExist) &&
		class != tensor.ClassMalformed && class != tensor.ClassChecksum &&
		class != tensor.ClassTruncated {
		return err
	}
	return atomicfile.Explain(string(Errs), r.Unfinished(), err)
}

// Locate gives an error its place, unless it has one.
func (r *File) Locate(off int64, field string, err error) error {
	if err == nil {
		return nil
	}
	var fe *tensor.FormatError
	if errors.As(err, &fe) {
		return err
	}
	return Errs.Wrap(off, field, err)
}

// Decoder returns the zstd decoder that all reads share, made on first use. It decodes in
// the goroutine of the caller, and never beyond the capacity of the destination.
func (r *File) Decoder() (*zstd.Decoder, error) {
	r.decoderOnce.Do(func() {
		r.zstd, r.zstdErr = zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true),
			zstd.WithDecoderMaxMemory(1<<62), // the capacity is the limit
			zstd.WithDecoderMaxWindow(r.Window),
			zstd.WithDecoderLowmem(true),
			zstd.WithDecoderConcurrency(0))
	})
	return r.zstd, r.zstdErr
}
