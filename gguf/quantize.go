package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/ggml"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/tensor"
)

// Quantize returns t, dense and row-major, as quantised blocks of the type of that name:
// Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, TQ1_0, TQ2_0 or MXFP4. It fails if rows are not a whole
// number of blocks. Elements are converted to float32, and the blocks computed each time
// that they are read, on all cores, bit for bit as by the gguf package. Reading them
// fails with tensor.ErrDType if an element is NaN. [tensor.As] decodes blocks.
func Quantize(t *tensor.Tensor, typeName string) (*tensor.Tensor, error) {
	return quantize(t, typeName, false)
}

// QuantizeFinite quantises as [Quantize] does, but reading fails with tensor.ErrOverflow
// if an element does not fit float32, or the scale of a block does not fit float16.
func QuantizeFinite(t *tensor.Tensor, typeName string) (*tensor.Tensor, error) {
	return quantize(t, typeName, true)
}

func quantize(t *tensor.Tensor, typeName string, finite bool) (*tensor.Tensor, error) {
	kind, ok := ggml.Named(typeName)
	if !ok || !kind.CanEncode() {
		return nil, fmt.Errorf("gguf: %w: nothing is quantised as %s", errors.ErrUnsupported,
			naming.Quote(typeName))
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	if t.External || !t.Dense() || !t.Order.RowMajor() {
		return nil, errs.Tensor(t.Name, errors.ErrUnsupported,
			"only dense, row-major tensors are quantised")
	}
	as := tensor.As
	if finite {
		as = tensor.AsFinite
	}
	numbers, err := as(t, tensor.F32)
	if err != nil {
		return nil, err
	}
	e := entry{name: t.Name, at: -1, shape: t.Shape, kind: kind.Number,
		t: storageOf(kind.Number)}
	size, err := e.size(0, nil)
	if err != nil {
		return nil, err
	}
	q := &quantizer{t: t, kind: kind, finite: finite, blocks: size / kind.Bytes}
	data := tensor.BlobFunc(size, func() (io.ReadCloser, error) { return q.open(numbers.Data) })
	return &tensor.Tensor{Name: t.Name, Shape: t.Shape, Scheme: kind.Name,
		Parts: []tensor.Part{{Role: "blocks", Data: data}}}, nil
}

// CanQuantize reports whether [Quantize] supports the type of that name and, unless shape
// is nil, whether rows of that shape are a whole number of blocks.
func CanQuantize(shape tensor.Shape, typeName string) bool {
	kind, ok := ggml.Named(typeName)
	if !ok || !kind.CanEncode() || shape == nil {
		return ok && kind.CanEncode()
	}
	return len(shape) > 0 && shape[len(shape)-1]%kind.Elements == 0
}

// A quantizer makes blocks of numbers.
type quantizer struct {
	t      *tensor.Tensor
	kind   ggml.Type
	finite bool
	blocks int64
}

// A quantization is a piece: blocks that one worker makes.
type quantization struct {
	first   int64 // element
	in, out []byte
	numbers []float32
}

const (
	// quantizeBlocks is how many blocks a piece has.
	quantizeBlocks = 1024
	// quantizeBudget bounds the bytes of the numbers of all pieces at a time.
	quantizeBudget = 4 << 20
)

// open streams the blocks. Reading is serial, the blocks are made on all cores.
func (q *quantizer) open(numbers tensor.Blob) (io.ReadCloser, error) {
	r, err := numbers.Open()
	if err != nil {
		return nil, err
	}
	done := int64(0) // blocks
	next := func(j *quantization) (int64, error) {
		n := min(q.blocks-done, quantizeBlocks)
		if n == 0 {
			if _, err := io.Copy(io.Discard, r); err != nil { // the end of r checks a digest
				return 0, err
			}
			return 0, io.EOF
		}
		elements := n * q.kind.Elements
		if j.in == nil {
			j.in, j.numbers = make([]byte, 4*elements), make([]float32, elements)
			j.out = make([]byte, n*q.kind.Bytes)
		}
		j.in, j.numbers, j.out = j.in[:4*elements], j.numbers[:elements], j.out[:n*q.kind.Bytes]
		j.first, done = done*q.kind.Elements, done+n
		if _, err := io.ReadFull(r, j.in); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		return 8 * elements, nil
	}
	return parallel.NewStream(quantizeBudget, next, q.encode,
		func(j *quantization) []byte { return j.out }, r.Close), nil
}

// encode makes the blocks of a piece.
func (q *quantizer) encode(j *quantization) error {
	for i := range j.numbers {
		j.numbers[i] = math.Float32frombits(binary.LittleEndian.Uint32(j.in[4*i:]))
	}
	if err := q.kind.Encode(j.out, j.numbers); err != nil {
		i := slices.IndexFunc(j.numbers, func(v float32) bool { return v != v })
		if i < 0 { // MXFP4 has no infinities
			i = slices.IndexFunc(j.numbers,
				func(v float32) bool { return math.IsInf(float64(v), 0) })
		}
		return errs.Tensor(q.t.Name, tensor.ErrDType, "element %d is %v: %v", j.first+int64(i),
			j.numbers[i], err)
	}
	if !q.finite {
		return nil
	}
	const checked = 256 // elements: of blocks of any type
	var values [checked]float32
	for at := int64(0); at < int64(len(j.numbers)); at += checked {
		n := min(checked, int64(len(j.numbers))-at)
		bytes := j.out[at/q.kind.Elements*q.kind.Bytes:][:n/q.kind.Elements*q.kind.Bytes]
		q.kind.Decode(values[:n], bytes)
		for i, v := range values[:n] {
			if d := v - v; d != 0 { // an infinity or NaN
				return q.overflow(j, (at+int64(i))/q.kind.Elements*q.kind.Elements)
			}
		}
	}
	return nil
}

// overflow returns the error of a block that overflows, which begins at element at of the
// piece. It names the largest element.
func (q *quantizer) overflow(j *quantization, at int64) error {
	block := j.numbers[at:][:q.kind.Elements]
	largest := 0
	for i, v := range block {
		if math.Abs(float64(v)) > math.Abs(float64(block[largest])) {
			largest = i
		}
	}
	return fmt.Errorf("%w: tensor %s: element %d of %v is %s, which does not fit %s",
		tensor.ErrOverflow, naming.Quote(q.t.Name), j.first+at+int64(largest), q.t.DType,
		strconv.FormatFloat(float64(block[largest]), 'g', -1, 32), q.kind.Name)
}
