package v1

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
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// VerifyFile looks for bytes between the components that are not zero: only padding
// belongs there (§2 of the document).
func (c *container) VerifyFile(v *core.Verifier) error {
	r := c.r
	all := slices.SortedFunc(r.Extents(), func(a, b core.Extent) int { return cmp.Compare(a.Off, b.Off) })
	all = append(all, core.Extent{Off: r.ManifestAt})
	buf := make([]byte, 64<<10)
	at := int64(len(core.Magic1))
	for _, e := range all {
		for at < e.Off {
			p := buf[:min(int64(len(buf)), e.Off-at)]
			if err := v.Ctx.Err(); err != nil {
				return err
			}
			if _, err := r.Src.ReadAt(p, at); err != nil {
				return r.Bad(at, "", err)
			}
			if i := slices.IndexFunc(p, func(b byte) bool { return b != 0 }); i >= 0 {
				v.Found.Warn(r.Bad(at+int64(i), "", fmt.Errorf("%w: a byte of no tensor that is not zero", tensor.ErrMalformed)))
				break
			}
			at += int64(len(p))
		}
		at = max(at, e.Off+e.Length)
	}
	return nil
}

func (c *container) VerifyTensor(w *core.Worker, t *tensor.Tensor) {
	r := c.r
	before := len(w.Found)
	w.Undeclared = 0
	name := func() string { return fmt.Sprintf("%s[%s]", r.List, quote.Name(t.Name)) }
	if err := t.Check(); err != nil {
		w.Fail(r.Bad(-1, name(), err))
	}
	if t.Dense() && t.Data.Source() == nil {
		w.Fail(r.Bad(-1, name()+".components", fmt.Errorf("%w: no component data", tensor.ErrMalformed)))
	}
	sound := true
	each := func(b tensor.Blob) {
		if c, ok := b.Source().(*core.Component); ok {
			sound = verifyComponent(w, c) && sound
		}
	}
	each(t.Data)
	for i := range t.Parts {
		each(t.Parts[i].Data)
	}
	if sound && len(w.Found) == before && (t.Scheme == sparse.CSR || t.Scheme == sparse.COO) {
		if w.V.Found.Options.Depth <= tensor.VerifyStructure {
			return
		}
		if w.Charge(w.Undeclared); w.Err != nil {
			return
		}
		if err := sparse.Check(w.Ctx, t, nil); err != nil && w.Ctx.Err() == nil {
			w.Fail(r.Bad(-1, name(), core.Unnamed(err)))
		}
	}
}

// verifyComponent verifies one component and reports whether it can be read.
func verifyComponent(w *core.Worker, c *core.Component) bool {
	before := len(w.Found)
	if err := c.Readable(); err != nil {
		w.Fail(c.Failed(err))
	}
	if c.Dtype == tensor.Unknown && c.More != nil && c.More.Dtype != "" {
		w.Fail(c.Fault(".dtype", fmt.Errorf("%w: element type %s", errors.ErrUnsupported, quote.Name(c.More.Dtype))))
	}
	switch want, _, err := c.Wanted(); {
	case err != nil:
		w.Fail(c.FailedDigest(err))
	case want.Loose:
		w.Warn(c.FailedDigest(fmt.Errorf("%w: %s is not spelled as the document does", tensor.ErrMalformed, quote.Name(c.Digest()))))
	}
	if w.V.Found.Options.Depth <= tensor.VerifyStructure {
		w.V.Done.Add(c.Length)
		return c.Readable() == nil
	}
	w.Once(c.Key(), func() string { return c.R.Path(c) }, func() { verifyPayload(w, c) })
	return len(w.Found) == before
}

// mismatch reports the digest of stored bytes too, where decoding them failed
// before the stream came to compare it.
func mismatch(w *core.Worker, c *core.Component, err error) {
	if _, ok, bad := c.Wanted(); !ok || bad != nil || errors.Is(err, tensor.ErrChecksum) {
		return
	}
	if sum := c.CheckDigest(func(int64) error { return w.Ctx.Err() }); errors.Is(sum, tensor.ErrChecksum) {
		w.Fail(sum)
	}
}

// verifyPayload reads the bytes of a component once: digest, encoding and bools.
func verifyPayload(w *core.Worker, c *core.Component) {
	step := func(n int64) error {
		w.V.Done.Add(n)
		return w.Ctx.Err()
	}
	if c.Plain() && c.Dtype != tensor.Bool || c.Readable() != nil {
		var err error
		if _, ok, bad := c.Wanted(); ok && bad == nil {
			err = c.CheckDigest(step)
		} else { // no byte of it can be wrong, but it has to be there
			err = c.EachPiece(touch, step)
		}
		if err != nil && w.Ctx.Err() == nil {
			w.Fail(err)
		}
		return
	}
	in, err := c.Open()
	if err != nil {
		mismatch(w, c, err)
		w.Fail(err)
		return
	}
	defer in.Close()
	if w.Buf == nil {
		w.Buf = make([]byte, 256<<10)
	}
	var at int64
	for {
		n, err := source.ReadPiece(in, w.Buf)
		if c.Dtype == tensor.Bool {
			if i := le.NotBool(w.Buf[:n]); i >= 0 {
				w.Fail(c.Failed(fmt.Errorf("%w: element %d is the bool 0x%02x", tensor.ErrMalformed, at+int64(i), w.Buf[i])))
				return
			}
		}
		at += int64(n)
		if c.DecodedSize < 0 {
			w.Undeclared += int64(n)
			if w.Charge(int64(n)); w.Err != nil {
				return
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			mismatch(w, c, err)
			w.Fail(err)
			return
		}
		if w.Ctx.Err() != nil {
			return
		}
	}
	step(c.Length)
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
