package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

// IndexRoles are the parts of a sparse tensor that have indices.
var IndexRoles = []string{"indices", "indptr", "coords"}

// Unnamed returns an error of package sparse without the name of its tensor.
func Unnamed(err error) error {
	var named *sparse.Error
	if errors.As(err, &named) {
		return named.Err
	}
	return err
}

// PayloadsOf lists the payloads of a tensor of an open file, in the order of the
// manifest.
func PayloadsOf(t *tensor.Tensor) []*Payload {
	all := make([]*Payload, 0, 1+len(t.Parts))
	if p, ok := PayloadOf(t.Data); ok {
		all = append(all, p)
	}
	for i := range t.Parts {
		if p, ok := PayloadOf(t.Parts[i].Data); ok {
			all = append(all, p)
		}
	}
	return all
}

// PathKey keeps a path with a key from the file readable.
func PathKey(key []byte) string {
	s := naming.Quote(string(key))
	return s[1 : len(s)-1]
}

// An index is what the manifest of any generation comes down to. Its strings point into
// the manifest, which is in memory of its own.
type index struct {
	Version          string
	Generator        string
	Roles            string // what it calls the parts of one; "" where there is only one
	List             string // what the manifest calls the list of tensors, for errors
	Tensors          []*tensor.Tensor
	Payloads         []*Payload
	Attributes       []byte                    // a CBOR map; nil where the file has none
	TensorAttributes map[*tensor.Tensor][]byte // the attributes of tensors, as CBOR
	Unsorted         bool                      // components do not ascend in the file
	Warnings         format.Warnings

	Shards []ShardID // other files that have payloads

	ManifestAt, ManifestSize int64
	FooterSize               int64 // its size

	tensors  format.Arena[tensor.Tensor]
	payloads format.Arena[blobSource]
	extras   format.Arena[extra]
	Dims     format.Arena[int64]
	Parts    format.Arena[tensor.Part]
}

// Reserve allocates n tensors of one component.
func (x *index) Reserve(n int) {
	if n > 0 {
		x.Tensors, x.Payloads = make([]*tensor.Tensor, 0, n), make([]*Payload, 0, n)
		x.tensors.Reserve(n)
		x.payloads.Reserve(n)
		x.Dims.Reserve(2 * n)
	}
}

// NewTensor adds a tensor.
func (x *index) NewTensor(name string) *tensor.Tensor {
	t := &x.tensors.Take(1)[0]
	t.Name = name
	x.Tensors = append(x.Tensors, t)
	return t
}

// NewPayload adds a payload of t.
func (r *File) NewPayload(t *tensor.Tensor) *Payload {
	s := &r.payloads.Take(1)[0]
	p := &s.p
	p.R, p.T, p.self = r, t, s
	r.Payloads = append(r.Payloads, p)
	return p
}

// PathOf returns the path of c in the manifest, for errors.
func (x *index) PathOf(c *Payload) string { return x.Field(c.T.Name, c.Role()) }

// Field is the path of a component in the manifest's own words.
func (x *index) Field(name, role string) string {
	if x.Roles == "" {
		return fmt.Sprintf("%s[%s]", x.List, naming.Quote(name))
	}
	return fmt.Sprintf("%s[%s].%s[%s]", x.List, naming.Quote(name), x.Roles, naming.Quote(role))
}

// An Extent is a range of bytes of a file.
type Extent struct{ Off, Length int64 }

// A payloadExtent extent is the extent of a payload.
type payloadExtent struct {
	Extent
	shard, i int32 // of the payload
}

// Overlaps calls report with two payloads that share some of their bytes but are not at
// the same place, each second one at most once, until report returns false.
func (x *index) Overlaps(report func(a, b *Payload) bool) {
	if !x.Unsorted {
		return
	}
	ends := make([]payloadExtent, 1+len(x.Shards)) // of each file, the one that ends last so far
	for _, e := range x.byOffset() {
		f := &ends[e.shard]
		if e.Off < f.Off+f.Length && e.Extent != f.Extent &&
			!report(x.Payloads[f.i], x.Payloads[e.i]) {
			return
		}
		if e.Off+e.Length > f.Off+f.Length {
			*f = e
		}
	}
}

// byOffset returns the extents of the payloads that are not empty, in the order in which
// they begin.
func (x *index) byOffset() []payloadExtent {
	all := make([]payloadExtent, 0, len(x.Payloads))
	for i, p := range x.Payloads {
		if p.Length > 0 {
			all = append(all, payloadExtent{Extent{p.Offset, p.Length}, p.Shard, int32(i)})
		}
	}
	slices.SortFunc(all, func(a, b payloadExtent) int {
		return cmp.Or(cmp.Compare(a.Off, b.Off), cmp.Compare(a.i, b.i))
	})
	return all
}

// FindNonZero reports the first byte that is not zero of each gap between the taken extents.
func (r *File) FindNonZero(ctx context.Context, taken []Extent, report func(at int64)) error {
	slices.SortFunc(taken, func(a, b Extent) int { return cmp.Compare(a.Off, b.Off) })
	found := format.NewFindings(nil)
	in := format.NewScanner(ctx, string(Errs), r.Source, found)
	at := int64(8) // after the magic
	for _, e := range taken {
		first, err := in.NonZero(at, e.Off, "")
		if err != nil {
			return Errs.Wrap(at, "", err)
		}
		if first >= 0 {
			report(first)
		}
		at = max(at, e.Off+e.Length)
	}
	return found.Err()
}
