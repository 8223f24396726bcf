package tensor

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing/iotest"
)

// The helpers of tests in several files.

// plain is a Source of bytes in a file that cannot be borrowed.
type plain struct {
	Computed
	*bytes.Reader
}

func (p plain) Size() int64 { return p.Reader.Size() }

func (p plain) Seekable() bool { return true }

func (p plain) ReadInto(b []byte) error { return ReadFull(p, b) }

func (p plain) Open() (io.ReadCloser, error) { return Stream(p), nil }

func (p plain) Stored() (Stored, bool) {
	return Stored{Offset: 128, Size: p.Size(), Encoding: "raw"}, true
}

func plainOf(b []byte) Blob { return NewBlob(plain{Reader: bytes.NewReader(b)}) }

func codedOf(b []byte, declared, stored int64) Blob {
	return NewBlob(&coded{data: b, declared: declared, stored: stored})
}

func opener(s string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		return io.NopCloser(iotest.HalfReader(strings.NewReader(s))), nil
	}
}

// quantised returns a tensor of rows of 64 elements in Q4_0, and its values.
func quantised(rows int64) (*Tensor, []float32) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, rows*2*18)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	var values []float32
	for i := 0; i < len(b); i += 18 {
		b[i+1] = 0x3c // so that the scale is a number near 1
		d := Float16(uint16(b[i]) | uint16(b[i+1])<<8).Float32()
		for k := range 32 {
			values = append(values, d*float32(int(b[i+2+k%16]>>(4*(k/16))&15)-8))
		}
	}
	return &Tensor{Name: "q", Scheme: "Q4_0", Shape: Shape{rows, 64},
		Parts: []Part{{Role: "blocks", Data: BlobOf(b)}}}, values
}

func randomTensor(d DType, n int, seed uint64) *Tensor {
	rng := rand.New(rand.NewPCG(seed, uint64(d)))
	size, _ := d.Bytes(int64(n))
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(rng.Uint32())
		if d == Bool {
			b[i] &= 1
		}
	}
	return &Tensor{Name: d.String(), DType: d, Shape: Shape{int64(n)}, Data: BlobOf(b)}
}

// streamed hides that its bytes are in memory.
func streamed(t *Tensor) *Tensor {
	b, _ := t.Data.Bytes()
	out := *t
	out.Data = plainOf(b)
	return &out
}

// coded is a Source with nothing but a stream, of a size that it declares.
type coded struct {
	Computed
	data     []byte
	declared int64
	stored   int64
}

func (c *coded) Size() int64 { return c.declared }

func (c *coded) ReadInto(p []byte) error { return readStream(Blob{c}, p) }

func (c *coded) Stored() (Stored, bool) {
	return Stored{Offset: 64, Size: c.stored, Encoding: "zstd"}, true
}

func (c *coded) Open() (io.ReadCloser, error) {
	return io.NopCloser(iotest.OneByteReader(bytes.NewReader(c.data))), nil
}

func (c *coded) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(c.data)) {
		return 0, io.EOF
	}
	n := copy(p, c.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
