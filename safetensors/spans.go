package safetensors

import (
	"iter"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/jsonheader"
	"github.com/tensorfile/tensorfile/tensor"
)

// Spans yields the role of every byte of the file, in the order of offsets. All bytes of
// an index are metadata; see [Reader.ShardSpans] for its shards.
func (r *Reader) Spans() iter.Seq[tensor.Span] {
	if r.dataAt == 0 {
		return format.CoverSpans(r.Size(), []tensor.Span{format.MetadataSpan(0, r.Size())})
	}
	return format.SpansOf(r, r.metadataSpans()...)
}

// metadataSpans returns the spans before the data of a file.
func (r *Reader) metadataSpans() []tensor.Span {
	return []tensor.Span{format.HeaderSpan(0, jsonheader.Start),
		format.MetadataSpan(jsonheader.Start, r.dataAt-jsonheader.Start)}
}

// ShardSpans yields the shards of an index by name, each with the roles of its bytes, in
// the order of offsets; nothing for a plain file.
func (r *Reader) ShardSpans() iter.Seq2[string, iter.Seq[tensor.Span]] {
	return func(yield func(string, iter.Seq[tensor.Span]) bool) {
		for i, shard := range r.shards {
			list := shard.metadataSpans()
			for j := range shard.tensors {
				t := &shard.tensors[j]
				st, _ := t.Data.Stored()
				list = append(list, tensor.Span{Offset: st.Offset, Size: st.Size,
					Kind: tensor.SpanTensor, Name: t.Name})
			}
			if !yield(r.files[i], format.CoverSpans(shard.Size(), list)) {
				return
			}
		}
	}
}
