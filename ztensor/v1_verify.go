package ztensor

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

// verifyFile looks for bytes between the components that are not zero: only padding
// belongs there (§2 of the document).
func (c *container1) verifyFile(v *verifier) error {
	r := c.r
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

func (c *container1) verifyTensor(w *worker, t *tensor.Tensor) {
	r := c.r
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
			sound = verifyComponent(w, c) && sound
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

// verifyComponent verifies one component and reports whether it can be read.
func verifyComponent(w *worker, c *component) bool {
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
	w.once(c.key(), func() string { return c.r.path(c) }, func() { verifyPayload(w, c) })
	return len(w.found) == before
}

// mismatch reports the digest of stored bytes too, where decoding them failed
// before the stream came to compare it.
func mismatch(w *worker, c *component, err error) {
	if _, ok, bad := c.wanted(); !ok || bad != nil || errors.Is(err, tensor.ErrChecksum) {
		return
	}
	if sum := c.checkDigest(func(int64) error { return w.ctx.Err() }); errors.Is(sum, tensor.ErrChecksum) {
		w.fail(sum)
	}
}

// verifyPayload reads the bytes of a component once: digest, encoding and bools.
func verifyPayload(w *worker, c *component) {
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
		mismatch(w, c, err)
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
			mismatch(w, c, err)
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
