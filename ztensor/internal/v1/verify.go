package v1

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// VerifyFile looks for bytes between the components that are not zero: only padding
// belongs there (§2 of the document).
func (c *container) VerifyFile(v *core.Verifier) error {
	r := c.r
	taken := append(slices.Collect(r.Extents()), core.Extent{Off: r.ManifestAt})
	return r.NonZero(v.Ctx, taken, func(at int64) {
		v.Found.Warn(r.Bad(at, "", fmt.Errorf("%w: a byte of no tensor that is not zero", tensor.ErrMalformed)))
	})
}

// VerifyTensor verifies the components of a tensor, and sparse indices.
func (c *container) VerifyTensor(w *core.Worker, t *tensor.Tensor) {
	before := len(w.Found)
	w.Undeclared = 0
	bad := func(field string, err error) {
		w.Fail(c.r.Bad(-1, c.r.List+"["+quote.Name(t.Name)+"]"+field, err))
	}
	if err := t.Check(); err != nil {
		bad("", err)
	}
	if t.Dense() && t.Data.Source() == nil {
		bad(".components", fmt.Errorf("%w: no component data", tensor.ErrMalformed))
	}
	readable := true
	for _, p := range core.PayloadsOf(t) {
		readable = verifyComponent(w, p) && readable
	}
	if !readable || len(w.Found) > before || !isSparse(t.Scheme) || structureOnly(w) {
		return
	}
	if w.Charge(w.Undeclared); w.Err != nil {
		return
	}
	if err := sparse.Check(w.Ctx, t, nil); err != nil && w.Ctx.Err() == nil {
		bad("", core.Unnamed(err))
	}
}

func structureOnly(w *core.Worker) bool {
	return w.V.Found.Options.Depth <= tensor.VerifyStructure
}

// verifyComponent verifies one component and reports whether it can be read.
func verifyComponent(w *core.Worker, c *core.Payload) bool {
	before := len(w.Found)
	if err := c.Readable(); err != nil {
		w.Fail(c.Failed(err))
	}
	if c.Dtype == tensor.Unknown && c.More != nil && c.More.Word != "" {
		w.Fail(c.Fault(".dtype",
			fmt.Errorf("%w: dtype %s", errors.ErrUnsupported, quote.Name(c.More.Word))))
	}
	switch want, _, err := c.Wanted(); {
	case err != nil:
		w.Fail(c.FailedDigest(err))
	case want.Loose:
		w.Warn(c.FailedDigest(fmt.Errorf("%w: %s is not spelled as the document does",
			tensor.ErrMalformed, quote.Name(c.Digest))))
	}
	if structureOnly(w) {
		w.V.Done.Add(c.Length)
		return c.Readable() == nil
	}
	w.Once(c.Key(), func() string { return c.R.Path(c) }, func() { verifyPayload(w, c) })
	return len(w.Found) == before
}

// verifyPayload reads the bytes of a component once: digest, encoding and bools.
func verifyPayload(w *core.Worker, c *core.Payload) {
	step := func(n int64) error {
		w.V.Done.Add(n)
		return w.Ctx.Err()
	}
	var look func(b []byte) error
	var at int64
	if c.Dtype == tensor.Bool || c.DecodedSize < 0 {
		look = func(b []byte) error {
			if i := le.NotBool(b); c.Dtype == tensor.Bool && i >= 0 {
				return fmt.Errorf("%w: element %d is the bool 0x%02x", tensor.ErrMalformed,
					at+int64(i), b[i])
			}
			at += int64(len(b))
			if c.DecodedSize < 0 {
				w.Undeclared += int64(len(b))
				w.Charge(int64(len(b)))
			}
			return w.Err
		}
	}
	var err error
	switch _, _, bad := c.Wanted(); {
	case bad != nil && c.Codec() == nil: // reported already, but the bytes have to be there
		err = c.Failed(c.EachPiece(step, func(b []byte) error {
			core.Touch(b)
			if look != nil {
				return look(b)
			}
			return nil
		}))
	case c.Readable() != nil:
		err = c.CheckStored(step, nil)
	default:
		err = c.Check(step, look)
	}
	if err != nil && w.Ctx.Err() == nil && w.Err == nil {
		w.Fail(err)
	}
}
