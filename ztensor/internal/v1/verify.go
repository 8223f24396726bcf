package v1

import (
	"errors"
	"fmt"
	"slices"

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
		v.Found.Warn(r.Bad(at, "",
			fmt.Errorf("%w: a byte of no tensor that is not zero", tensor.ErrMalformed)))
	})
}

// VerifyTensor verifies the components of a tensor, and sparse indices.
func (c *container) VerifyTensor(w *core.Worker, t *tensor.Tensor) {
	before := len(w.Found)
	structure := w.V.Found.Options.Depth <= tensor.VerifyStructure
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
		verifyStated(w, p)
		readable = readable && p.Readable() == nil
		if structure {
			w.V.Done.Add(p.Length)
		} else if decoded := verifyPayload(w, p); isSparse(t.Scheme) {
			w.Again(p, decoded)
		}
	}
	if !readable || len(w.Found) > before || !isSparse(t.Scheme) || structure || w.Err != nil {
		return
	}
	if err := sparse.Check(w.Ctx, t, nil); err != nil && w.Ctx.Err() == nil {
		bad("", core.Unnamed(err))
	}
}

// verifyStated reports what is wrong with a component whatever its bytes are.
func verifyStated(w *core.Worker, c *core.Payload) {
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
}

// verifyPayload reads the bytes of a component once: digest, encoding and bools.
func verifyPayload(w *core.Worker, c *core.Payload) (decoded int64) {
	check := c.Check
	switch _, _, err := c.Wanted(); {
	case err != nil && c.Codec() == nil: // reported already, but the bytes have to be there
		check = func(step func(n int64) error, look func(b []byte) error) error {
			return c.Failed(c.EachPiece(step, func(b []byte) error {
				core.Touch(b)
				return look(b)
			}))
		}
	case c.Readable() != nil:
		check = c.CheckStored
	}
	return w.Payload(c, check)
}
