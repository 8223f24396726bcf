package writer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// A streamedTensor is a tensor whose bytes the caller writes piece by piece, and the
// source of its data. Adding the tensor runs as a coroutine, which waits in Read until
// Write has more bytes.
type streamedTensor struct {
	tensor.Computed
	t      tensor.Tensor
	yield  func(wanted []byte) bool // waits for Write; nil before adding begins
	next   func() ([]byte, bool)
	stop   func()
	wanted []byte // the buffer that Read fills
	got    int    // bytes that Write has copied to wanted
	left   int64
	ended  bool  // adding has ended
	err    error // of adding
	broken error // of reading
	closed bool
	done   func()
}

// newStreamed begins to add a dense tensor. It calls done when the tensor is closed.
func newStreamed(name string, dtype tensor.DType, shape tensor.Shape,
	check, add func(t *tensor.Tensor) error, done func()) (*streamedTensor, error) {
	n, ok := shape.Elements()
	size, fits := dtype.Bytes(n)
	if !ok || !fits {
		return nil, core.Errs.Tensor(name, tensor.ErrMalformed, "%v of %v", shape, dtype)
	}
	p := &streamedTensor{left: size, done: done}
	p.t = tensor.Tensor{Name: name, DType: dtype, Shape: shape, Data: tensor.NewBlob(p)}
	if err := check(&p.t); err != nil {
		return nil, err
	}
	p.next, p.stop = iter.Pull(func(yield func([]byte) bool) {
		p.yield = yield
		p.err = add(&p.t)
	})
	if p.resume(); p.ended && p.err != nil {
		p.finish()
		return nil, p.err
	}
	return p, nil
}

// Streamed reports whether b is the data of a streamedTensor, which can be read only
// once.
func Streamed(b tensor.Blob) bool {
	_, ok := b.Source().(*streamedTensor)
	return ok
}

// Size returns the size of the data.
func (p *streamedTensor) Size() int64 {
	n, _ := p.t.Shape.Elements()
	size, _ := p.t.DType.Bytes(n)
	return size
}

// ReadAt fails: the bytes can only be read in order.
func (p *streamedTensor) ReadAt([]byte, int64) (int, error) { return 0, errStreamed }

var errStreamed = errors.New("its bytes come piece by piece")

// ReadInto reads all bytes, as they are written.
func (p *streamedTensor) ReadInto(b []byte) error {
	r, err := p.Open()
	if err != nil {
		return err
	}
	_, err = io.ReadFull(r, b)
	return err
}

// Open streams the bytes as they are written.
func (p *streamedTensor) Open() (io.ReadCloser, error) {
	if p.yield == nil {
		return nil, errStreamed
	}
	return io.NopCloser(streamReader{p}), nil
}

// A streamReader reads the bytes of pieces for who adds them.
type streamReader struct{ p *streamedTensor }

func (r streamReader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if !r.p.yield(b) {
		return 0, r.p.broken
	}
	n := r.p.got
	if r.p.got = 0; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// resume runs the coroutine until it waits for bytes, or ends.
func (p *streamedTensor) resume() {
	waits := false
	p.wanted, waits = p.next()
	p.ended = !waits
}

func (p *streamedTensor) Write(b []byte) (int, error) {
	switch {
	case p.closed:
		return 0, core.Errs.Tensor(p.t.Name, fs.ErrClosed, "its bytes are complete")
	case int64(len(b)) > p.left:
		p.abandon(fmt.Errorf("%w: more than the %d bytes of %v of %v", tensor.ErrMalformed,
			p.Size(), p.t.Shape, p.t.DType))
		return 0, p.err
	}
	n := 0
	for n < len(b) && !p.ended {
		k := copy(p.wanted, b[n:])
		p.got = k
		n, p.left = n+k, p.left-int64(k)
		p.resume()
	}
	return n, p.err
}

// Close ends the data, and adding the tensor.
func (p *streamedTensor) Close() error {
	if p.closed {
		return nil
	}
	for !p.ended {
		p.resume() // to the end of the bytes
	}
	p.finish()
	return p.err
}

// abandon makes adding fail.
func (p *streamedTensor) abandon(err error) {
	if p.closed {
		return
	}
	p.broken = err
	p.stop()
	p.ended = true
	p.finish()
}

func (p *streamedTensor) finish() {
	p.closed = true
	p.done()
}
