package tensorfile

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/npy"
	"github.com/tensorfile/tensorfile/npz"
	"github.com/tensorfile/tensorfile/onnx"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/ptn"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/torch"
	"github.com/tensorfile/tensorfile/ztensor"
)

// FromReader returns a File over a Reader of one of the format packages, such as one
// that was opened with options of its own. A Reader of another package may have a
// method Format. Closing the File closes the Reader.
func FromReader(r Reader) *File {
	f := &File{r: r, size: r.Size()}
	switch r := r.(type) {
	case interface{ Format() Format }:
		f.format = r.Format()
	case *ztensor.Reader:
		f.format = ZTensor
	case *ptd.Reader:
		f.format = PTD
	case *pte.Reader:
		f.format = PTE
	case *rten.Reader:
		f.format = RTen
	case *primitiv.Reader:
		f.format = Primitiv
	case *safetensors.Reader:
		f.format = Safetensors
	case *npy.Reader:
		f.format = NPY
	case *npz.Reader:
		f.format = NPZ
	case *gguf.Reader:
		f.format = GGUF
	case *ptn.Reader:
		f.format = PTN
	case *torch.Reader:
		f.format = Torch
	case *onnx.Reader:
		f.format = ONNX
	}
	return f
}

// FromTensors returns a File of tensors that need not be in a file, with attributes,
// which may be nil: for packages that take a File. Its Format is 0, its Version "", its
// Size 0, and Close does nothing. The tensors must not change while it is in use.
func FromTensors(ts []*tensor.Tensor, attributes map[string]string) *File {
	m := &inMemory{tensors: slices.Clone(ts), attributes: maps.Clone(attributes),
		index: map[string]int{}}
	for i, t := range m.tensors {
		if _, taken := m.index[t.Name]; !taken {
			m.index[t.Name] = i
		}
	}
	return &File{r: m}
}

// inMemory is the Reader of FromTensors.
type inMemory struct {
	tensors    []*tensor.Tensor
	attributes map[string]string
	index      map[string]int
}

func (m *inMemory) Close() error                      { return nil }
func (m *inMemory) Version() string                   { return "" }
func (m *inMemory) Size() int64                       { return 0 }
func (m *inMemory) Len() int                          { return len(m.tensors) }
func (m *inMemory) Tensors() iter.Seq[*tensor.Tensor] { return slices.Values(m.tensors) }
func (m *inMemory) Warnings() []error                 { return nil }
func (m *inMemory) Spans() iter.Seq[tensor.Span]      { return func(func(tensor.Span) bool) {} }

func (m *inMemory) Tensor(name string) *tensor.Tensor {
	if i, ok := m.index[name]; ok {
		return m.tensors[i]
	}
	return nil
}

func (m *inMemory) Blobs() iter.Seq2[string, tensor.Blob] {
	return func(func(string, tensor.Blob) bool) {}
}

func (m *inMemory) Attributes() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, k := range slices.Sorted(maps.Keys(m.attributes)) {
			if !yield(k, m.attributes[k]) {
				return
			}
		}
	}
}

// Verify checks descriptions and reads all data, which checks digests.
func (m *inMemory) Verify(ctx context.Context,
	opts *tensor.VerifyOptions) (*tensor.Report, error) {
	found := format.NewFindings(opts)
	return found.End(m.verify(ctx, found))
}

func (m *inMemory) verify(ctx context.Context, found *format.Findings) error {
	for _, t := range m.tensors {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.Check(); err != nil {
			found.Error(err)
			continue
		}
		if t.External {
			continue
		}
		if _, err := t.Data.WriteTo(io.Discard); err != nil {
			found.Error(fmt.Errorf("tensor %s: %w", naming.Quote(t.Name), err))
		}
		for _, p := range t.Parts {
			if _, err := p.Data.WriteTo(io.Discard); err != nil {
				found.Error(fmt.Errorf("tensor %s, %s: %w", naming.Quote(t.Name),
					naming.Quote(p.Role),
					err))
			}
		}
	}
	return nil
}
