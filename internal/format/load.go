package format

import (
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// A Reader is what Load and SpansOf take of a Reader of a format.
type Reader interface {
	io.Closer
	Len() int
	Size() int64
	Tensors() iter.Seq[*tensor.Tensor]
	Blobs() iter.Seq2[string, tensor.Blob]
}

// Load takes what Open of a format returns. It returns the tensors of r in memory of
// their own, by name: the first of several of one name, and closes r. Data that decodes
// to more than the default of Limits.MaxDecodedTotal is an ErrLimit.
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
		if err := read(&own.Data); err != nil {
			return nil, err
		}
		for i := range own.Parts {
			if err := read(&own.Parts[i].Data); err != nil {
				return nil, err
			}
		}
		m[own.Name] = &own
	}
	return m, nil
}

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

func read(b *tensor.Blob) error {
	p, err := b.ReadAll()
	*b = tensor.BlobOf(p)
	return err
}
