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

// UnusedSpan returns the span of what nothing refers to.
func UnusedSpan(off, size int64) tensor.Span {
	return tensor.Span{Offset: off, Size: size, Kind: tensor.SpanUnused}
}

// PaddingSpan returns the span of an area in which the gaps between the other spans are
// padding, though offsets do not show it.
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

// SpansOf yields the spans of a file: its tensors, its blobs, frame, and what is between
// them.
func SpansOf(r Reader, frame ...tensor.Span) iter.Seq[tensor.Span] {
	return func(yield func(tensor.Span) bool) {
		list := slices.Clone(frame)
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

// CoverSpans yields disjoint spans that cover [0, size), in the order of offsets. Bytes
// in several spans of the list belong to a payload first, then to the span that begins
// first, and to padding last; bytes in none are padding or unused.
func CoverSpans(size int64, list []tensor.Span) iter.Seq[tensor.Span] {
	return func(yield func(tensor.Span) bool) {
		var payloads, frame, padding []tensor.Span
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
				frame = append(frame, s)
			}
		}
		sortByOffset(payloads)
		sortByOffset(frame)
		c := cover{yield: yield, frame: frame, padding: padding}
		for _, s := range payloads {
			if !c.framed(s.Offset) || !c.emit(s) {
				return
			}
		}
		c.framed(size)
	}
}

// sortByOffset puts the longest span of an offset first, which hides those inside it.
func sortByOffset(spans []tensor.Span) {
	sort.SliceStable(spans, func(i, j int) bool {
		a, b := &spans[i], &spans[j]
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(b.Size, a.Size)) < 0
	})
}

type cover struct {
	yield   func(tensor.Span) bool
	at      int64         // up to where the file is covered
	frame   []tensor.Span // those that may end after at
	padding []tensor.Span
}

// framed covers the bytes up to end, in which no payload is.
func (c *cover) framed(end int64) bool {
	for c.at < end {
		for len(c.frame) > 0 && c.frame[0].Offset+c.frame[0].Size <= c.at {
			c.frame = c.frame[1:]
		}
		next := end
		if len(c.frame) > 0 {
			if s := c.frame[0]; s.Offset <= c.at {
				s.Size = min(s.Offset+s.Size, end) - s.Offset
				if !c.emit(s) {
					return false
				}
				continue
			}
			next = min(end, c.frame[0].Offset)
		}
		if !c.gap(next) {
			return false
		}
	}
	return true
}

// gap covers the bytes up to end: as padding if it is known where padding is, or if what
// is at end is aligned so that they may be, else as unused.
func (c *cover) gap(end int64) bool {
	s := UnusedSpan(c.at, end-c.at)
	known := slices.ContainsFunc(c.padding, func(p tensor.Span) bool {
		return p.Offset <= c.at && end <= p.Offset+p.Size
	})
	if s.Size < maxPadding && (known || s.Size < end&-end) {
		s.Kind = tensor.SpanPadding
	}
	return c.emit(s)
}

// emit yields what is not yet covered of s, which begins at or before what is.
func (c *cover) emit(s tensor.Span) bool {
	end := s.Offset + s.Size
	if end <= c.at {
		return true
	}
	s.Offset, s.Size = c.at, end-c.at
	c.at = end
	return c.yield(s)
}
