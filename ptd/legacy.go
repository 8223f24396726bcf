package ptd

import (
	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/schema/ptdfb"
)

// legacy reads a FlatTensor of 0.6, of the same version, identifier and header. There all
// tensors are at offsets in one segment, of the size that their shapes say.
func (p *parser) legacy(table flatbuffers.Table) error {
	var root ptdfb.LegacyFlatTensor
	root.Init(table.Bytes, table.Pos)
	at := p.at(table, ptdfb.SlotLegacyFlatTensorVersion)
	if err := p.version(root.Version(), at); err != nil {
		return err
	}
	r := p.r
	r.legacy, r.align = true, int64(root.TensorAlignment())
	// Whoever writes the entries again aligns them like this: a small file must not
	// make gigabytes of padding.
	if r.align&(r.align-1) != 0 || r.align > 1<<20 {
		if err := p.warn(p.at(table, ptdfb.SlotLegacyFlatTensorTensorAlignment),
			"tensor_alignment",
			"%d is not a power of two up to 2^20", r.align); err != nil {
			return err
		}
		r.align = 0
	}
	var m ptdfb.TensorMetadata
	var nd ptdfb.LegacyNamedData
	return p.entries(&root, p.shift+int64(table.Pos), vector{
		name: "tensors", key: ".fully_qualified_name", n: root.TensorsLength(),
		slots: slots{
			key:     ptdfb.SlotTensorMetadataFullyQualifiedName,
			segment: ptdfb.SlotTensorMetadataSegmentIndex,
			scalar:  ptdfb.SlotTensorMetadataScalarType, sizes: ptdfb.SlotTensorMetadataSizes,
			order: ptdfb.SlotTensorMetadataDimOrder,
		},
		read: func(i int, x *row) {
			root.Tensors(&m, i)
			*x = row{table: m.Table(), key: m.FullyQualifiedName(), segment: m.SegmentIndex(),
				offset: m.Offset(), isTensor: true, layout: m.Table(),
				scalar: ScalarType(m.ScalarType())}
		},
	}, vector{
		name: "named_data", key: ".key", n: root.NamedDataLength(),
		slots: slots{key: ptdfb.SlotLegacyNamedDataKey,
			segment: ptdfb.SlotLegacyNamedDataSegmentIndex},
		read: func(i int, x *row) {
			root.NamedData(&nd, i)
			*x = row{table: nd.Table(), key: nd.Key(), segment: nd.SegmentIndex()}
		},
	})
}
