package store

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"
)

const (
	partSize = 8 << 20
	// growEvery is after how many parts their size doubles, so that 10,000 of them are
	// 8 TiB.
	growEvery = 1000
	// abortTime is how long a store has to forget an object that was given up.
	abortTime = 10 * time.Second
)

// An Upload is an object that is sent to a store in parts.
type Upload interface {
	// Whole sends an object of one part, without Begin.
	Whole(ctx context.Context, p []byte) error
	Begin(ctx context.Context) error
	// Part sends part n, from 1 on. It is called by several goroutines.
	Part(ctx context.Context, n int, p []byte) error
	// Complete makes the object of that many parts appear.
	Complete(ctx context.Context, n int) error
	// Abort forgets the parts.
	Abort(ctx context.Context) error
}

// A Writer writes an Upload. It is a remote.ObjectWriter.
type Writer struct {
	ctx     context.Context
	cancel  context.CancelFunc
	upload  Upload
	buf     []byte
	parts   int
	slots   chan []byte // buffers, nil where there was none yet
	sending sync.WaitGroup
	ended   bool
	result  error // of Close, once ended

	mu  sync.Mutex
	err error // of a part
}

// NewWriter returns a Writer, which sends nothing yet. It sends up to
// inFlight parts at once, each of which it has in memory; one at a time stay in order.
func NewWriter(ctx context.Context, u Upload, inFlight int) *Writer {
	w := &Writer{upload: u, slots: make(chan []byte, inFlight)}
	for range inFlight {
		w.slots <- nil
	}
	w.ctx, w.cancel = context.WithCancel(ctx)
	return w
}

// sizeOfPart is the size of the part after n others.
func sizeOfPart(n int) int { return partSize << min(n/growEvery, 10) }

func (w *Writer) Write(p []byte) (n int, err error) {
	if w.ended {
		return 0, fs.ErrClosed
	}
	for len(p) > 0 {
		size := sizeOfPart(w.parts)
		if len(w.buf) == size {
			if err := w.send(); err != nil {
				return n, err
			}
			continue
		}
		m := min(size-len(w.buf), len(p))
		w.buf = append(w.buf, p[:m]...)
		n, p = n+m, p[m:]
	}
	return n, w.failed()
}

func (w *Writer) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// send hands the buffer to a goroutine, when one is free.
func (w *Writer) send() error {
	if w.parts == 0 {
		if err := w.upload.Begin(w.ctx); err != nil {
			return err
		}
	}
	free := <-w.slots
	if err := errors.Join(w.failed(), w.ctx.Err()); err != nil {
		w.slots <- free
		return err
	}
	w.parts++
	n, p := w.parts, w.buf
	w.buf = free[:0]
	w.sending.Go(func() {
		err := w.upload.Part(w.ctx, n, p)
		if err != nil {
			w.mu.Lock()
			if w.err == nil {
				w.err = err
			}
			w.mu.Unlock()
			w.cancel() // the other parts are of no use
		}
		w.slots <- p
	})
	return nil
}

// Close completes the object. If it fails, the object is given up. A second Close returns
// what the first did, and fs.ErrClosed after Abort.
func (w *Writer) Close() error {
	if w.ended {
		return w.result
	}
	if w.parts == 0 {
		w.ended = true
		defer w.cancel()
		w.result = w.upload.Whole(w.ctx, w.buf)
		return w.result
	}
	var err error
	if len(w.buf) > 0 {
		err = w.send()
	}
	w.sending.Wait()
	if first := w.failed(); first != nil {
		err = first
	}
	if err == nil {
		err = w.upload.Complete(w.ctx, w.parts)
	}
	if err != nil {
		w.Abort()
		w.result = err
		return err
	}
	w.ended = true
	w.cancel()
	return nil
}

// Abort gives the object up, also where the context is done.
func (w *Writer) Abort() {
	if w.ended {
		return
	}
	w.ended, w.result = true, fs.ErrClosed
	w.cancel()
	w.sending.Wait()
	if w.parts > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), abortTime)
		defer cancel()
		w.upload.Abort(ctx)
	}
}
