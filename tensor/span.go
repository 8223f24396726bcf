package tensor

import "fmt"

// A SpanKind is the role of a range of a file.
type SpanKind uint8

const (
	SpanHeader   SpanKind = iota // magic numbers, and where the metadata is: headers and footers
	SpanMetadata                 // what describes the payloads
	SpanTensor                   // elements of a tensor, as they are stored
	SpanBlob                     // a payload that is not a tensor
	SpanPadding                  // between the others, as far as alignment explains it
	SpanUnused                   // bytes that nothing in the file refers to
)

// String returns the word for the kind: header, metadata, tensor, …
func (k SpanKind) String() string {
	switch k {
	case SpanHeader:
		return "header"
	case SpanMetadata:
		return "metadata"
	case SpanTensor:
		return "tensor"
	case SpanBlob:
		return "blob"
	case SpanPadding:
		return "padding"
	case SpanUnused:
		return "unused"
	}
	return fmt.Sprintf("SpanKind(%d)", uint8(k))
}

// MarshalText returns the word of String.
func (k SpanKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// A Span is a range of a file. The spans of a file are disjoint and cover it: bytes that
// several tensors share belong to the first of them in the file. Tensors of an index that
// are in other files, its shards, have no span in it: Blob.Stored names the shard and the
// place there.
type Span struct {
	Offset int64    `json:"offset"`
	Size   int64    `json:"size"` // more than 0
	Kind   SpanKind `json:"kind"`
	Name   string   `json:"name,omitempty"` // of the tensor or blob
}
