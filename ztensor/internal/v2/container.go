// Package v2 reads, verifies, edits and writes zTensor 2.
//
// These files check the rules of its specification, by their names in package rule:
//
//	footer, size and offset of the manifest (§2)       container.go
//	extents of blobs (§2.4)                            parts.go; overlaps: scan.go
//	deterministic CBOR (§3.1)                          package cbor
//	manifest, table of shards, objects, names (§3)     scan.go
//	parts, their types and encodings (§3)              parts.go
//	values that a type does not have                   package dtype
//	size of dense objects                              scan.go
//	identity of shards (§3.6)                          shard.go, container.go
//	digests                                            package digest
//	canonical form (§6.3)                              canonical.go
//	registered layouts (§7)                            package layouts
//	frames and their table (§8)                        seektable.go, frames.go
//
// A tensor is added by these calls, each of which calls the next:
//
//	format.Writer.Add    calls item, which lists the parts, and examine, which reads
//	                     indices; then append
//	Writer.append        in canonical form keeps the tensor: AddAll, Create and encode
//	                     then write what was kept
//	Writer.write         for all parts
//	Writer.store         shares the bytes of an equal part, or pads
//	writer.Writer.Put    sets the offset
//	writer.Out.Write
//
// AddAll does the same after PrepareAhead, which prepares parts on all cores. Close calls
// encode, which writes the manifest and the footer.
package v2

import (
	"context"
	"encoding/binary"
	"io/fs"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// Magic2 begins and ends files of version 2.
const Magic2 = "\x89ZT2\r\n\x1a\n"

// The numbers of the container of version 2 (§2 and §3 of its specification).
const (
	footerSize         = 40
	MinSize            = 8 + footerSize // a magic number and a footer
	minAlignment       = 4096           // of blobs and the manifest
	CanonicalAlignment = 65536          // of both in canonical form
	maxManifest        = 1 << 30
	maxName            = 1024
	maxShardName       = 64
	maxRank            = 64
)

// maxWindow is the largest window that libzstd accepts for a frame that is in memory. A
// window costs no memory beyond the decoded frame.
const maxWindow = 15 << 28

// nameless is the Scheme of a tensor whose layout is "": an empty Scheme means dense.
const nameless = "?"

// A Container is a file of version 2.
type Container struct {
	r        *core.File
	List     []shard // in the order of the manifest, byLength
	data     bool    // a data shard: no manifest
	Siblings siblings
	cache    frameCache
}

// Open reads the container of version 2.
func Open(r *core.File) error {
	c := &Container{r: r}
	r.TensorAttributes = map[*tensor.Tensor][]byte{}
	r.Generation, r.FooterSize, r.Window = c, footerSize, maxWindow
	if strconv.IntSize < 64 {
		r.Window = core.MaxWindow
	}
	size := r.Size()
	r.Version, r.List, r.Roles, r.IsVersion2 = "2", "objects", "parts", true
	if size < MinSize {
		return core.Errs.Wrap(size, "", rule.Broken(rule.FileTooSmall,
			"%d bytes, and the shortest file has %d", size, MinSize))
	}
	f, err := r.ReadTail(footerSize)
	if err != nil {
		return err
	}
	at := size - footerSize
	off, n := binary.LittleEndian.Uint64(f), binary.LittleEndian.Uint64(f[8:])
	hash := binary.LittleEndian.Uint64(f[16:])
	switch version := binary.LittleEndian.Uint32(f[24:]); {
	case string(f[32:]) != Magic2:
		return core.Errs.Wrap(size-8, "magic", rule.Broken(rule.FooterMagic,
			"the file does not end with the magic number (truncated, or an append that was "+
				"interrupted?)"))
	case version != 2:
		return core.Errs.Wrap(at+24, "version", rule.Broken(rule.Version,
			"container version %d", version))
	case n == 0 && (off != 0 || hash != 0):
		return core.Errs.Wrap(at, "manifest_offset", rule.Broken(rule.ManifestBounds,
			"an offset or a hash without a manifest"))
	case n == 0:
		c.data = true
		return nil
	case n > maxManifest:
		return core.Errs.Wrap(at+8, "manifest_length", rule.Broken(rule.ManifestTooLarge,
			"%d bytes of at most %d", n, maxManifest))
	case off%minAlignment != 0 || off < minAlignment:
		return core.Errs.Wrap(at, "manifest_offset", rule.Broken(rule.BlobAlignment,
			"the manifest begins at %d, no positive multiple of %d", off, minAlignment))
	case off > uint64(at) || n > uint64(at)-off:
		return core.Errs.Wrap(at, "manifest_offset", rule.Broken(rule.ManifestBounds,
			"%d bytes at %d of the %d before the footer", n, off, at))
	}
	b, err := r.ReadManifest(int64(off), int64(n))
	if err != nil {
		return err
	}
	if have := xxh3.Hash(b); have != hash {
		return core.Errs.Wrap(at+16, "manifest_hash", rule.Broken(rule.ManifestHash,
			"xxh3 is %016x, the footer says %016x", have, hash))
	}
	s := &scan{Cursor: cbor.NewStrict(b, r.Options.Limits), c: c, r: r}
	return s.run()
}

// Close releases the shards that were opened.
func (c *Container) Close() (err error) {
	for i := range c.List {
		s := &c.List[i]
		s.once.Do(func() { s.err = fs.ErrClosed })
		if s.file != nil {
			if e := s.file.Close(); err == nil {
				err = e
			}
		}
	}
	return err
}

// VerifyFile verifies the shards: that they can be opened and have their size, and,
// unless the depth is VerifyStructure, the digest in the root.
func (c *Container) VerifyFile(ctx context.Context, found *format.Findings) error {
	sums := make(map[string]string) // by file: several shards may be one file
	for i := range c.List {
		if found.Full() {
			return nil
		}
		s := &c.List[i]
		field := "shards[" + naming.Quote(s.Name) + "]"
		src, name, err := c.Shard(i)
		if err == nil && found.Options.Depth > tensor.VerifyStructure {
			algorithm, want, _ := strings.Cut(s.Digest, ":")
			have, known := sums[algorithm+":"+s.foundAs]
			if !known {
				have, err = sumFile(ctx, src, s.Digest)
			}
			if err == nil {
				sums[algorithm+":"+s.foundAs] = have
				if have != want {
					err = rule.Broken(rule.ShardIdentity,
						"its digest is %s, the root says %s", have, want)
				}
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			found.Error(&tensor.FormatError{Format: string(core.Errs), File: name, Offset: -1,
				Field: field, Err: c.r.ExplainUnfinished(err)})
		}
	}
	return nil
}

// VerifyTensor verifies the parts of a tensor, and the indices of a sparse tensor.
func (c *Container) VerifyTensor(ctx context.Context, w *core.Worker, t *tensor.Tensor) {
	sparse := t.Scheme == layouts.CSR || t.Scheme == layouts.COO
	if !w.Parts(t, sparse) || !sparse || layouts.Check(t, 0, nil) != nil {
		return // Open has warned of a broken rule
	}
	if err := layouts.CheckData(ctx, t); err != nil && ctx.Err() == nil {
		w.Fail(c.r.Locate(-1, "objects["+naming.Quote(t.Name)+"]", err))
	}
}
