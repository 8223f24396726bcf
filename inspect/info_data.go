package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// An InfoSegment is a segment of a .ptd or .pte.
type InfoSegment struct {
	Offset int64    `json:"offset"`
	Size   int64    `json:"size"`
	Roles  []string `json:"roles,omitempty"` // of a .pte: what refers to it
}

// A PTDInfo has the facts that only a .ptd has.
type PTDInfo struct {
	Schema    string        `json:"schema"`
	Alignment int64         `json:"alignment"`
	Segments  []InfoSegment `json:"segments"`
}

func ptdInfo(r *ptd.Reader) *PTDInfo {
	d := &PTDInfo{Schema: r.Schema(), Alignment: r.Alignment(), Segments: []InfoSegment{}}
	for _, s := range r.Segments() {
		d.Segments = append(d.Segments, InfoSegment{Offset: s.Offset, Size: s.Size})
	}
	return d
}

// A ZTensorInfo has the facts that only a .zt has.
type ZTensorInfo struct {
	Generator *string `json:"generator"` // nil if the file has none
	// Digest names the algorithms of the digests, separated by commas; nil if there is
	// none.
	Digest        *string        `json:"digest"`
	ContentDigest *string        `json:"content_digest,omitempty"` // of version 2
	Shards        []ZTensorShard `json:"shards,omitempty"`         // of version 2
}

// A ZTensorShard is a file that a root refers to.
type ZTensorShard struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	Digest string `json:"digest"`
}

func ztensorInfo(r *ztensor.Reader) *ZTensorInfo {
	d := &ZTensorInfo{}
	if g := r.Generator(); g != "" {
		d.Generator = &g
	}
	var algorithms []string
	note := func(b tensor.Blob) {
		st, _ := b.Stored()
		if a, _, ok := strings.Cut(st.Digest, ":"); ok && !slices.Contains(algorithms, a) {
			algorithms = append(algorithms, a)
		}
	}
	for t := range r.Tensors() {
		note(t.Data)
		for i := range t.Parts {
			note(t.Parts[i].Data)
		}
	}
	if len(algorithms) > 0 {
		slices.Sort(algorithms)
		all := strings.Join(algorithms, ", ")
		d.Digest = &all
	}
	if r.Version() != ztensor.Version2 {
		return d
	}
	if digest, err := r.ContentDigest(ztensor.SHA256); err == nil {
		d.ContentDigest = &digest
	}
	for s := range r.Shards() {
		d.Shards = append(d.Shards, ZTensorShard{s.Name, s.Size, fmt.Sprint(s.Digest)})
	}
	return d
}

// A GGUFInfo has the facts that only a .gguf has.
type GGUFInfo struct {
	Alignment int64  `json:"alignment"`  // of the data of tensors, in bytes
	ByteOrder string `json:"byte_order"` // little-endian or big-endian
}

func ggufInfo(r *gguf.Reader) *GGUFInfo {
	d := &GGUFInfo{Alignment: r.Alignment(), ByteOrder: "little-endian"}
	if r.BigEndian() {
		d.ByteOrder = "big-endian"
	}
	return d
}

// A PrimitivInfo has the facts that only a file of primitiv has.
type PrimitivInfo struct {
	Kind       string             `json:"kind"`
	Parameters int                `json:"parameters"` // objects of that class
	Optimizer  *PrimitivOptimizer `json:"optimizer"`
	Shape      *tensor.Shape      `json:"shape,omitempty"` // of a shape file
	Batch      *int64             `json:"batch,omitempty"` // of a shape file
}

// A PrimitivOptimizer is an optimizer file.
type PrimitivOptimizer struct {
	Name     *string       `json:"name"` // nil if the settings do not show it
	Settings AttributeList `json:"settings"`
}

func primitivInfo(r *primitiv.Reader) *PrimitivInfo {
	d := &PrimitivInfo{Kind: r.Kind().String(), Parameters: r.NumParameters()}
	if r.Kind() == primitiv.KindShape {
		s := r.Shape()
		shape, batch := s.Tensor(), int64(s.Batch)
		d.Shape, d.Batch = &shape, &batch
	}
	opt := r.Optimizer()
	if opt == nil {
		return d
	}
	d.Optimizer = &PrimitivOptimizer{}
	if n := opt.Name(); n != "" {
		d.Optimizer.Name = &n
	}
	for _, s := range opt.Uints {
		d.Optimizer.Settings = append(d.Optimizer.Settings, Attribute{s.Name, s.Value})
	}
	for _, s := range opt.Floats {
		var v any = s.Value // with the digits of a float32
		if s.Value-s.Value != 0 {
			v = Float(s.Value)
		}
		d.Optimizer.Settings = append(d.Optimizer.Settings, Attribute{s.Name, v})
	}
	return d
}
