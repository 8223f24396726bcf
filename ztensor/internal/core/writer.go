package core

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/digest"
)

// Settings are the options of a writer, as package ztensor has them.
type Settings struct {
	Err        error // what is wrong with them
	Canonical  bool
	Digest     digest.Algorithm
	Level      int
	Attributes map[string]any
	Generator  string
	Alignment  int64
	KeepOrder  bool
	Progress   func(done, total int64)
}

// A Writer is what the writers of both generations have in common, by items of type I:
// the shared Writer of formats, and tensors that come piece by piece.
type Writer[I any] struct {
	format.Writer[I]
	enc  *format.Encoding[I]
	part *part
}

// NewWriter returns a Writer to out. If owned is set, out is a format.Target, which the
// Writer completes.
func NewWriter[I any](out io.Writer, owned bool, enc *format.Encoding[I]) Writer[I] {
	if owned {
		return Writer[I]{Writer: format.OfFile(out.(format.Target), enc), enc: enc}
	}
	return Writer[I]{Writer: format.NewWriter(out, enc), enc: enc}
}

// Create begins a dense tensor whose bytes come piece by piece. Until it is closed, every
// other call fails.
func (w *Writer[I]) Create(name string, dtype tensor.DType,
	shape tensor.Shape) (io.WriteCloser, error) {
	p, err := newPart(name, dtype, shape, w.Check, w.Add, func() { w.part, w.enc.Err = nil, nil })
	if err != nil {
		return nil, err
	}
	w.part = p
	w.enc.Err = Errs.New(fs.ErrInvalid, "tensor %s is not closed yet", naming.Quote(name))
	return p, nil
}

// Close completes the file.
func (w *Writer[I]) Close() error {
	err := w.Writer.Close()
	w.stop()
	return err
}

// Abort drops the file. After Close it does nothing.
func (w *Writer[I]) Abort() {
	w.Writer.Abort()
	w.stop()
}

func (w *Writer[I]) stop() {
	if w.part != nil {
		w.part.abandon(fs.ErrClosed)
	}
}

// IndexRoles are the parts of a sparse tensor that have indices.
var IndexRoles = []string{"indices", "indptr", "coords"}

// CheckContent reports what no version can hold.
func CheckContent(t *tensor.Tensor) error {
	switch {
	case !t.Order.RowMajor():
		return fmt.Errorf("%w: its order is %v, and the format is row-major",
			errors.ErrUnsupported, []int(t.Order))
	case t.External:
		return fmt.Errorf("%w: its data is in another file", errors.ErrUnsupported)
	case !utf8.ValidString(t.Scheme):
		return fmt.Errorf("%w: the scheme is not UTF-8", errors.ErrUnsupported)
	}
	product, overflow := uint64(1), uint64(0)
	for _, d := range t.Shape { // from the left, as readers do: a later 0 does not help
		if overflow, product = bits.Mul64(product, uint64(d)); overflow != 0 {
			return fmt.Errorf("%w: the product of %v from the left overflows",
				errors.ErrUnsupported, t.Shape)
		}
	}
	roles := map[string]bool{"data": t.Dense()}
	for i := range t.Parts {
		role := t.Parts[i].Role
		if roles[role] {
			return fmt.Errorf("%w: two parts of role %s", tensor.ErrDuplicate, naming.Quote(role))
		}
		if !utf8.ValidString(role) {
			return fmt.Errorf("%w: a role is not UTF-8", errors.ErrUnsupported)
		}
		roles[role] = true
	}
	return nil
}

// OfTensor adds the name of its tensor to an error.
func OfTensor(name string, err error) error {
	return Errs.Wrap(-1, format.Field(name), Unnamed(err))
}

// Unnamed returns an error of package sparse without the name of its tensor.
func Unnamed(err error) error {
	var named *sparse.Error
	if errors.As(err, &named) {
		return named.Err
	}
	return err
}

// Usable returns why nothing can be added any more.
func (w *Writer[I]) Usable() error { return format.Usable(&w.Writer) }

// CheckManifest reports one that no reader takes.
func CheckManifest(b []byte) error {
	if len(b) > 1<<30 {
		return Errs.New(tensor.ErrLimit, "a manifest of %d bytes, readers take 1 GiB", len(b))
	}
	return nil
}

// CheckLength reports data that is not as long as the shape requires.
func CheckLength(t *tensor.Tensor, have int64) error {
	n, _ := t.Shape.Elements()
	want, _ := t.DType.Bytes(n)
	if t.Dense() && t.DType != tensor.Unknown && have != want {
		return fmt.Errorf("%w: %d bytes came where %v of %v takes %d", tensor.ErrMalformed, have,
			t.Shape, t.DType, want)
	}
	return nil
}

// EncodeAttributes encodes a map with its names in that order. check returns each value
// as it is to be written.
func EncodeAttributes(attributes map[string]any, order func(a, b string) int,
	check func(name string, value []byte) ([]byte, error)) ([]byte, error) {
	all := make([]cbor.Pair, 0, len(attributes))
	for _, name := range slices.SortedFunc(maps.Keys(attributes), order) {
		v, err := cbor.Marshal(attributes[name])
		if err == nil && !utf8.ValidString(name) {
			err = fmt.Errorf("%w: the name is not UTF-8", errors.ErrUnsupported)
		}
		if err == nil {
			v, err = check(name, v)
		}
		if err != nil {
			return nil, Errs.Wrap(-1, "attributes["+naming.Quote(name)+"]", err)
		}
		all = append(all, cbor.PairOf(name, v))
	}
	return cbor.AppendPairs(nil, all, false), nil
}

// Measured is t with parts whose size is known, which takes decoding the others.
func Measured(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
	if t == nil || t.Dense() || t.Size() >= 0 {
		return t, nil
	}
	as := *t
	as.Parts = slices.Clone(t.Parts)
	for i := range as.Parts {
		p := &as.Parts[i]
		if p.Data.Size() >= 0 {
			continue
		}
		n, err := p.Data.WriteTo(format.Until(ctx, io.Discard))
		if err != nil {
			return nil, err
		}
		p.Data = tensor.BlobFunc(n, p.Data.Open)
	}
	return &as, nil
}
