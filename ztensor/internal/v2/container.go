// Package v2 reads, verifies, edits and writes zTensor 2.
//
// The rules of its specification are checked in these files, each by its name in package
// rule:
//
//	footer, size and place of the manifest (§2)        container.go
//	places of blobs (§2.4)                             parts.go; overlaps: scan.go
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
// A tensor that is added goes through six calls at most, one below the other: Add of the
// shared format.Writer, which first has item say what the file has of the tensor and
// examine read what decides whether it is refused; append; write, which goes through the
// parts; store, which finds the place of one or a part with the same bytes; Put of
// writer.Writer; and Write of writer.Out. AddAll is the same after Ahead, which prepares
// parts on all cores. In canonical form append keeps the tensor, and AddAll, Create and
// encode write what is kept. Close calls encode, which writes manifest and footer.
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
	MinSize            = 8 + footerSize // a file of nothing
	minAlignment       = 4096           // of blobs and the manifest
	CanonicalAlignment = 65536          // where they do in canonical form
	maxManifest        = 1 << 30
	maxName            = 1024
	maxShardName       = 64
	maxRank            = 64
)

// maxWindow is the largest window that libzstd takes where it has all of a frame: there
// is memory for what the frame decodes to, and a window costs nothing beyond it.
const maxWindow = 15 << 28

// nameless is the Scheme of a tensor whose layout is the empty text.
const nameless = "?"

// A Container is a file of version 2.
type Container struct {
	r        *core.File
	List     []shard // in the order of the manifest, which is byLength
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
			"no manifest, and yet a place or a hash for it"))
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

// VerifyFile verifies the files that a version 2 file keeps parts in: that they are
// there, framed, and of the right size, and unless only the structure counts
// that their bytes have the digests by which the root knows them.
func (c *Container) VerifyFile(ctx context.Context, found *format.Findings) error {
	sums := make(map[string]string) // a file that many shards are in is read once
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

// VerifyTensor verifies a tensor of version 2: the digests and encodings of its
// parts, the content rules of their types, and the data rules of its layout.
func (c *Container) VerifyTensor(ctx context.Context, w *core.Worker, t *tensor.Tensor) {
	sparse := t.Scheme == layouts.CSR || t.Scheme == layouts.COO
	if !w.Parts(t, sparse) || !sparse || layouts.Check(t, 0, nil) != nil {
		return // a broken rule was warned of when the file was opened
	}
	if err := layouts.CheckData(ctx, t); err != nil && ctx.Err() == nil {
		w.Fail(c.r.Locate(-1, "objects["+naming.Quote(t.Name)+"]", err))
	}
}
