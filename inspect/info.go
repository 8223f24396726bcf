package inspect

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/onnx"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/ptn"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// An Info summarises a file: its sizes, its attributes, and in the field named after its
// format, if there is one, the facts that only this format has.
type Info struct {
	Format  string `json:"format"`
	Version string `json:"version"`
	Size    int64  `json:"size"`
	InfoTotal
	// Parameters counts the elements of weights. StoredElements counts the elements of
	// all tensors as they are stored: a quantised weight may be stored as several
	// tensors.
	StoredElements int64                 `json:"stored_elements"`
	Schemes        []quant.Total         `json:"schemes,omitempty"` // of quantised weights
	Totals         InfoTotals            `json:"totals"`
	DTypes         map[string]*InfoTotal `json:"dtypes"` // by Tensor.DTypeName
	Attributes     AttributeList         `json:"attributes"`
	PTD            *PTDInfo              `json:"ptd,omitempty"`
	PTE            *PTEInfo              `json:"pte,omitempty"`
	PTN            *PTNInfo              `json:"ptn,omitempty"`
	RTen           *RTenInfo             `json:"rten,omitempty"`
	ONNX           *ONNXInfo             `json:"onnx,omitempty"`
	ZTensor        *ZTensorInfo          `json:"ztensor,omitempty"`
	GGUF           *GGUFInfo             `json:"gguf,omitempty"`
	Primitiv       *PrimitivInfo         `json:"primitiv,omitempty"`
	Shards         []UsageGroup          `json:"shards,omitempty"`
	Warnings       []string              `json:"warnings"`
}

// An InfoTotal sums up tensors.
type InfoTotal struct {
	Tensors    int64 `json:"tensors"`
	Parameters int64 `json:"parameters"` // elements
	Bytes      int64 `json:"bytes"`      // decoded
}

// InfoTotals sums up tensors and blobs.
type InfoTotals struct {
	InfoTotal
	Blobs     int64 `json:"blobs"`
	BlobBytes int64 `json:"blob_bytes"`
}

// FormatName returns the name of the format of a file in JSON: the name of its Format, or
// dcp for a checkpoint of torch.distributed.
func FormatName(f *tensorfile.File) string {
	const distributed = "dcp"
	if f.Format() == tensorfile.Torch && f.Version() == distributed {
		return distributed
	}
	return f.Format().String()
}

// NewInfo summarises a file. It reads metadata, the start of each blob of a .pte, and the
// tensors that quant.Find reads. cfg is the part of the model's configuration that
// describes quantised weights, and may be nil.
func NewInfo(f *tensorfile.File, cfg *quant.Config) *Info {
	d := &Info{Format: FormatName(f), Version: f.Version(), Size: f.TotalSize(),
		DTypes: map[string]*InfoTotal{}, Attributes: Attributes(f), Warnings: []string{}}
	for t := range f.Tensors() {
		n, _ := t.Shape.Elements()
		name := t.DTypeName()
		if d.DTypes[name] == nil {
			d.DTypes[name] = &InfoTotal{}
		}
		for _, s := range []*InfoTotal{&d.InfoTotal, d.DTypes[name]} {
			s.Tensors++
			s.Parameters += n
			s.Bytes += max(DecodedSize(t), 0)
		}
	}
	weights := quant.Find(f, cfg)
	d.Parameters, d.StoredElements = weights.Parameters()
	d.Schemes = weights.Totals()
	d.Totals.InfoTotal = d.InfoTotal
	for _, b := range f.Blobs() {
		d.Totals.Blobs++
		d.Totals.BlobBytes += max(b.Size(), 0)
	}
	for _, w := range f.Warnings() {
		d.Warnings = append(d.Warnings, w.Error())
	}
	if Shards(f) != nil {
		d.Shards = shardGroups(f)
		slices.SortStableFunc(d.Shards,
			func(a, b UsageGroup) int { return CompareNames(a.Name, b.Name) })
	}
	switch r := f.Sys().(type) {
	case *ptd.Reader:
		d.PTD = ptdInfo(r)
	case *pte.Reader:
		d.PTE = pteInfo(f, r)
	case *ptn.Reader:
		d.PTN = ptnInfo(r)
	case *rten.Reader:
		d.RTen = rtenInfo(r)
	case *onnx.Reader:
		d.ONNX = onnxInfo(r)
	case *ztensor.Reader:
		d.ZTensor = ztensorInfo(r)
	case *gguf.Reader:
		d.GGUF = ggufInfo(r)
	case *primitiv.Reader:
		d.Primitiv = primitivInfo(r)
	}
	return d
}

// DecodedSize returns the size in bytes of the elements of a tensor, or of all its parts
// if it is not dense; -1 if it is known only after decoding.
func DecodedSize(t *tensor.Tensor) int64 {
	switch {
	case t.External:
		n, _ := t.Shape.Elements()
		if size, ok := t.DType.Bytes(n); ok {
			return size
		}
		return -1
	case t.Dense():
		return t.Data.Size()
	}
	return t.Size()
}

// An AttributeList is a JSON object, in the order of the file.
type AttributeList []Attribute

// MarshalJSON implements json.Marshaler.
func (l AttributeList) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, a := range l {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := e.Encode(a.Key); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := e.Encode(a.Value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
