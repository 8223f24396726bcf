package torch

import (
	"cmp"
	"iter"
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// Spans yields the role of every byte of the file, in the order of offsets. The span of a
// tensor whose elements are not contiguous is from the first to the last element; of a
// tensor in a compressed storage, the whole storage. Bytes of a storage that no tensor
// has are unused. The .metadata of a distributed checkpoint is metadata.
func (r *Reader) Spans() iter.Seq[tensor.Span] { return format.CoverSpans(r.Size(), r.spans) }

// shardSpans are the spans of another file.
type shardSpans struct {
	name  string
	spans iter.Seq[tensor.Span]
}

// ShardSpans yields the other files of a distributed checkpoint or an unpacked archive by
// name, each with the roles of its bytes, in the order of offsets.
func (r *Reader) ShardSpans() iter.Seq2[string, iter.Seq[tensor.Span]] {
	return func(yield func(string, iter.Seq[tensor.Span]) bool) {
		for _, s := range r.shards {
			if !yield(s.name, s.spans) {
				return
			}
		}
	}
}

// spans returns the spans of storages, of the metadata between them, and of tensors.
func (c *checkpoint) spans(w *rows) []tensor.Span {
	stored := slices.Clone(c.storages.order)
	for _, n := range c.archives {
		stored = append(stored, n.storages.order...)
	}
	slices.SortFunc(stored, func(a, b *payload) int { return cmp.Compare(a.at, b.at) })
	var list []tensor.Span
	at := c.at
	for _, p := range stored {
		list = append(list, format.MetadataSpan(at, p.at-at), format.UnusedSpan(p.at, p.stored))
		at = p.at + p.stored
	}
	list = append(list, format.MetadataSpan(at, c.end-at))
	w.eachSpan(func(_ *payload, s tensor.Span) { list = append(list, s) })
	return list
}

// eachSpan calls use with the spans of tensors.
func (w *rows) eachSpan(use func(p *payload, s tensor.Span)) {
	for i, a := range w.arrays {
		for _, a := range append([]*array{a}, a.partArrays()...) {
			if s, ok := a.span(); ok {
				s.Name = w.tensors[i].Name
				use(a.storage.payload, s)
			}
		}
	}
}

// span returns the span from the first to the last element.
func (a *array) span() (s tensor.Span, ok bool) {
	n, _ := a.shape.Elements()
	if a.storage == nil || n == 0 || a.storage.payload.stored == 0 {
		return s, false
	}
	p := a.storage.payload
	s = tensor.Span{Offset: p.at, Size: p.stored, Kind: tensor.SpanTensor}
	if p.src != nil && !a.isPacked() {
		last := int64(0)
		for i, count := range a.shape {
			last += (count - 1) * a.strides[i]
		}
		s.Offset += a.storage.first + a.first*a.dtype.size
		s.Size = (last + 1) * a.dtype.size
	}
	return s, true
}

func (a *array) partArrays() (list []*array) {
	for _, p := range a.parts {
		if p.array != nil {
			list = append(list, p.array)
		}
	}
	return list
}
