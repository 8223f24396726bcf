package ptd

import (
	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/schema/ptdfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// legacy reads a FlatTensor of 0.6, which has the same version, identifier and header
// as one of today. There a tensor is at an offset in a segment, which all tensors
// share, and its size is what type and shape say. Blobs have a segment each.
func (p *parser) legacy(table flatbuffers.Table) error {
	var root ptdfb.LegacyFlatTensor
	root.Init(table.Bytes, table.Pos)
	if err := p.version(root.Version(), p.at(table, ptdfb.SlotLegacyFlatTensorVersion)); err != nil {
		return err
	}
	r := p.r
	r.legacy, r.align = true, int64(root.TensorAlignment())
	// Whoever writes the entries again aligns them like this: a small file must not
	// make gigabytes of padding.
	if r.align&(r.align-1) != 0 || r.align > 1<<20 {
		if err := p.warn(p.at(table, ptdfb.SlotLegacyFlatTensorTensorAlignment), "tensor_alignment", "%d is not a power of two up to 2^20", r.align); err != nil {
			return err
		}
		r.align = 0
	}
	var m ptdfb.TensorMetadata
	var nd ptdfb.LegacyNamedData
	tensors := root.TensorsLength()
	need := needs{entries: tensors + root.NamedDataLength(), segments: root.SegmentsLength()}
	for i := range tensors {
		root.Tensors(&m, i)
		need.add(legacyLayout(&m))
	}
	at := p.shift + int64(table.Pos)
	if err := p.reserve(need, at, "tensors"); err != nil {
		return err
	}
	if err := p.segments(&root); err != nil {
		return err
	}
	where := place{vector: "tensors", key: ".fully_qualified_name"}
	for where.i = range tensors {
		root.Tensors(&m, where.i)
		if err := p.legacyTensor(&r.entries[where.i], &m, where); err != nil {
			return err
		}
	}
	where = place{vector: "named_data", key: ".key"}
	for where.i = range root.NamedDataLength() {
		root.NamedData(&nd, where.i)
		e := &r.entries[tensors+where.i]
		if err := p.name(e, nd.Key(), where, p.at(nd.Table(), ptdfb.SlotLegacyNamedDataKey)); err != nil {
			return err
		}
		if err := p.segmentOf(e, nd.SegmentIndex(), where, p.at(nd.Table(), ptdfb.SlotLegacyNamedDataSegmentIndex)); err != nil {
			return err
		}
		e.Data = tensor.NewBlob(&r.segments[e.segment])
	}
	return p.finish(at, func(i int) (int64, string) {
		if i < tensors {
			root.Tensors(&m, i)
			return p.at(m.Table(), ptdfb.SlotTensorMetadataFullyQualifiedName), at1("tensors", i) + ".fully_qualified_name"
		}
		root.NamedData(&nd, i-tensors)
		return p.at(nd.Table(), ptdfb.SlotLegacyNamedDataKey), at1("named_data", i-tensors) + ".key"
	})
}

func legacyLayout(m *ptdfb.TensorMetadata) layout {
	return readLayout(m.Table(), ScalarType(m.ScalarType()),
		ptdfb.SlotTensorMetadataScalarType, ptdfb.SlotTensorMetadataSizes, ptdfb.SlotTensorMetadataDimOrder)
}

func (p *parser) legacyTensor(e *entry, m *ptdfb.TensorMetadata, where place) error {
	if err := p.name(e, m.FullyQualifiedName(), where, p.at(m.Table(), ptdfb.SlotTensorMetadataFullyQualifiedName)); err != nil {
		return err
	}
	if err := p.segmentOf(e, m.SegmentIndex(), where, p.at(m.Table(), ptdfb.SlotTensorMetadataSegmentIndex)); err != nil {
		return err
	}
	segment, off := &p.r.segments[e.segment], m.Offset()
	if off > uint64(segment.Size()) {
		return malformed(p.at(m.Table(), ptdfb.SlotTensorMetadataOffset), where.entry()+".offset", "%d, in a segment of %d bytes", off, segment.Size())
	}
	left := segment.Size() - int64(off)
	n, ok, err := p.tensor(e, legacyLayout(m), where, left)
	switch {
	case err != nil:
		return err
	case ok:
		p.payload(e, segment.Offset()+int64(off), n, ScalarType(m.ScalarType()))
	default: // a blob, of which it is not known that it is smaller
		p.payload(e, segment.Offset()+int64(off), left, 0)
	}
	return nil
}
