package v2

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/digest"
)

// ContentDigest returns the digest of the content (§6.4); see ztensor.Reader.
func (c *Container) ContentDigest(alg digest.Algorithm) (string, error) {
	r := c.r
	if c.data {
		return "", core.Errs.New(errors.ErrUnsupported, "a content digest of no manifest")
	}
	if alg != digest.XXH3 && alg != digest.SHA256 {
		return "", core.Errs.New(errors.ErrUnsupported, "a content digest by %v", alg)
	}
	objects := make([]cbor.Pair, len(r.Tensors))
	for i, t := range r.Tensors {
		parts := core.PayloadsOf(t)
		all := make([]cbor.Pair, len(parts))
		for k, p := range parts {
			if p.Digest == "" {
				return "", core.Errs.At(-1, r.PathOf(p), errors.ErrUnsupported,
					"no digest, and so none of the content")
			}
			d := partFields{Digest: p.Digest}
			d.DType, d.Type = typeNames(p.Dtype)
			if p.Dtype == tensor.Unknown {
				d.DType, _ = typeNames(p.Extra.Storage)
				d.Type = p.Extra.TypeName
			}
			b, err := cbor.MarshalFields(d)
			if err != nil {
				return "", err
			}
			all[k] = cbor.PairOf(p.Role(), b)
		}
		b, err := cbor.MarshalFields(objectFields{Parts: cbor.AppendPairs(nil, all, false),
			Shape: append([]int64{}, t.Shape...), Layout: layoutName(t.Scheme),
			Attributes: r.TensorAttributes[t]})
		if err != nil {
			return "", err
		}
		objects[i] = cbor.PairOf(t.Name, b)
	}
	b, err := cbor.Marshal([]any{"zt.content/1", cbor.Item(cbor.AppendPairs(nil, objects, false))})
	return digest.Of(alg, b), err
}

// CanonicalViolations returns the deviations from canonical form (§6.3).
func (c *Container) CanonicalViolations(ctx context.Context) ([]error, error) {
	check := canonical{Container: c, ctx: ctx}
	check.found.Format = string(core.Errs)
	err := check.check()
	return check.found.All(), err
}

// A canonical collects the deviations of a file.
type canonical struct {
	*Container
	ctx   context.Context
	found format.Warnings
}

func (c *canonical) violates(rule int, off int64, field, format string, args ...any) {
	c.found.Add(core.Errs.Malformed(off, field, "canonical form, rule %d: %s", rule,
		fmt.Sprintf(format, args...)))
}

func (c *canonical) check() error {
	r := c.r
	if c.data {
		c.violates(1, r.Size()-footerSize, "manifest", "there is no manifest")
		return nil
	}
	if n := len(c.List); n > 0 {
		c.violates(6, r.ManifestAt, "shards", "%d shards", n)
	}
	c.checkNames("attributes", r.Attributes)
	for _, t := range r.Tensors {
		c.checkNames("objects["+naming.Quote(t.Name)+"].attributes", r.TensorAttributes[t])
	}
	all := slices.Clone(r.Payloads)
	slices.SortFunc(all, func(a, b *core.Payload) int {
		if a.T == b.T {
			return strings.Compare(a.Role(), b.Role())
		}
		return strings.Compare(a.T.Name, b.T.Name)
	})
	return c.checkLocations(all)
}

// checkNames checks that the keys of attributes are in NFC.
func (c *canonical) checkNames(field string, attributes []byte) {
	for name := range cbor.Entries(attributes) {
		if !norm.NFC.IsNormalString(name) {
			c.violates(5, -1, field+"["+naming.Quote(name)+"]", "the name is not in NFC")
		}
	}
}

// checkLocations checks names, encodings, digests and offsets of the payloads in all,
// which are in the order of a canonical file.
func (c *canonical) checkLocations(all []*core.Payload) error {
	r := c.r
	next, empty := int64(CanonicalAlignment), int64(-1)
	seen, first := map[core.Extent]bool{}, map[content]*core.Payload{}
	var taken []core.Extent
	for i, b := range all {
		field := func() string { return r.PathOf(b) }
		if (i == 0 || all[i-1].T != b.T) && !norm.NFC.IsNormalString(b.T.Name) {
			c.violates(5, -1, field(), "the name of the object is not in NFC")
		}
		if !norm.NFC.IsNormalString(b.Role()) {
			c.violates(5, -1, field(), "the name of the part is not in NFC")
		}
		if b.Encoded() {
			c.violates(4, b.Offset, field(), "it is encoded")
		}
		hashed := hasXXH3(b)
		if !hashed {
			c.violates(4, b.Offset, field(), "its digest is no xxh3")
		}
		if b.Shard > 0 {
			continue // a violation of rule 6
		}
		want := next
		if b.Length == 0 {
			if empty < 0 {
				empty = next
			}
			want = empty
		} else if seen[core.Extent{Off: b.Offset, Length: b.Length}] {
			continue
		}
		if b.Offset != want {
			c.violates(2, b.Offset, field(), "it is at %d and belongs at %d", b.Offset, want)
		}
		if b.Length == 0 {
			continue
		}
		seen[core.Extent{Off: b.Offset, Length: b.Length}] = true
		taken = append(taken, core.Extent{Off: b.Offset, Length: b.Length})
		next = max(next, b.Offset+b.Length)
		next += align.Padding(next, CanonicalAlignment)
		if !hashed || b.Encoded() {
			continue
		}
		key := content{b.Digest, b.Length}
		other := first[key]
		if other == nil {
			first[key] = b
			continue
		}
		same, err := format.SameBytes(c.ctx, other.Blob(), b.Blob())
		if err != nil {
			return err
		}
		if same {
			c.violates(3, b.Offset, field(),
				"its bytes are also at %d: it has to share them", other.Offset)
		}
	}
	if r.ManifestAt != next {
		c.violates(1, r.ManifestAt, "manifest",
			"it is at %d and belongs at %d", r.ManifestAt, next)
	}
	if end := r.ManifestAt + r.ManifestSize; end != r.Size()-footerSize {
		c.violates(1, end, "footer", "it does not follow the manifest")
	}
	taken = append(taken, core.Extent{Off: r.ManifestAt, Length: r.ManifestSize})
	return r.FindNonZero(c.ctx, taken, func(at int64) {
		c.violates(1, at, "", "a byte of nothing that is not zero")
	})
}
