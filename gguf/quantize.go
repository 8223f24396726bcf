package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/ggml"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// Quantize returns a dense, row-major tensor of numbers as quantised blocks of the type
// of that name: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, TQ1_0, TQ2_0 or MXFP4. Rows are whole
// numbers of blocks. The blocks are made as they are read, bit for bit those of the
// gguf package, from elements as float32; NaN is tensor.ErrDType then. [tensor.As] is
// the way back.
func Quantize(t *tensor.Tensor, typeName string) (*tensor.Tensor, error) {
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
	numbers, err := tensor.As(t, tensor.F32)
	if err != nil {
		return nil, err
	}
	e := entry{name: t.Name, at: -1, shape: t.Shape, kind: kind.Number,
		t: storageOf(kind.Number)}
	size, err := e.size(0, nil)
	if err != nil {
		return nil, err
	}
	data := tensor.BlobFunc(size, func() (io.ReadCloser, error) {
		r, err := numbers.Data.Open()
		if err != nil {
			return nil, err
		}
		return &quantizer{name: t.Name, kind: kind, r: r, left: size / kind.Bytes}, nil
	})
	return &tensor.Tensor{Name: t.Name, Shape: t.Shape, Scheme: kind.Name,
		Parts: []tensor.Part{{Role: "blocks", Data: data}}}, nil
}

// CanQuantize reports whether [Quantize] knows the type of that name, and whether rows of
// that shape, unless it is nil, are whole numbers of its blocks.
func CanQuantize(shape tensor.Shape, typeName string) bool {
	kind, ok := ggml.Named(typeName)
	if !ok || !kind.CanEncode() || shape == nil {
		return ok && kind.CanEncode()
	}
	return len(shape) > 0 && shape[len(shape)-1]%kind.Elements == 0
}

// A quantizer is a stream of blocks.
type quantizer struct {
	name string
	kind ggml.Type
	r    io.ReadCloser
	left int64 // blocks not yet read
	done int64 // elements
	in   []byte
	nums []float32
	buf  []byte
	out  []byte
}

// quantizeBlocks is how many blocks are made at a time.
const quantizeBlocks = 256

func (q *quantizer) Read(p []byte) (int, error) {
	if len(q.out) == 0 {
		if q.left == 0 {
			if _, err := io.Copy(io.Discard, q.r); err != nil { // which checks a digest
				return 0, err
			}
			return 0, io.EOF
		}
		if err := q.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, q.out)
	q.out = q.out[n:]
	return n, nil
}

func (q *quantizer) fill() error {
	n := min(q.left, quantizeBlocks)
	if q.in == nil {
		q.in = make([]byte, 4*n*q.kind.Elements)
		q.nums = make([]float32, n*q.kind.Elements)
		q.buf = make([]byte, n*q.kind.Bytes)
	}
	in, nums := q.in[:4*n*q.kind.Elements], q.nums[:n*q.kind.Elements]
	if _, err := io.ReadFull(q.r, in); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	for i := range nums {
		nums[i] = math.Float32frombits(binary.LittleEndian.Uint32(in[4*i:]))
	}
	q.out = q.buf[:n*q.kind.Bytes]
	if err := q.kind.Encode(q.out, nums); err != nil {
		q.out = nil
		i := slices.IndexFunc(nums, func(v float32) bool { return v != v })
		if i < 0 { // MXFP4 has no infinities
			i = slices.IndexFunc(nums, func(v float32) bool { return math.IsInf(float64(v), 0) })
		}
		return errs.Tensor(q.name, tensor.ErrDType, "element %d is %v: %v", q.done+int64(i),
			nums[i],
			err)
	}
	q.left -= n
	q.done += int64(len(nums))
	return nil
}

func (q *quantizer) Close() error { return q.r.Close() }
