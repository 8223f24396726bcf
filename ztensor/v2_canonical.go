package ztensor

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"
	"golang.org/x/text/unicode/norm"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
)

// contentDigest encodes what the file says of its content (§6.4), and digests that.
func (c *container2) contentDigest(alg Digest) (string, error) {
	r := c.r
	if c.data {
		return "", fmt.Errorf("ztensor: %w: a content digest of version %s, or of no manifest", errors.ErrUnsupported, r.version)
	}
	b := cbor.AppendText(cbor.AppendHead(nil, cbor.Array, 2), "zt.content/1")
	b = cbor.AppendHead(b, cbor.Map, uint64(r.tensors.used))
	own := r.ownAttrs
	i := -1
	for t := range r.tensors.all() {
		i++
		var attributes []byte
		if len(own) > 0 && own[0].tensor == i {
			attributes, own = own[0].encoded, own[1:]
		}
		fields := uint64(3)
		if attributes != nil {
			fields++
		}
		b = cbor.AppendHead(cbor.AppendText(b, t.Name), cbor.Map, fields)
		parts := partsOf(t)
		b = cbor.AppendHead(cbor.AppendText(b, "parts"), cbor.Map, uint64(len(parts)))
		for _, p := range parts {
			digest := p.blob.digest()
			if digest == "" {
				return "", r.bad(-1, partField(t.Name, p.role), fmt.Errorf("%w: no digest, and so none of the content", errors.ErrUnsupported))
			}
			b = appendTypes(p.blob, cbor.AppendText(b, p.role), 1)
			b = cbor.AppendText(cbor.AppendText(b, "digest"), digest)
		}
		b = appendShape(b, t.Shape)
		b = cbor.AppendText(cbor.AppendText(b, "layout"), layoutOf(t))
		if attributes != nil {
			b = append(cbor.AppendText(b, "attributes"), attributes...)
		}
	}
	switch alg {
	case XXH3:
		return fmt.Sprintf("%s%016x", prefixXXH3, xxh3.Hash(b)), nil
	case SHA256:
		sum := sha256.Sum256(b)
		return "sha256:" + hex.EncodeToString(sum[:]), nil
	}
	return "", fmt.Errorf("ztensor: %w: a content digest by %v", errors.ErrUnsupported, alg)
}

// appendTypes begins the map of a part with more fields behind its types.
func appendTypes(b *blob, out []byte, more uint64) []byte {
	dtype, logical := typeWords2(b.dtype)
	if b.dtype == tensor.Unknown {
		dtype, _ = typeWords2(b.more.storage)
		logical = b.more.logical
	}
	if logical == "" {
		return cbor.AppendText(cbor.AppendText(cbor.AppendHead(out, cbor.Map, 1+more), "dtype"), dtype)
	}
	out = cbor.AppendText(cbor.AppendText(cbor.AppendHead(out, cbor.Map, 2+more), "type"), logical)
	return cbor.AppendText(cbor.AppendText(out, "dtype"), dtype)
}

func appendShape(b []byte, shape tensor.Shape) []byte {
	b = cbor.AppendHead(cbor.AppendText(b, "shape"), cbor.Array, uint64(len(shape)))
	for _, d := range shape {
		b = cbor.AppendHead(b, cbor.Uint, uint64(d))
	}
	return b
}

func layoutOf(t *tensor.Tensor) string {
	switch {
	case t.Dense():
		return "dense"
	case t.Scheme == nameless:
		return ""
	}
	return t.Scheme
}

// A role2 is a part of an open file.
type role2 struct {
	object, role string
	blob         *blob
}

// partsOf lists the parts of a tensor of version 2 in the order of the manifest.
func partsOf(t *tensor.Tensor) []role2 {
	if b, ok := t.Data.Source().(*blob); ok {
		return []role2{{t.Name, "data", b}}
	}
	all := make([]role2, 0, len(t.Parts))
	for i := range t.Parts {
		if b, ok := t.Parts[i].Data.Source().(*blob); ok {
			all = append(all, role2{t.Name, t.Parts[i].Role, b})
		}
	}
	return all
}

// canonicalViolations lists what departs from canonical form (§6.3).
func (c *container2) canonicalViolations(ctx context.Context) ([]error, error) {
	check := canonical{r: c.r, container: c, ctx: ctx}
	err := check.check()
	return check.found, err
}

type canonical struct {
	r         *file
	container *container2
	ctx       context.Context
	found     []error
}

func (c *canonical) violates(rule int, off int64, field, format string, args ...any) {
	if len(c.found) < maxWarnings {
		c.found = append(c.found, c.r.bad(off, field, fmt.Errorf("%w: canonical form, rule %d: %s", tensor.ErrMalformed, rule, fmt.Sprintf(format, args...))))
	}
}

func (c *canonical) check() error {
	r := c.r
	if c.container.data {
		c.violates(1, r.src.Size()-footer2, "manifest", "there is no manifest")
		return nil
	}
	if n := len(c.container.list); n > 0 {
		c.violates(6, r.manifestAt, "shards", "%d shards", n)
	}
	c.names("attributes", r.attributes)
	all := make([]role2, 0, r.blobs.used)
	for t := range r.tensors.all() {
		all = append(all, partsOf(t)...)
	}
	for _, own := range r.ownAttrs {
		c.names("objects["+quote.Name(r.tensors.at(own.tensor).Name)+"].attributes", own.encoded)
	}
	slices.SortFunc(all, func(a, b role2) int {
		return cmp.Or(strings.Compare(a.object, b.object), strings.Compare(a.role, b.role))
	})
	return c.places(all)
}

// names wants the keys of attributes in NFC.
func (c *canonical) names(field string, attributes []byte) {
	for name := range cbor.Entries(attributes) {
		if !norm.NFC.IsNormalString(name) {
			c.violates(5, -1, field+"["+quote.Name(name)+"]", "the name is not in NFC")
		}
	}
}

// places walks over the parts in the order in which a canonical writer places
// them.
func (c *canonical) places(all []role2) error {
	type content struct {
		hash   uint64
		length int64
	}
	r := c.r
	next, empty := int64(canonical2), int64(-1)
	seen, first := map[extent]bool{}, map[content]*blob{}
	var taken []extent
	for i, p := range all {
		b := p.blob
		field := func() string { return partField(p.object, p.role) }
		if i == 0 || all[i-1].object != p.object {
			if !norm.NFC.IsNormalString(p.object) {
				c.violates(5, -1, field(), "the name of the object is not in NFC")
			}
		}
		if !norm.NFC.IsNormalString(p.role) {
			c.violates(5, -1, field(), "the name of the part is not in NFC")
		}
		if b.encoded {
			c.violates(4, b.offset, field(), "it is encoded")
		}
		if !b.hasHash {
			c.violates(4, b.offset, field(), "its digest is no xxh3")
		}
		if b.shard > 0 {
			continue // said by rule 6
		}
		want := next
		if b.length == 0 {
			if empty < 0 {
				empty = next
			}
			want = empty
		} else if seen[extent{b.offset, b.length}] {
			continue
		}
		if b.offset != want {
			c.violates(2, b.offset, field(), "it is at %d and belongs at %d", b.offset, want)
		}
		if b.length == 0 {
			continue
		}
		seen[extent{b.offset, b.length}] = true
		taken = append(taken, extent{b.offset, b.length})
		next = c.up(max(next, b.offset+b.length))
		if !b.hasHash || b.encoded {
			continue
		}
		key := content{b.hash, b.length}
		if other := first[key]; other == nil {
			first[key] = b
		} else if same, err := sameBytes(c.ctx, tensor.NewBlob(other), tensor.NewBlob(b)); err != nil {
			return err
		} else if same {
			c.violates(3, b.offset, field(), "its bytes are also at %d: it has to share them", other.offset)
		}
	}
	if r.manifestAt != next {
		c.violates(1, r.manifestAt, "manifest", "it is at %d and belongs at %d", r.manifestAt, next)
	}
	if end := r.manifestAt + r.manifestSize; end != r.src.Size()-footer2 {
		c.violates(1, end, "footer", "it does not follow the manifest")
	}
	return c.padding(append(taken, extent{r.manifestAt, r.manifestSize}))
}

func (c *canonical) up(n int64) int64 {
	up, ok := align.Up(n, canonical2)
	if !ok {
		return n
	}
	return up
}

// padding wants zeros where nothing lies.
func (c *canonical) padding(taken []extent) error {
	slices.SortFunc(taken, func(a, b extent) int { return cmp.Compare(a.off, b.off) })
	buf := make([]byte, 64<<10)
	at := int64(len(magic2))
	for _, e := range taken {
		for at < e.off {
			if err := c.ctx.Err(); err != nil {
				return err
			}
			p := buf[:min(int64(len(buf)), e.off-at)]
			if _, err := c.r.src.ReadAt(p, at); err != nil {
				return c.r.bad(at, "", err)
			}
			if i := slices.IndexFunc(p, func(b byte) bool { return b != 0 }); i >= 0 {
				c.violates(1, at+int64(i), "", "a byte of nothing that is not zero")
				break
			}
			at += int64(len(p))
		}
		at = max(at, e.off+e.length)
	}
	return nil
}

// sameBytes compares two blobs of the same length.
func sameBytes(ctx context.Context, a, b tensor.Blob) (bool, error) {
	p, ok1 := a.Memory()
	q, ok2 := b.Memory()
	if ok1 && ok2 {
		return bytes.Equal(p, q), nil
	}
	size := a.Size()
	if size != b.Size() {
		return false, nil
	}
	var bufs [2][]byte
	for i := range bufs {
		bufs[i] = make([]byte, min(size, pieceSize))
	}
	for off := int64(0); off < size; off += pieceSize {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n := min(size-off, pieceSize)
		for i, x := range []tensor.Blob{a, b} {
			if _, err := x.ReadAt(bufs[i][:n], off); err != nil {
				return false, err
			}
		}
		if !bytes.Equal(bufs[0][:n], bufs[1][:n]) {
			return false, nil
		}
	}
	return true, nil
}
