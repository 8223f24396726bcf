package format

import (
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// A Reader has the methods of a format's Reader that Load and SpansOf call.
type Reader interface {
	io.Closer
	Len() int
	Size() int64
	Tensors() iter.Seq[*tensor.Tensor]
	Blobs() iter.Seq2[string, tensor.Blob]
}

// Load takes the results of a format's Open. It returns the tensors of r by name, in
// memory that the caller owns, and closes r. If several tensors have a name, it returns
// the first. It fails with tensor.ErrLimit if the data decode to more than the default of
// Limits.MaxDecodedTotal.
func Load[R Reader](r R, err error) (map[string]*tensor.Tensor, error) {
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := CheckDecoded(tensor.Limits{}, r.Size(), blobs(r)); err != nil {
		return nil, err
	}
	m := make(map[string]*tensor.Tensor, r.Len())
	for t := range r.Tensors() {
		if m[t.Name] != nil {
			continue
		}
		own := *t
		own.Name, own.Shape, own.Order = strings.Clone(t.Name), slices.Clone(t.Shape),
			slices.Clone(t.Order)
		own.Parts = slices.Clone(t.Parts)
		if err := intoMemory(&own.Data); err != nil {
			return nil, err
		}
		for i := range own.Parts {
			if err := intoMemory(&own.Parts[i].Data); err != nil {
				return nil, err
			}
		}
		m[own.Name] = &own
	}
	return m, nil
}

// blobs yields the data of all tensors and their parts.
func blobs(r Reader) iter.Seq[tensor.Blob] {
	return func(yield func(tensor.Blob) bool) {
		for t := range r.Tensors() {
			for b := range Blobs(t) {
				if !yield(b) {
					return
				}
			}
		}
	}
}

// intoMemory replaces a blob by its bytes in memory.
func intoMemory(b *tensor.Blob) error {
	p, err := b.ReadAll()
	*b = tensor.BlobOf(p)
	return err
}
