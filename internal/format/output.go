package format

import (
	"context"
	"fmt"
	"io"
	"io/fs"
)

// Until returns an io.Writer that writes to w, at most 1 MiB at a time, and fails once
// ctx has ended. It fails if w returns an impossible count.
func Until(ctx context.Context, w io.Writer) io.Writer { return Counted(ctx, w, nil) }

// Counted is Until with progress, which is called with the bytes written so far.
func Counted(ctx context.Context, w io.Writer, progress func(done int64)) io.Writer {
	c := &contextWriter{ctx: ctx, w: w}
	if progress != nil {
		c.progress = func(done, _ int64) { progress(done) }
	}
	return c
}

// A contextWriter counts what it writes, and fails once its context has ended.
type contextWriter struct {
	ctx      context.Context
	w        io.Writer
	written  int64
	total    int64 // bytes of the file; 0 if it is not known
	progress func(done, total int64)
}

func (c *contextWriter) Write(p []byte) (n int, err error) {
	for {
		if err := context.Cause(c.ctx); err != nil {
			return n, err
		}
		piece := p[n:min(len(p), n+1<<20)]
		k, err := c.w.Write(piece)
		if k < 0 || k > len(piece) {
			return n, fmt.Errorf("the writer claims %d of %d bytes", k, len(piece))
		}
		n += k
		c.written += int64(k)
		if err == nil && k < len(piece) {
			err = io.ErrShortWrite
		}
		if c.progress != nil && k > 0 {
			c.progress(c.written, max(c.total, c.written))
		}
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// An Output is what a Writer writes to: an io.Writer of the caller, or a file that
// appears under its name when the Writer is closed.
type Output struct {
	out  contextWriter
	file Target // nil for an io.Writer of the caller
	done bool   // closed or aborted
	err  error  // of every further call
}

// A Target is a file that appears with Close, and is dropped with Abort.
type Target interface {
	io.Writer
	Close() error
	Abort()
}

// Underlying returns the io.Writer of the caller, or the Target.
func Underlying(o *Output) io.Writer { return o.out.w }

// ContextOf returns the context of the call that writes.
func ContextOf(o *Output) context.Context { return o.out.ctx }

// Begin returns the writer of an Output. size is the size of the whole file, -1 if it is
// not known: with a size, writing to a disk without enough space fails at the first
// Write.
func Begin(o *Output, size int64) io.Writer {
	if size >= 0 {
		o.out.total = size
		if r, ok := o.out.w.(interface{ Reserve(bytes int64) }); ok {
			r.Reserve(size)
		}
	}
	return &o.out
}

// WriteTo calls encode with an Output that writes to w until ctx ends.
func WriteTo(ctx context.Context, w io.Writer, encode func(out *Output) error) error {
	o := &Output{out: contextWriter{ctx: ctx, w: w}}
	return encode(o)
}

// Written returns the number of bytes that an Output has written.
func Written(o *Output) int64 { return o.out.written }

// end completes the file, or drops it after an error.
func (o *Output) end(err error) error {
	o.done, o.err = true, err
	switch {
	case o.file == nil:
	case err != nil:
		o.file.Abort()
	default:
		o.err = o.file.Close()
	}
	return o.err
}

// Abort drops what was added: a file of Create does not appear. After Close it does
// nothing.
func (o *Output) Abort() {
	if !o.done {
		o.end(fs.ErrClosed)
	}
}
