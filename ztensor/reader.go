package ztensor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
	"github.com/tensorfile/tensorfile/ztensor/internal/v1"
	"github.com/tensorfile/tensorfile/ztensor/internal/v2"
)

// ReaderOptions control how a file is read. nil is the zero value. Strict refuses every
// deviation from the format's document, and checks the digest of what is read, views
// included. Companion opens the shards of version 2.
type ReaderOptions = tensor.ReadOptions

// A Reader is an open .zt file of any version, with the methods of every Reader: Size,
// Len, Tensors, Tensor, Blobs and Warnings. Tensors have the order of the manifest, which
// is the order of the names as a rule; there are no Blobs. It is safe for concurrent use.
// If compressed payloads of version 2 are read in parts, it keeps up to 16 MiB of them
// decoded until Close, and up to 128 MiB where the same parts are read again.
type Reader struct {
	format.Base
	f core.File
}

// Detect reports whether the file begins like one of the versions of zTensor. It
// reads eight bytes.
func Detect(r io.ReaderAt, size int64) bool {
	var head [len(v1.Magic1)]byte
	if size < int64(len(head)) {
		return false
	}
	n, _ := r.ReadAt(head[:], 0)
	return n == len(head) &&
		slices.Contains([]string{v1.Magic0, v1.Magic1, v2.Magic2}, string(head[:]))
}

// Open opens the file of that name, which must be regular, and maps it if the system can.
// If [WriteShards] was interrupted while it replaced the set of that root, opening it and
// reading its shards fail with tensor.ErrUnfinished, or, if the root still opens, it has
// a warning.
func Open(name string, opts *ReaderOptions) (*Reader, error) {
	return format.Open(name, opts, read)
}

// Load reads all tensors of a file into memory of their own, by name.
func Load(name string) (map[string]*tensor.Tensor, error) {
	return format.Load(Open(name, nil))
}

// OpenBytes opens a file that is in memory, and keeps b, which must not change
// while the Reader is in use.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return format.OpenBytes(b, opts, read)
}

// NewReader opens the size bytes that r has, with at most three reads of the manifest and
// 64 KiB. The Reader does not own r: closing the Reader does not close it.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	return format.NewReader(r, size, opts, read)
}

// read reads the index.
func read(in *format.Input) (*Reader, error) {
	r := &Reader{f: core.File{Input: in}}
	format.InitBase(&r.Base, core.Errs, in)
	if err := open(&r.f); err != nil {
		return nil, err
	}
	format.SetTensors(&r.Base, len(r.f.Tensors),
		func(i int) *tensor.Tensor { return r.f.Tensors[i] }, nil)
	for _, w := range r.f.Warnings.All() {
		format.Warn(&r.Base, w)
	}
	if len(r.f.Shards) > 0 {
		if err := in.Unfinished(); err != nil {
			format.Warn(&r.Base, core.Errs.Wrap(-1, "shards", err))
		}
	}
	return r, nil
}

// open reads the index. This is where the generations part: each reads its own
// container and leaves an index.
func open(f *core.File) error {
	size := f.Size()
	if size < 16 { // no generation has shorter files
		return core.Errs.Wrap(size, "", rule.New(rule.FileTooSmall,
			fmt.Errorf("%w: a file of %d bytes", io.ErrUnexpectedEOF, size)))
	}
	head := make([]byte, len(v1.Magic1))
	if _, err := f.ReadAt(head, 0); err != nil {
		return core.Errs.Wrap(0, "magic", err)
	}
	switch string(head) {
	case v1.Magic1, v1.Magic0:
		return v1.Open(f, string(head))
	case v2.Magic2:
		return v2.Open(f)
	}
	err := fmt.Errorf("%w: not a zTensor file", tensor.ErrMalformed)
	if size < v2.MinSize {
		return core.Errs.Wrap(0, "magic", rule.New(rule.FileTooSmall, err))
	}
	var end [len(v2.Magic2)]byte
	if _, e := f.ReadAt(end[:], size-int64(len(end))); e == nil &&
		string(end[:]) == v2.Magic2 {
		err = rule.New(rule.HeaderMagic, err)
	}
	return core.Errs.Wrap(0, "magic", err)
}

// Close releases the file. It may be called more than once, and does nothing if the
// Reader does not own its source. Afterwards reading fails with fs.ErrClosed, and
// borrowed slices must not be used; names, shapes and attributes stay valid.
func (r *Reader) Close() error { return r.f.Close() }

// Version returns the layout of the file: "0.1", "1.0", "1.1", "1.2" or "2". It follows
// from the content, not only from the version that the file declares.
func (r *Reader) Version() string { return r.f.Version }

// Generator returns the program that wrote the file, as 1.0 files say; "" where there is
// no word of it.
func (r *Reader) Generator() string { return r.f.Generator }

// version2 returns what a file of version 2 has beyond its index.
func (r *Reader) version2(what string) (*v2.Container, error) {
	if c, ok := r.f.Generation.(*v2.Container); ok {
		return c, nil
	}
	return nil, core.Errs.New(errors.ErrUnsupported, "%s of version %s", what, r.Version())
}

// ContentDigest identifies the content of a version 2 file, wherever and however its
// bytes are stored: names, shapes, layouts, attributes of tensors, and the digests that
// the file gives for its parts (§6.4). alg is XXH3 or SHA256. It reads no payload, and
// relies on these digests, which [Reader.Verify] checks. It fails with
// errors.ErrUnsupported if a part has no digest, and for version 1.
func (r *Reader) ContentDigest(alg Digest) (string, error) {
	c, err := r.version2("a content digest")
	if err != nil {
		return "", err
	}
	return c.ContentDigest(alg)
}

// CanonicalViolations lists what departs from canonical form (§6.3), in which equal
// content makes equal files, each with the number of its rule; nothing for a canonical
// file. It reads the padding, and payloads only where two may be the same. It fails with
// errors.ErrUnsupported for version 1, which has no such form.
func (r *Reader) CanonicalViolations(ctx context.Context) ([]error, error) {
	c, err := r.version2("the canonical form")
	if err != nil {
		return nil, err
	}
	return c.CanonicalViolations(ctx)
}

// A Shard is another file that has some of the parts of a version 2 file: its Name in
// the file, the Size of all its bytes, and their Digest as algorithm:hexadecimal.
type Shard = core.ShardID

// Shards yields the shards that the file names, in its order. None is opened.
func (r *Reader) Shards() iter.Seq[Shard] { return slices.Values(r.f.Shards) }

// Identity describes the file as a shard of that name for other files, with the digest
// of all its bytes, SHA256 or XXH3.
func (r *Reader) Identity(ctx context.Context, name string, alg Digest) (Shard, error) {
	c, err := r.version2("identity as a shard")
	if err != nil {
		return Shard{}, err
	}
	return c.Identity(ctx, name, alg)
}

// Spans yields the role of every byte of the file, in the order of offsets. Shards are
// other files, whose bytes are not among them.
func (r *Reader) Spans() iter.Seq[tensor.Span] {
	return format.SpansOf(r, format.HeaderSpan(0, int64(len(v1.Magic1))),
		format.MetadataSpan(r.f.ManifestAt, r.f.ManifestSize),
		format.HeaderSpan(r.Size()-r.f.FooterSize, r.f.FooterSize))
}

// ShardSpans yields the shards by name, each with the roles of its bytes, in the order of
// offsets. Those that cannot be opened are left out; the others are open until the file
// is closed.
func (r *Reader) ShardSpans() iter.Seq2[string, iter.Seq[tensor.Span]] {
	return func(yield func(string, iter.Seq[tensor.Span]) bool) {
		for i, s := range r.f.Shards {
			src, _, err := r.f.Generation.Shard(i)
			if err != nil {
				continue
			}
			shard, err := read(r.f.Input.Shard(src))
			if err == nil && !yield(s.Name, shard.Spans()) {
				return
			}
		}
	}
}

// Verify reads the whole file on all cores and reports what is wrong with it:
// lengths that do not fit shapes, roles that are missing, digests, payloads
// that do not decode, bools other than 0 and 1, sparse indices that lead
// nowhere, bytes that nothing refers to. Deviations that do not prevent reading
// are warnings; they are errors with opts.Strict.
//
// opts may be nil. With depth VerifyStructure nothing is decoded and no digest
// computed. Version 1 has no canonical form, so VerifyCanonical is
// VerifyDigests for it. In version 2 the padding counts only for that.
func (r *Reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	l := format.NewFindings(opts)
	for _, w := range r.Warnings() {
		l.Warn(w)
	}
	err := r.f.Verify(ctx, l)
	c, e := r.version2("")
	if err == nil && e == nil && l.Options.Depth >= tensor.VerifyCanonical {
		var found []error
		found, err = c.CanonicalViolations(ctx)
		for _, f := range found {
			l.Error(f)
		}
	}
	return l.End(err)
}

// HasBlocks reports whether version 2 has a layout of that name for the quantised
// blocks of a .gguf file, such as gguf.q4_k/1: one part, data, of uint8, and the
// attributes elems_per_block and block_bytes.
func HasBlocks(scheme string) bool { return layouts.HasBlocks(scheme) }

// A RuleError is the refusal of a version 2 file that breaks one of its
// specification's rules: Rule is its name in upstream's conformance corpus, such as
// BlobAlignment, and Err has a class, tensor.ErrMalformed or tensor.ErrChecksum.
// errors.As finds it in the errors of opening, reading and verifying.
type RuleError = rule.Error
