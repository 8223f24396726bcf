package tensor

import (
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/internal/ggml"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/parallel"
)

// numbers returns t itself if it is dense, and a tensor of quantised blocks of ggml as
// float32, decoded as it is read. Other tensors have no numbers of their own.
func numbers(t *Tensor) (*Tensor, error) {
	if t == nil || t.External || t.Dense() {
		return t, dense(t)
	}
	if len(t.Parts) != 1 {
		return nil, dense(t)
	}
	kind, ok := ggml.OfScheme(t.Scheme, t.Parts[0].Role)
	if !ok {
		return nil, dense(t)
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	n, _ := t.Shape.Elements()
	row := int64(1) // a scalar is one row of one element
	if len(t.Shape) > 0 {
		row = t.Shape[len(t.Shape)-1]
	}
	blocks := t.Parts[0].Data
	if row%kind.Elements != 0 || blocks.Size() != n/kind.Elements*kind.Bytes {
		return nil, fmt.Errorf(
			"%w: tensor %s: %d bytes for %v in %s blocks of %d elements in %d bytes",
			ErrMalformed, naming.Quote(t.Name), blocks.Size(), t.Shape, kind.Name, kind.Elements,
			kind.Bytes)
	}
	if _, ok := F32.Bytes(n); !ok {
		return nil, fmt.Errorf("%w: tensor %s: %v of float32 is beyond 2^63 bytes", ErrLimit,
			naming.Quote(t.Name), t.Shape)
	}
	out := &Tensor{Name: t.Name, DType: F32, Shape: t.Shape}
	if n > 0 {
		out.Data = NewBlob(&dequantizer{kind: kind, blocks: blocks})
	}
	return out, nil
}

// A dequantizer is the little-endian float32 values of quantised blocks.
type dequantizer struct {
	Computed
	kind   ggml.Type
	blocks Blob
}

// dequantizeBytes is how many bytes of blocks are read at a time, at most.
const dequantizeBytes = 64 << 10

func (d *dequantizer) Size() int64 { return d.blocks.Size() / d.kind.Bytes * d.width() }

func (d *dequantizer) ReadInto(p []byte) error { return ReadFull(d, p) }

// Seekable is for Blob.
func (d *dequantizer) Seekable() bool { return d.blocks.Seekable() }

// width is how many bytes the values of a block take.
func (d *dequantizer) width() int64 { return 4 * d.kind.Elements }

// decode returns the values of whole blocks, in buf where it is large enough.
func (d *dequantizer) decode(buf []float32, blocks []byte) []byte {
	n := len(blocks) / int(d.kind.Bytes) * int(d.kind.Elements)
	if cap(buf) < n {
		buf = make([]float32, n)
	}
	d.kind.Decode(buf[:n], blocks)
	b := le.Bytes(buf[:n])
	toHost(b, F32) // from the order of the host
	return b
}

func (d *dequantizer) ReadAt(p []byte, off int64) (int, error) {
	var in []byte
	var buf []float32
	done := 0
	for done < len(p) {
		first, skip := (off+int64(done))/d.width(), (off+int64(done))%d.width()
		n := min((skip+int64(len(p)-done)+d.width()-1)/d.width(),
			max(1, dequantizeBytes/d.kind.Bytes))
		n = min(n, d.blocks.Size()/d.kind.Bytes-first)
		if n <= 0 {
			return done, io.EOF
		}
		if in == nil {
			in, buf = make([]byte, n*d.kind.Bytes), make([]float32, n*d.kind.Elements)
		}
		if k, err := d.blocks.ReadAt(in[:n*d.kind.Bytes],
			first*d.kind.Bytes); int64(k) < n*d.kind.Bytes {
			return done, unexpected(err)
		}
		done += copy(p[done:], d.decode(buf, in[:n*d.kind.Bytes])[skip:])
	}
	return done, nil
}

// Open is for Blob.Open. Reading is serial, decoding uses all cores.
func (d *dequantizer) Open() (io.ReadCloser, error) {
	r, err := d.blocks.Open()
	if err != nil {
		return nil, err
	}
	type piece struct {
		in  []byte // whole blocks
		buf []float32
		out []byte
	}
	most, left := dequantizeBytes/d.kind.Bytes*d.kind.Bytes, d.blocks.Size()
	next := func(j *piece) (cost int64, err error) {
		n := min(most, left)
		if n == 0 {
			if err := atEnd(r); err != nil {
				return 0, err
			}
			return 0, io.EOF
		}
		if left -= n; j.in == nil {
			j.in = make([]byte, n)
			j.buf = make([]float32, n/d.kind.Bytes*d.kind.Elements)
		}
		j.in = j.in[:n]
		if _, err := io.ReadFull(r, j.in); err != nil {
			return 0, unexpected(err)
		}
		return n + n/d.kind.Bytes*d.width(), nil
	}
	return parallel.NewStream(converterBudget, next, func(j *piece) error {
		j.out = d.decode(j.buf, j.in)
		return nil
	}, func(j *piece) []byte { return j.out }, r.Close), nil
}
