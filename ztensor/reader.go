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

// ReaderOptions control how a file is read. nil is the zero value. With Strict, opening
// fails for every deviation from the format's document, and a digest is checked before
// its bytes are first read or borrowed. Companion opens the shards of version 2.
type ReaderOptions = tensor.ReadOptions

// A Reader is an open .zt file of any version, with the methods of every Reader: Size,
// Len, Tensors, Tensor, Blobs and Warnings. Tensors have the order of the manifest; in
// version 2 shorter names come first. There are no Blobs. A Reader is safe for concurrent
// use. It caches up to 16 MiB of decoded frames of version 2 while it is in memory, up to
// 128 MiB if frames are decoded repeatedly.
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
// If [WriteShards] was interrupted while it replaced the files of this root, Open and
// reading from shards fail with tensor.ErrUnfinished; if Open succeeds, there is a
// warning.
func Open(name string, opts *ReaderOptions) (*Reader, error) {
	return format.Open(name, opts, read)
}

// Load reads all tensors of a file into memory of their own, by name.
func Load(name string) (map[string]*tensor.Tensor, error) {
	return format.Load(Open(name, nil))
}

// OpenBytes opens a file that is in memory. It keeps b, which must not change while the
// Reader is in use.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return format.OpenBytes(b, opts, read)
}

// NewReader opens the first size bytes of r, which the caller closes. It makes at most
// three reads: the magic, the last 64 KiB and, if it is not in these, the manifest.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	return format.NewReader(r, size, opts, read)
}

// read makes the Reader of in.
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

// open reads the index by the code of the file's generation: package v1 or v2.
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

// Close releases the file and its shards; it may be called twice. It does not close the
// io.ReaderAt of NewReader. Afterwards reading fails with fs.ErrClosed, and borrowed
// slices must not be used; names, shapes and attributes stay valid.
func (r *Reader) Close() error { return r.f.Close() }

// Version returns the version of the file: "0.1", "1.0", "1.1", "1.2" or "2". It is found
// from the content, not only from the version that the file declares.
func (r *Reader) Version() string { return r.f.Version }

// Generator returns the name of the program that wrote the file; "" if the file has none,
// as in 0.1 and 2.
func (r *Reader) Generator() string { return r.f.Generator }

// version2 returns the container of a file of version 2. For other versions it fails with
// errors.ErrUnsupported, naming what was asked for.
func (r *Reader) version2(what string) (*v2.Container, error) {
	if c, ok := r.f.Generation.(*v2.Container); ok {
		return c, nil
	}
	return nil, core.Errs.New(errors.ErrUnsupported, "%s of version %s", what, r.Version())
}

// ContentDigest returns a digest, as algorithm:hexadecimal, of the content of a version 2
// file: names, shapes, layouts, attributes of tensors, and the digests in the manifest of
// their parts (§6.4). It is the same wherever and however the bytes are stored. alg is
// XXH3 or SHA256. It reads no payload: [Reader.Verify] checks the digests of parts. It
// fails with errors.ErrUnsupported if a part has no digest, and for version 1.
func (r *Reader) ContentDigest(alg Digest) (string, error) {
	c, err := r.version2("a content digest")
	if err != nil {
		return "", err
	}
	return c.ContentDigest(alg)
}

// CanonicalViolations returns the deviations from canonical form (§6.3), each with the
// number of its rule; none for a canonical file. It reads the padding, and payloads whose
// digests are equal. It fails with errors.ErrUnsupported for version 1, which has no
// canonical form.
func (r *Reader) CanonicalViolations(ctx context.Context) ([]error, error) {
	c, err := r.version2("the canonical form")
	if err != nil {
		return nil, err
	}
	return c.CanonicalViolations(ctx)
}

// A Shard names another file that has parts of a version 2 file: its Name in the
// manifest, its Size in bytes, and the Digest of all its bytes as algorithm:hexadecimal.
type Shard = core.ShardID

// Shards yields the shards in the order of the manifest. It opens none.
func (r *Reader) Shards() iter.Seq[Shard] { return slices.Values(r.f.Shards) }

// Identity returns the file as a Shard of that name, for [Writer.Link]. It reads the
// whole file for the digest, SHA256 or XXH3. It fails with errors.ErrUnsupported for
// other algorithms, and for version 1.
func (r *Reader) Identity(ctx context.Context, name string, alg Digest) (Shard, error) {
	c, err := r.version2("identity as a shard")
	if err != nil {
		return Shard{}, err
	}
	return c.Identity(ctx, name, alg)
}

// Spans yields the role of every byte of the file, in the order of offsets. It leaves out
// shards, which are other files.
func (r *Reader) Spans() iter.Seq[tensor.Span] {
	return format.SpansOf(r, format.HeaderSpan(0, int64(len(v1.Magic1))),
		format.MetadataSpan(r.f.ManifestAt, r.f.ManifestSize),
		format.HeaderSpan(r.Size()-r.f.FooterSize, r.f.FooterSize))
}

// ShardSpans yields the name of each shard and the roles of its bytes, in the order of
// offsets. It opens shards, which stay open until Close, and leaves out shards that
// cannot be opened.
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

// Verify reads the file and its shards on all cores and reports what is invalid: sizes
// that do not fit shapes, missing roles, wrong digests, payloads that cannot be decoded,
// bools other than 0 and 1, sparse indices out of range, and in version 1 padding that is
// not zero. Deviations that do not prevent reading are warnings; they are errors with
// opts.Strict.
//
// opts may be nil. With depth VerifyStructure it decodes nothing and computes no digest.
// With VerifyCanonical it also reports a version 2 file that is not in canonical form,
// padding included; for version 1 it is VerifyDigests.
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

// HasBlocks reports whether scheme is a layout of version 2 for the quantised blocks of a
// .gguf file, such as gguf.q4_k/1. Its tensors have one part, data, of uint8, and the
// attributes elems_per_block and block_bytes.
func HasBlocks(scheme string) bool { return layouts.HasBlocks(scheme) }

// A RuleError says that a version 2 file breaks a rule of its specification. Rule is the
// name of the rule in upstream's conformance corpus, such as BlobAlignment. Err wraps
// tensor.ErrMalformed, tensor.ErrChecksum or io.ErrUnexpectedEOF. errors.As finds it in
// the errors of opening, reading and verifying.
type RuleError = rule.Error
