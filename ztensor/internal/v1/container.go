// Package v1 reads and verifies zTensor 0.1, 1.0, 1.1 and 1.2, and edits and writes 1.0.
//
// These files check the rules of the documents. If upstream's readers refuse a file that
// breaks a rule, so does this package; else there is a warning.
//
//	footer, size of the manifest, padding         container.go
//	root, version, lists of tensors, shapes       scan.go
//	keys of each kind of map                      fields.go
//	dtypes, extents and encodings of components   assemble.go
//	entries of 0.1                                entries.go
//	zstd, byte order                              codec.go
//	CBOR                                          package cbor
//	digests                                       package digest
//	indices of sparse tensors                     package sparse
package v1

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// A container is a file of 0.1, 1.0, 1.1 or 1.2.
type container struct {
	r       *core.File
	streams sync.Pool // of *zstd.Decoder
}

// Open reads the index of a file that begins with magic, Magic0 or Magic1.
func Open(r *core.File, magic string) error {
	c := &container{r: r}
	r.Generation, r.Window, r.FooterSize = c, core.MaxWindow, minFooter
	r.TensorAttributes = map[*tensor.Tensor][]byte{}
	if magic == Magic0 {
		return c.openEntries()
	}
	r.Roles = "components"
	return c.open()
}

func (c *container) Close() error { return nil }

func (c *container) Shard(int) (*source.Source, string, error) {
	return nil, "", core.Errs.New(errors.ErrUnsupported, "shards of version %s", c.r.Version)
}

// scan reads the index from the n bytes at off.
func (c *container) scan(off, n int64) error {
	b, err := c.r.ReadManifest(off, n)
	if err != nil {
		return err
	}
	s := scan{Cursor: cbor.New(b, c.r.Options.Limits), c: c, r: c.r, minor: -1, entry: -1}
	if c.r.Version == "0.1" {
		s.entries()
	} else {
		s.root()
	}
	s.finish()
	return s.done()
}

// Magic1 begins files of 1.0, 1.1 and 1.2, and ends files of 1.1 and 1.2; Magic0 begins
// files of 0.1.
const (
	Magic0 = "ZTEN0001"
	Magic1 = "ZTEN1000"
)

// alignment is the alignment of components; the first is at 64.
const alignment = 64

// minFooter is the size of the footer of 1.0: the size of the manifest.
const minFooter = 8

// open reads the container of 1.0, 1.1 and 1.2. The last eight bytes are the magic again
// from 1.1 on, the size of the manifest in 1.0. The magic is not a valid size: as a
// number it is 3.4 exabytes.
func (c *container) open() error {
	r := c.r
	t, err := r.ReadTail(16)
	if err != nil {
		return err
	}
	size := r.Size()
	n := binary.LittleEndian.Uint64(t[8:])
	hasEndMagic := string(t[8:]) == Magic1
	if hasEndMagic {
		r.FooterSize = 16
		n = binary.LittleEndian.Uint64(t)
	}
	bad := func(format string, args ...any) error {
		return core.Errs.Malformed(size-r.FooterSize, "manifest_size", format, args...)
	}
	switch {
	case n == 0:
		return bad("0, and no manifest is empty")
	case hasEndMagic && n > uint64(max(0, size-24)):
		return bad("%d of a file of %d bytes", n, size)
	case n > uint64(size-16):
		return bad("the file does not end as version 1.1 or 1.2 does, nor with the size of a "+
			"1.0 manifest that fits: %d of a file of %d bytes (a truncated file?)", n, size)
	}
	return c.scan(size-r.FooterSize-int64(n), int64(n))
}

// openEntries reads the container of 0.1.
func (c *container) openEntries() error {
	r := c.r
	r.Version, r.List = "0.1", "entries"
	t, err := r.ReadTail(8)
	if err != nil {
		return err
	}
	size := r.Size()
	n := binary.LittleEndian.Uint64(t)
	if r.Options.Strict {
		return core.Errs.At(0, "magic", errors.ErrUnsupported,
			"version 0.1 is not what the format's document describes")
	}
	switch {
	case n == 0 && size == 16: // upstream's reader opens it, with no tensors
		return nil
	case n == 0, n > uint64(size-16):
		return core.Errs.Malformed(size-8, "manifest_size", "%d of a file of %d bytes", n, size)
	}
	return c.scan(size-8-int64(n), int64(n))
}

// VerifyFile warns of bytes between the components that are not zero: they are padding
// (§2 of the document).
func (c *container) VerifyFile(ctx context.Context, found *format.Findings) error {
	r := c.r
	taken := []core.Extent{{Off: r.ManifestAt}}
	for _, p := range r.Payloads {
		taken = append(taken, core.Extent{Off: p.Offset, Length: p.Length})
	}
	return r.FindNonZero(ctx, taken, func(at int64) {
		found.Warn(core.Errs.Malformed(at, "", "a byte of no tensor that is not zero"))
	})
}

// VerifyTensor verifies the components of a tensor, and sparse indices.
func (c *container) VerifyTensor(ctx context.Context, w *core.Worker, t *tensor.Tensor) {
	isComplete := true
	bad := func(field string, err error) {
		isComplete = false
		w.Fail(core.Errs.Wrap(-1, c.r.List+"["+naming.Quote(t.Name)+"]"+field, err))
	}
	if err := t.Check(); err != nil {
		bad("", err)
	}
	if t.Dense() && t.Data.Source() == nil {
		bad(".components", fmt.Errorf("%w: no component data", tensor.ErrMalformed))
	}
	isReadable := w.Parts(t, isSparse(t.Scheme))
	if !isComplete || !isReadable || !isSparse(t.Scheme) {
		return
	}
	if err := sparse.Check(ctx, t, nil); err != nil && ctx.Err() == nil {
		bad("", core.Unnamed(err))
	}
}
