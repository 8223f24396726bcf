package convert

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/internal/ggml"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// planQuantize makes quantised blocks of a dense tensor, of the type that
// Options.Quantize returned for it.
func (p *Plan) planQuantize(ctx context.Context, it *item) error {
	if it.quantize == "" {
		return nil
	}
	if !p.caps.Blocks {
		return &OptionError{"Quantize", fmt.Errorf("%w: %s has no quantised blocks",
			errors.ErrUnsupported, p.describeTarget())}
	}
	p.loseScale(it, it.t.DType.String(), it.quantize)
	kind, _ := ggml.Named(it.quantize)
	if !blocksHold(kind, it.t.DType) {
		p.loseRequested(LossNarrow, it, "%v becomes %s", it.t.DType, kind.Name)
	}
	finite := p.opts.Allow&LossOverflow == 0
	err := it.apply(ctx, func(_ context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
		if finite && !widens(t.DType, tensor.F32) {
			single, err := tensor.AsFinite(t, tensor.F32)
			if err != nil {
				return nil, err
			}
			t = single
		}
		blocks, err := gguf.Quantize(t, it.quantize)
		if err != nil {
			return nil, err
		}
		part := &blocks.Parts[0]
		if finite {
			part.Data = finiteBlocks(t, kind, part.Data)
		}
		part.Data = ofElements(part.Data)
		if p.caps.Sparse { // zTensor, where parts have a dtype
			part.DType = tensor.U8
		}
		return blocks, nil
	})
	if err != nil {
		return &OptionError{"Quantize", err}
	}
	return nil
}

// blocksHold reports whether quantised blocks keep all elements of a dtype. Those of no
// other pair do: a block has one scale for elements of any size.
func blocksHold(kind ggml.Type, d tensor.DType) bool {
	switch kind.Name {
	case "MXFP4":
		return d == tensor.Bool || d == tensor.F4E2M1FN || d == tensor.I2 || d == tensor.U2
	case "Q4_0", "Q5_0", "TQ1_0", "TQ2_0":
		return d == tensor.Bool
	}
	return false
}

// finiteBlocks returns the blocks that are made of t. Reading fails where a scale of a
// block is an infinity, so that its elements are no numbers.
func finiteBlocks(t *tensor.Tensor, kind ggml.Type, blocks tensor.Blob) tensor.Blob {
	return tensor.BlobFunc(blocks.Size(), func() (io.ReadCloser, error) {
		r, err := blocks.Open()
		if err != nil {
			return nil, err
		}
		const blocksAtOnce = 256 // blocks
		return &blockReader{t: t, kind: kind, r: r, buf: make([]byte, blocksAtOnce*kind.Bytes),
			values: make([]float32, blocksAtOnce*kind.Elements)}, nil
	})
}

type blockReader struct {
	t      *tensor.Tensor
	kind   ggml.Type
	r      io.ReadCloser
	buf    []byte
	out    []byte // of buf, not yet read
	values []float32
	done   int64 // blocks
	err    error // once out is empty
}

func (b *blockReader) Read(p []byte) (int, error) {
	for len(b.out) == 0 {
		if b.err != nil || len(p) == 0 {
			return 0, b.err
		}
		var n int
		n, b.err = io.ReadFull(b.r, b.buf)
		if b.err == io.ErrUnexpectedEOF {
			b.err = io.EOF // the last blocks
		}
		if err := b.check(b.buf[:n]); err != nil {
			b.err = err
			return 0, err
		}
		b.out = b.buf[:n]
	}
	n := copy(p, b.out)
	b.out = b.out[n:]
	return n, nil
}

// check decodes whole blocks.
func (b *blockReader) check(blocks []byte) error {
	n := int64(len(blocks)) / b.kind.Bytes
	values := b.values[:n*b.kind.Elements]
	b.kind.Decode(values, blocks)
	for i, v := range values {
		if math.IsInf(float64(v), 0) || v != v {
			return b.overflow(b.done + int64(i)/b.kind.Elements)
		}
	}
	b.done += n
	return nil
}

// overflow names the element of a block that is too large.
func (b *blockReader) overflow(block int64) error {
	x, err := tensor.As(b.t, tensor.F32)
	if err != nil {
		return err
	}
	first := block * b.kind.Elements
	elements := make([]byte, 4*b.kind.Elements)
	if n, err := x.Data.ReadAt(elements, 4*first); n < len(elements) {
		return err
	}
	at, largest := 0, 0.0
	for i := range int(b.kind.Elements) {
		v := float64(math.Float32frombits(binary.LittleEndian.Uint32(elements[4*i:])))
		if i == 0 || math.Abs(v) > math.Abs(largest) {
			at, largest = i, v
		}
	}
	return fmt.Errorf("%w: tensor %s: element %d of %v is %s, which does not fit %s",
		tensor.ErrOverflow, naming.Quote(b.t.Name), first+int64(at), b.t.DType,
		strconv.FormatFloat(largest, 'g', -1, 32), b.kind.Name)
}

func (b *blockReader) Close() error { return b.r.Close() }
