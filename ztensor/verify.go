package ztensor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/tensorfile/tensorfile/internal/finding"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

// Verify reads the whole file on all cores and reports what is wrong with it:
// lengths that do not fit shapes, roles that are missing, digests, payloads
// that do not decode, bools other than 0 and 1, sparse indices that lead
// nowhere, bytes that belong to nothing. Departures that do not prevent reading
// are warnings; they are errors with opts.Strict.
//
// opts may be nil. With depth VerifyStructure nothing is decoded and no digest
// computed. Version 1 has no canonical form, so VerifyCanonical is
// VerifyDigests for it. Of version 2 the padding counts only for that.
func (r *Reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	l := finding.NewList(opts)
	return l.End(r.verify(ctx, l))
}

func (r *Reader) verify(ctx context.Context, l *finding.List) error {
	v := &verifier{r: r, ctx: ctx, found: l}
	for _, w := range r.Warnings() {
		v.found.Warn(w)
	}
	if err := r.generation.verifyFile(v); err != nil {
		return err
	}
	if err := v.tensors(); err != nil {
		return err
	}
	return r.generation.verifyForm(v)
}

type verifier struct {
	r     *Reader
	ctx   context.Context
	found *finding.List
	done  atomic.Int64 // stored bytes looked at

	shared map[payloadKey]*outcome // of payloads that several tensors have; read-only
	budget atomic.Int64            // bytes that may still be decoded
}

// A problem is an error, or a warning, that a worker made.
type problem struct {
	err  error
	warn bool
}

// gaps looks for bytes between the components that are not zero: only padding
// belongs there (§2 of the document).
func (v *verifier) gaps() error {
	r := v.r
	all := slices.SortedFunc(r.extents(), func(a, b extent) int { return cmp.Compare(a.off, b.off) })
	all = append(all, extent{off: r.manifestAt})
	buf := make([]byte, 64<<10)
	at := int64(len(magic1))
	for _, e := range all {
		for at < e.off {
			p := buf[:min(int64(len(buf)), e.off-at)]
			if err := v.ctx.Err(); err != nil {
				return err
			}
			if _, err := r.src.ReadAt(p, at); err != nil {
				return r.bad(at, "", err)
			}
			if i := slices.IndexFunc(p, func(b byte) bool { return b != 0 }); i >= 0 {
				v.found.Warn(r.bad(at+int64(i), "", fmt.Errorf("%w: a byte of no tensor that is not zero", tensor.ErrMalformed)))
				break
			}
			at += int64(len(p))
		}
		at = max(at, e.off+e.length)
	}
	return nil
}

// A batch is tensors that one worker verifies.
type batch struct {
	from, to int
	found    []problem
	err      error // that ends the verification
}

// batchSize is how many stored bytes make a batch, unless one tensor has more.
const batchSize = 4 << 20

// errFull ends the verification where no more findings are reported.
var errFull = errors.New("ztensor: enough findings")

// tensors verifies all tensors on all cores. What is found is reported in file
// order, from this goroutine.
func (v *verifier) tensors() error {
	r := v.r
	if err := v.prepare(); err != nil {
		return err
	}
	total := r.generation.stored()
	line := parallel.New(v.ctx, 0, func(ctx context.Context, b *batch) error {
		w := worker{v: v, ctx: ctx}
		for i := b.from; i < b.to && w.err == nil; i++ {
			r.generation.verifyTensor(&w, r.tensors.at(i))
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		b.found, b.err = w.found, w.err
		return nil
	}, func(b *batch) error {
		for _, f := range b.found {
			if f.warn {
				v.found.Warn(f.err)
			} else {
				v.found.Error(f.err)
			}
		}
		if v.found.Options.Progress != nil {
			v.found.Options.Progress(v.done.Load(), total)
		}
		if v.found.Full() {
			return errFull
		}
		return b.err
	})
	defer line.Close()
	for from := 0; from < r.tensors.used; {
		b := &batch{from: from, to: from}
		for size := int64(0); b.to < r.tensors.used && size < batchSize; b.to++ {
			size += 1 + max(0, r.tensors.at(b.to).Size())
		}
		from = b.to
		if line.Put(b, 0) != nil {
			break
		}
	}
	if err := line.Flush(); err != errFull {
		return err
	}
	return nil
}

// A worker verifies tensors one after the other.
type worker struct {
	v     *verifier
	ctx   context.Context
	buf   []byte
	found []problem

	undeclared int64 // decoded bytes of the current tensor whose number the file does not give
	err        error // that ends the verification
}

func (w *worker) fail(err error) { w.found = append(w.found, problem{err: err}) }

func (w *worker) warn(err error) { w.found = append(w.found, problem{err: err, warn: true}) }

func (w *worker) tensor(t *tensor.Tensor) {
	r := w.v.r
	before := len(w.found)
	w.undeclared = 0
	name := func() string { return fmt.Sprintf("%s[%s]", r.list, quote.Name(t.Name)) }
	if err := t.Check(); err != nil {
		w.fail(r.bad(-1, name(), err))
	}
	if t.Dense() && t.Data.Source() == nil {
		w.fail(r.bad(-1, name()+".components", fmt.Errorf("%w: no component data", tensor.ErrMalformed)))
	}
	sound := true
	each := func(b tensor.Blob) {
		if c, ok := b.Source().(*component); ok {
			sound = w.component(c) && sound
		}
	}
	each(t.Data)
	for i := range t.Parts {
		each(t.Parts[i].Data)
	}
	if sound && len(w.found) == before && (t.Scheme == sparse.CSR || t.Scheme == sparse.COO) {
		if w.v.found.Options.Depth <= tensor.VerifyStructure {
			return
		}
		if w.charge(w.undeclared); w.err != nil {
			return
		}
		if err := sparse.Check(w.ctx, t, nil); err != nil && w.ctx.Err() == nil {
			w.fail(r.bad(-1, name(), unnamed(err)))
		}
	}
}

// component verifies one component and reports whether it can be read.
func (w *worker) component(c *component) bool {
	before := len(w.found)
	if err := c.readable(); err != nil {
		w.fail(c.failed(err))
	}
	if c.dtype == tensor.Unknown && c.more != nil && c.more.dtype != "" {
		w.fail(c.fault(".dtype", fmt.Errorf("%w: element type %s", errors.ErrUnsupported, quote.Name(c.more.dtype))))
	}
	switch want, _, err := c.wanted(); {
	case err != nil:
		w.fail(c.failedDigest(err))
	case want.loose:
		w.warn(c.failedDigest(fmt.Errorf("%w: %s is not spelled as the document does", tensor.ErrMalformed, quote.Name(c.digest()))))
	}
	if w.v.found.Options.Depth <= tensor.VerifyStructure {
		w.v.done.Add(c.length)
		return c.readable() == nil
	}
	w.once(c.key(), func() string { return c.r.path(c) }, func() { w.payload(c) })
	return len(w.found) == before
}

// mismatch reports the digest of stored bytes too, where decoding them failed
// before the stream came to compare it.
func (w *worker) mismatch(c *component, err error) {
	if _, ok, bad := c.wanted(); !ok || bad != nil || errors.Is(err, tensor.ErrChecksum) {
		return
	}
	if sum := c.checkDigest(func(int64) error { return w.ctx.Err() }); errors.Is(sum, tensor.ErrChecksum) {
		w.fail(sum)
	}
}

// payload reads the bytes of a component once: digest, encoding and bools.
func (w *worker) payload(c *component) {
	step := func(n int64) error {
		w.v.done.Add(n)
		return w.ctx.Err()
	}
	if c.plain() && c.dtype != tensor.Bool || c.readable() != nil {
		var err error
		if _, ok, bad := c.wanted(); ok && bad == nil {
			err = c.checkDigest(step)
		} else { // no byte of it can be wrong, but it has to be there
			err = c.eachPiece(touch, step)
		}
		if err != nil && w.ctx.Err() == nil {
			w.fail(err)
		}
		return
	}
	in, err := c.Open()
	if err != nil {
		w.mismatch(c, err)
		w.fail(err)
		return
	}
	defer in.Close()
	if w.buf == nil {
		w.buf = make([]byte, 256<<10)
	}
	var at int64
	for {
		n, err := source.ReadPiece(in, w.buf)
		if c.dtype == tensor.Bool {
			if i := le.NotBool(w.buf[:n]); i >= 0 {
				w.fail(c.failed(fmt.Errorf("%w: element %d is the bool 0x%02x", tensor.ErrMalformed, at+int64(i), w.buf[i])))
				return
			}
		}
		at += int64(n)
		if c.size < 0 {
			w.undeclared += int64(n)
			if w.charge(int64(n)); w.err != nil {
				return
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			w.mismatch(c, err)
			w.fail(err)
			return
		}
		if w.ctx.Err() != nil {
			return
		}
	}
	step(c.length)
}

// touch looks at every page of p, which is a fault where the file has lost it.
func touch(p []byte) {
	const page = 4096
	var all byte
	for i := 0; i < len(p); i += page {
		all |= p[i]
	}
	runtime.KeepAlive(all) // so that the loop is not left out
}
