package ztensor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// magic1 begins files of version 1, and ends those of 1.1 and 1.2; magic2 begins and ends
// those of version 2.
const (
	magic01 = "ZTEN0001"
	magic1  = "ZTEN1000"
	magic2  = "\x89ZT2\r\n\x1a\n"
)

// A file is an open file of any version.
type file struct {
	src       *source.Source
	strict    bool
	limits    tensor.Limits
	companion func(name string) (io.ReaderAt, int64, error)
	name      string // where it was opened by name
	base      string // the last element of that, or what a tensor.Companion is named
	index

	decoderOnce sync.Once
	stream      spareStream
	zstd        *zstd.Decoder
	zstdErr     error

	checked sync.Map // strict: the payloads whose digest was found right
	frames  frameCache

	generation generation
}

// A generation is what differs between the versions of an open file, beyond its
// index.
type generation interface {
	// stored returns the bytes of all payloads, elsewhere those of other files.
	stored() int64
	elsewhere() int64
	// window is the largest that a zstd frame may have.
	window() uint64
	// footer is how many bytes follow the manifest, or the data where there is none.
	footer() int64
	// shards yields the other files that have payloads; shard opens one of them.
	shards() iter.Seq[shardID]
	shard(i int) (*source.Source, error)
	shardName(i int) string
	// verifyFile verifies what is in no tensor, verifyTensor a tensor, and verifyForm the
	// canonical form, where there is one and it is asked for.
	verifyFile(v *verifier) error
	verifyTensor(w *worker, t *tensor.Tensor)
	verifyForm(v *verifier) error
	contentDigest(alg Digest) (string, error)
	canonicalViolations(ctx context.Context) ([]error, error)
	// identity describes the file as a shard, linked its tensors as parts of a file to which
	// it is one.
	identity(ctx context.Context, name string, alg Digest) (shardID, error)
	linked(shard shardID, names []string) ([]object, error)
	// edition completes the settings of a new edition of the file.
	edition(o *settings) error
	// extend begins an edition in the place of the file of that name. The file is then
	// closed by the writer, or is so already.
	extend(name string, o settings) (*writer, error)
	close() error
}

// A shardID is how a file names another one.
type shardID struct {
	Name   string
	Size   int64
	Digest string
}

// An object is what a manifest of version 2 says of a tensor.
type object struct {
	name  string
	whole []byte // encoded
}

// Tensor returns the first tensor of that name, or nil.
func (r *file) Tensor(name string) *tensor.Tensor {
	i := r.find(name)
	if i < 0 {
		return nil
	}
	return r.tensors.at(i)
}

// Size is the size of the file in bytes.
func (r *file) Size() int64 { return r.src.Size() }

// Close gives up the file.
func (r *file) Close() error {
	err := r.generation.close()
	if e := r.src.Close(); e != nil {
		err = e
	}
	return err
}

// Warnings returns what departs from the document. Looking for components that overlap
// costs a sort, the first time.
func (r *file) Warnings() []error {
	r.warned.Do(func() {
		r.overlaps(func(a, b *component) bool {
			r.warnings.add(b.offset, r.path(b), fmt.Errorf("%w: overlaps %s", tensor.ErrMalformed, r.path(a)))
			return r.warnings.more == 0
		})
	})
	return r.warnings.list
}

// format is the name of this format in errors.
const format = "ztensor"

// A tail is the end of the file, read in one piece where pieces are dear.
type tail struct {
	b   []byte
	off int64
}

// tailWindow and the eight bytes at the start are less than 64 KiB together.
const tailWindow = 64<<10 - 64

// readTail reads the last n bytes, or more of them where a second read would
// cost more than they do.
func (r *file) readTail(n int64) (t tail, err error) {
	size := r.src.Size()
	if r.src.Mapped() {
		t = tail{make([]byte, n), size - n}
		_, err = r.src.ReadAt(t.b, t.off)
	} else {
		t.off = max(0, size-tailWindow)
		t.b, err = r.src.Metadata(t.off, size-t.off)
	}
	if err != nil {
		return t, r.bad(t.off, "footer", err)
	}
	return t, nil
}

// last returns the last n bytes of the file, of which the tail has at least so
// many.
func (t tail) last(n int) []byte { return t.b[len(t.b)-n:] }

// readManifest calls run for the n bytes at off, where they lie or copied.
func (r *file) readManifest(t tail, off, n int64, run func(b []byte) error) error {
	if limit := min(r.limits.MaxMetadata, 1<<30); n > limit {
		return r.bad(off, "manifest", fmt.Errorf("%w: %d bytes of at most %d", tensor.ErrLimit, n, limit))
	}
	r.manifestAt, r.manifestSize = off, n
	if r.owned = off >= t.off && n <= t.off+int64(len(t.b))-off; r.owned {
		from := off - t.off
		return run(t.b[from : from+n : from+n])
	}
	inMemory, err := r.src.Scan(func(all []byte) error { return run(all[off : off+n : off+n]) })
	if !inMemory {
		r.owned = true
		var b []byte
		if b, err = r.src.Metadata(off, n); err == nil {
			return run(b)
		}
	}
	return r.placed(off, "manifest", err)
}

// placed gives an error its place, unless it has one.
func (r *file) placed(off int64, field string, err error) error {
	if err == nil {
		return nil
	}
	var fe *tensor.FormatError
	if errors.As(err, &fe) {
		return err
	}
	return r.bad(off, field, err)
}

func (t tail) size() uint64 { return binary.LittleEndian.Uint64(t.last(8)) }

// decoder returns the zstd decoder that all reads share, made on first use.
func (r *file) decoder() (*zstd.Decoder, error) {
	r.decoderOnce.Do(func() {
		r.zstd, r.zstdErr = newZstdDecoder(r.generation.window())
	})
	return r.zstd, r.zstdErr
}

// bad makes a FormatError.
func (r *file) bad(off int64, field string, err error) error {
	return &tensor.FormatError{Format: format, Offset: off, Field: field, Err: err}
}

var errNil = fmt.Errorf("ztensor: %w: no such tensor", tensor.ErrNoTensor)
