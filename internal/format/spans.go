package format

import (
	"cmp"
	"iter"
	"slices"
	"sort"

	"github.com/tensorfile/tensorfile/tensor"
)

// maxPadding is the largest alignment of any format: zTensor 2 in canonical form has it.
const maxPadding = 64 << 10

// HeaderSpan returns the span of a header or footer.
func HeaderSpan(off, size int64) tensor.Span {
	return tensor.Span{Offset: off, Size: size, Kind: tensor.SpanHeader}
}

// MetadataSpan returns the span of metadata. Payloads may be inside it.
func MetadataSpan(off, size int64) tensor.Span {
	return tensor.Span{Offset: off, Size: size, Kind: tensor.SpanMetadata}
}

// UnusedSpan returns the span of bytes that nothing refers to.
func UnusedSpan(off, size int64) tensor.Span {
	return tensor.Span{Offset: off, Size: size, Kind: tensor.SpanUnused}
}

// PaddingSpan returns the span of an area in which all gaps between other spans are
// padding. Elsewhere a gap is padding only if the alignment of the next span explains it.
func PaddingSpan(off, size int64) tensor.Span {
	return tensor.Span{Offset: off, Size: size, Kind: tensor.SpanPadding}
}

// AppendSpan appends the span of a payload, if it is in the file itself.
func AppendSpan(list []tensor.Span, kind tensor.SpanKind, name string,
	b tensor.Blob) []tensor.Span {
	st, ok := b.Stored()
	if !ok || st.File != "" || st.Size <= 0 || st.Offset < 0 {
		return list
	}
	return append(list, tensor.Span{Offset: st.Offset, Size: st.Size, Kind: kind, Name: name})
}

// SpansOf yields the spans of a file, as CoverSpans does: of its tensors and blobs, and
// the spans of its headers and metadata, which the caller gives.
func SpansOf(r Reader, metadata ...tensor.Span) iter.Seq[tensor.Span] {
	return func(yield func(tensor.Span) bool) {
		list := slices.Clone(metadata)
		for t := range r.Tensors() {
			if t.External {
				continue
			}
			list = AppendSpan(list, tensor.SpanTensor, t.Name, t.Data)
			for i := range t.Parts {
				list = AppendSpan(list, tensor.SpanTensor, t.Name, t.Parts[i].Data)
			}
		}
		for name, b := range r.Blobs() {
			list = AppendSpan(list, tensor.SpanBlob, name, b)
		}
		CoverSpans(r.Size(), list)(yield)
	}
}

// CoverSpans yields disjoint spans that cover [0, size), in the order of offsets. A byte
// that is in several spans of the list belongs to a tensor or blob, else to the span that
// begins first. A byte that is in none of them is padding or unused.
func CoverSpans(size int64, list []tensor.Span) iter.Seq[tensor.Span] {
	return func(yield func(tensor.Span) bool) {
		var payloads, metadata, padding []tensor.Span
		for _, s := range list {
			if s.Size <= 0 || s.Offset < 0 || s.Offset >= size {
				continue
			}
			s.Size = min(s.Size, size-s.Offset)
			switch s.Kind {
			case tensor.SpanTensor, tensor.SpanBlob:
				payloads = append(payloads, s)
			case tensor.SpanPadding:
				padding = append(padding, s)
			default:
				metadata = append(metadata, s)
			}
		}
		sortByOffset(payloads)
		sortByOffset(metadata)
		c := cover{yield: yield, metadata: metadata, padding: padding}
		for _, s := range payloads {
			if !c.fill(s.Offset) || !c.emit(s) {
				return
			}
		}
		c.fill(size)
	}
}

// sortByOffset sorts spans by their offsets; with the same offset, the longest comes
// first.
func sortByOffset(spans []tensor.Span) {
	sort.SliceStable(spans, func(i, j int) bool {
		a, b := &spans[i], &spans[j]
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(b.Size, a.Size)) < 0
	})
}

// A cover yields the spans of a file from its start to its end. Its methods return false
// once yield has returned false.
type cover struct {
	yield    func(tensor.Span) bool
	at       int64         // bytes before it are covered
	metadata []tensor.Span // without those that end before at
	padding  []tensor.Span
}

// fill covers the bytes from at to end, between payloads: with metadata and gaps.
func (c *cover) fill(end int64) bool {
	for c.at < end {
		for len(c.metadata) > 0 && c.metadata[0].Offset+c.metadata[0].Size <= c.at {
			c.metadata = c.metadata[1:]
		}
		next := end
		if len(c.metadata) > 0 {
			if s := c.metadata[0]; s.Offset <= c.at {
				s.Size = min(s.Offset+s.Size, end) - s.Offset
				if !c.emit(s) {
					return false
				}
				continue
			}
			next = min(end, c.metadata[0].Offset)
		}
		if !c.gap(next) {
			return false
		}
	}
	return true
}

// gap covers the bytes from at to end, to which nothing refers. They are padding in the
// area of a PaddingSpan, or if end is aligned to more bytes than there are; else unused.
func (c *cover) gap(end int64) bool {
	s := UnusedSpan(c.at, end-c.at)
	isPadding := slices.ContainsFunc(c.padding, func(p tensor.Span) bool {
		return p.Offset <= c.at && end <= p.Offset+p.Size
	})
	if s.Size < maxPadding && (isPadding || s.Size < end&-end) {
		s.Kind = tensor.SpanPadding
	}
	return c.emit(s)
}

// emit yields the part of s after at. s does not begin after at.
func (c *cover) emit(s tensor.Span) bool {
	end := s.Offset + s.Size
	if end <= c.at {
		return true
	}
	s.Offset, s.Size = c.at, end-c.at
	c.at = end
	return c.yield(s)
}
