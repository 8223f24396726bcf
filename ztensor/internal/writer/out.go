package writer

import (
	"bufio"
	"io"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/format"
)

// An Out is a file that is written from its start to its end. Its first error is final.
type Out struct {
	Off  int64 // bytes written
	w    io.Writer
	buf  *bufio.Writer // w, unless that is a file
	file rewinder
	err  error

	zeros [4096]byte // for padding
}

// A rewinder is a file of which what was written can be read, and taken back.
type rewinder interface {
	io.ReaderAt
	Truncate(size int64) error
}

// NewOut returns the Out of a Writer, which goes on at byte off.
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

// Written returns the file of which what was written can be read and taken back; nil
// where it cannot.
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

// Rewind takes back what was written after byte off.
func (o *Out) Rewind(off int64) error {
	if o.err == nil {
		o.err = o.file.Truncate(off)
		o.Off = off
	}
	return o.err
}

// Flush writes what is buffered.
func (o *Out) Flush() error {
	if o.buf != nil && o.err == nil {
		o.err = o.buf.Flush()
	}
	return o.err
}
