package writer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/digest"
	"github.com/tensorfile/tensorfile/ztensor/internal/dtype"
)

// A Part is a part of a tensor before and after it is written.
type Part struct {
	Role              string
	DType             tensor.DType
	Data              tensor.Blob
	Algorithm         digest.Algorithm
	TypeName, Logical string // in version 2: storage type; logical type, "" if there is none

	Digest string // "" until it is known
	Offset int64
	Length int64 // of the stored bytes
	Size   int64 // of the data

	check      dtype.Check
	inMemory   bool  // it is prepared in memory
	memorySize int64 // that this takes
	stored     []byte
	err        error // of preparing
}

// NewPart returns a part of t. Prepare makes its stored bytes in memory if the data is in
// memory and not compressed, or at most w.Limit bytes.
func (w *Writer) NewPart(t *tensor.Tensor, role string, d tensor.DType, data tensor.Blob,
	a digest.Algorithm) Part {
	p := Part{Role: role, DType: d, Data: data, Algorithm: a, check: dtype.NewCheck(t, d)}
	size := data.Size()
	if _, ok := data.Memory(); ok && w.Compress == nil {
		p.inMemory = true
	} else if size >= 0 && size <= w.Limit && !Streamed(data) {
		p.inMemory, p.memorySize = true, 2*size
	}
	return p
}

// Stored returns the bytes that Prepare has made; nil if there are none.
func (p *Part) Stored() []byte { return p.stored }

// Prepare reads, hashes and compresses a part that is written from memory, the first
// time.
func (w *Writer) Prepare(ctx context.Context, p *Part) error {
	if !p.inMemory || p.stored != nil || p.err != nil {
		return p.err
	}
	all, ok := p.Data.Memory()
	if ok {
		_, p.err = p.WriteChecked(ctx, io.Discard)
	} else {
		var read bytes.Buffer
		read.Grow(int(p.Data.Size()))
		_, p.err = p.WriteChecked(ctx, &read)
		all = read.Bytes()
	}
	if p.err != nil {
		return p.err
	}
	p.stored = all
	if w.Compress != nil {
		p.stored = w.Compress(all)
	}
	if w.DigestsStored {
		all = p.stored
	}
	p.Digest = digest.Of(p.Algorithm, all)
	if p.stored == nil {
		p.stored = []byte{}
	}
	return nil
}

// Put writes a part, after Prepare, at the end of the file.
func (w *Writer) Put(ctx context.Context, p *Part) (err error) {
	out := w.Out
	p.Offset = out.Off
	if p.inMemory {
		p.Size = p.Data.Size()
		_, err = out.Write(p.stored)
		p.stored = nil
	} else {
		err = w.stream(ctx, p)
	}
	p.Length = out.Off - p.Offset
	return err
}

// stream writes data that Prepare leaves out. It computes the digest unless it is known.
func (w *Writer) stream(ctx context.Context, p *Part) (err error) {
	to := io.Writer(w.Out)
	a := p.Algorithm
	if p.Digest != "" {
		a = digest.None
	}
	h := digest.New(a)
	if h != nil && w.DigestsStored {
		to = io.MultiWriter(h, to)
	}
	var stored io.WriteCloser
	if w.Stream != nil {
		stored = w.Stream(ctx, p.Data.Size(), to)
		to = stored
	}
	if h != nil && !w.DigestsStored {
		to = io.MultiWriter(h, to)
	}
	p.Size, err = p.WriteChecked(ctx, to)
	if err == nil && stored != nil {
		err = stored.Close()
	}
	p.Digest = cmp.Or(p.Digest, digest.Text(a, h))
	return err
}

// WriteChecked writes the data to out, checks it, and returns its size.
func (p *Part) WriteChecked(ctx context.Context, out io.Writer) (int64, error) {
	f := checkedWriter{p.check, out}
	n, err := format.CopyBlob(format.Until(ctx, &f), p.Data, p.Data.Size())
	if err == nil {
		err = f.End()
	}
	return n, err
}

// A checkedWriter checks bytes and writes them to out.
type checkedWriter struct {
	dtype.Check
	out io.Writer
}

func (f *checkedWriter) Write(b []byte) (int, error) {
	if err := f.Next(b); err != nil {
		return 0, err
	}
	return f.out.Write(b)
}

// CheckWritten fails if the written data of a dense tensor does not have its size, or if
// the caller's memory has changed.
func (it *Item) CheckWritten() error {
	n, _ := it.T.Shape.Elements()
	want, _ := it.T.DType.Bytes(n)
	if have := it.Parts[0].Size; it.T.Dense() && it.T.DType != tensor.Unknown && have != want {
		return fmt.Errorf("%w: %d bytes came where %v of %v takes %d", tensor.ErrMalformed, have,
			it.T.Shape, it.T.DType, want)
	}
	return it.Memory.Check()
}

const (
	// InFlight bounds the memory of parts that are prepared and not yet written.
	InFlight = 32 << 20
	// batchBytes is how many bytes of small tensors are prepared by one worker.
	batchBytes = 256 << 10
)

// PrepareAhead yields items in order, after preparing their parts on all cores. An error
// of items is yielded after the items before it.
func (w *Writer) PrepareAhead(ctx context.Context,
	items iter.Seq2[*Item, error]) iter.Seq2[*Item, error] {
	return func(yield func(*Item, error) bool) {
		stopped := errors.New("ztensor: the tensor was refused")
		line := parallel.New(ctx, InFlight, func(ctx context.Context, batch []*Item) error {
			for _, it := range batch {
				for i := range it.Parts {
					w.Prepare(ctx, &it.Parts[i]) // an error shows when it is written
				}
			}
			return nil
		}, func(batch []*Item) error {
			for _, it := range batch {
				if !yield(it, nil) {
					return stopped
				}
			}
			return nil
		})
		defer line.Close()
		var batch []*Item
		var size, memory int64
		send := func() error {
			b, m := batch, memory
			batch, size, memory = nil, 0, 0
			return line.Put(b, m)
		}
		err := error(nil)
		for it, e := range items {
			if err = e; err != nil {
				break
			}
			n := int64(0)
			for _, p := range it.Parts {
				n, memory = n+max(p.Data.Size(), 0), memory+p.memorySize
			}
			size += max(n, 1<<10)
			if batch = append(batch, it); size >= batchBytes {
				if err = send(); err != nil {
					break
				}
			}
		}
		if e := cmp.Or(send(), line.Flush()); e != nil {
			err = e
		}
		if err != nil && err != stopped {
			yield(nil, err)
		}
	}
}

// An Out writes a file in order. Its first error is final.
type Out struct {
	Off  int64 // where the file ends now
	w    io.Writer
	buf  *bufio.Writer // w, unless w is a file
	file rewinder
	err  error

	zeros [4096]byte // for padding
}

// A rewinder is a file whose written bytes can be read and cut off.
type rewinder interface {
	io.ReaderAt
	Truncate(size int64) error
}

// NewOut returns an Out to the output of a Writer, which begins at byte off.
func NewOut(to *format.Output, off int64) *Out {
	o := &Out{Off: off, w: format.Begin(to, -1)}
	switch f := format.Underlying(to).(type) {
	case rewinder:
		o.file = f
	case format.Target:
	default:
		o.buf = bufio.NewWriterSize(o.w, 256<<10)
		o.w = o.buf
	}
	return o
}

// Written returns the file if its written bytes can be read and cut off, else nil.
func (o *Out) Written() rewinder { return o.file }

func (o *Out) Write(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(p)
	o.Off += int64(n)
	o.err = err
	return n, err
}

// Pad writes zeros up to a multiple of n.
func (o *Out) Pad(n int64) error {
	for left := align.Padding(o.Off, n); left > 0 && o.err == nil; {
		k, _ := o.Write(o.zeros[:min(left, int64(len(o.zeros)))])
		left -= int64(k)
	}
	return o.err
}

// Rewind cuts the file off at byte off. There must be a file: see Written.
func (o *Out) Rewind(off int64) error {
	if o.err == nil {
		o.err = o.file.Truncate(off)
		o.Off = off
	}
	return o.err
}

// Flush writes the buffered bytes.
func (o *Out) Flush() error {
	if o.buf != nil && o.err == nil {
		o.err = o.buf.Flush()
	}
	return o.err
}
