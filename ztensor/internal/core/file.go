// Package core has the code that the readers of both generations of zTensor share: the
// index of an open file, payloads, and their verification.
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
	IsVersion2 bool   // digests are of decoded bytes, and errors name rules
	Window     uint64 // the largest window of a zstd frame
	index

	decoderOnce sync.Once
	zstd        *zstd.Decoder
	zstdErr     error

	tail   []byte // read by ReadTail, at tailAt; nil after ReadManifest
	tailAt int64

	checked sync.Map // strict: the payloads whose digest was checked

	Generation generation
}

// A generation is the part of an open file that differs between packages v1 and v2.
type generation interface {
	// Shard opens shard i, the first time, and returns the name of its file.
	Shard(i int) (src *source.Source, name string, err error)
	// VerifyFile verifies the shards and the padding, VerifyTensor one tensor.
	VerifyFile(ctx context.Context, found *format.Findings) error
	VerifyTensor(ctx context.Context, w *Worker, t *tensor.Tensor)
	Close() error
}

// A ShardID is package ztensor's Shard.
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

// Errs makes the errors of package ztensor.
const Errs = format.Errors("ztensor")

// tailWindow is how many bytes ReadTail reads: with the magic number, less than 64 KiB.
const tailWindow = 64<<10 - 64

// ReadTail returns the last n bytes. If the file is not mapped, it reads tailWindow bytes
// at once, because a second read may be expensive: ReadManifest may find the manifest
// there.
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

// ReadManifest returns the n bytes at off, in memory of their own. It uses the bytes of
// ReadTail if they have the manifest.
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

// ExplainUnfinished adds to an error of reading a shard that WriteShards was interrupted,
// if it was.
func (r *File) ExplainUnfinished(err error) error {
	class := tensor.ClassOf(err)
	if err == nil || !errors.Is(err, fs.ErrNotExist) &&
		class != tensor.ClassMalformed && class != tensor.ClassChecksum &&
		class != tensor.ClassTruncated {
		return err
	}
	return atomicfile.Explain(string(Errs), r.Unfinished(), err)
}

// Locate adds the offset and the field to an error, unless it has a location.
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

// Decoder returns the zstd decoder that all reads share. DecodeAll decodes in the
// goroutine of the caller, and never beyond the capacity of the destination.
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
