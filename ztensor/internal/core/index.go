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

// Unnamed returns an error of package sparse without the name of the tensor.
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

// PathKey returns a key of the file as a path of an error has it: escaped, and cut if it
// is long.
func PathKey(key []byte) string {
	s := naming.Quote(string(key))
	return s[1 : len(s)-1]
}

// An index is the content of a manifest of any version. Its strings point into the
// manifest, which ReadManifest has copied.
type index struct {
	Version          string
	Generator        string
	List             string // the manifest's key of the list of tensors
	Roles            string // the manifest's key of the parts of a tensor; "" in 0.1
	Tensors          []*tensor.Tensor
	Payloads         []*Payload
	Attributes       []byte                    // a CBOR map; nil if the file has none
	TensorAttributes map[*tensor.Tensor][]byte // CBOR maps
	Unsorted         bool                      // payloads do not ascend, or are in shards
	Warnings         format.Warnings

	Shards []ShardID

	ManifestAt, ManifestSize int64
	FooterSize               int64

	tensors  format.Arena[tensor.Tensor]
	payloads format.Arena[blobSource]
	extras   format.Arena[extra]
	Dims     format.Arena[int64]
	Parts    format.Arena[tensor.Part]
}

// Reserve allocates memory for n tensors of one payload.
func (x *index) Reserve(n int) {
	if n > 0 {
		x.Tensors, x.Payloads = make([]*tensor.Tensor, 0, n), make([]*Payload, 0, n)
		x.tensors.Reserve(n)
		x.payloads.Reserve(n)
		x.Dims.Reserve(2 * n)
	}
}

// NewTensor adds a tensor to the index.
func (x *index) NewTensor(name string) *tensor.Tensor {
	t := &x.tensors.Take(1)[0]
	t.Name = name
	x.Tensors = append(x.Tensors, t)
	return t
}

// NewPayload adds a payload of t to the index.
func (r *File) NewPayload(t *tensor.Tensor) *Payload {
	s := &r.payloads.Take(1)[0]
	p := &s.p
	p.R, p.T, p.self = r, t, s
	r.Payloads = append(r.Payloads, p)
	return p
}

// PathOf returns the path of p in the manifest, for errors.
func (x *index) PathOf(p *Payload) string { return x.Field(p.T.Name, p.Role()) }

// Field returns the path of a payload in the manifest, for errors.
func (x *index) Field(name, role string) string {
	if x.Roles == "" {
		return fmt.Sprintf("%s[%s]", x.List, naming.Quote(name))
	}
	return fmt.Sprintf("%s[%s].%s[%s]", x.List, naming.Quote(name), x.Roles, naming.Quote(role))
}

// An Extent is a range of bytes of a file.
type Extent struct{ Off, Length int64 }

// A payloadExtent is the extent of payload i.
type payloadExtent struct {
	Extent
	shard, i int32
}

// Overlaps calls report with pairs of payloads whose extents overlap and are not equal,
// until report returns false. Each payload is b at most once.
func (x *index) Overlaps(report func(a, b *Payload) bool) {
	if !x.Unsorted {
		return
	}
	ends := make([]payloadExtent, 1+len(x.Shards)) // of each file, the extent that ends last
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

// byOffset returns the extents that are not empty, sorted by offset.
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

// FindNonZero calls report with the offset of the first byte that is not zero in each gap
// between the taken extents. It sorts taken.
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
