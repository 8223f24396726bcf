package v1

import (
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// VerifyFile looks for bytes between the components that are not zero: only padding
// belongs there (§2 of the document).
func (c *container) VerifyFile(v *core.Verifier) error {
	r := c.r
	taken := []core.Extent{{Off: r.ManifestAt}}
	for _, p := range r.Payloads {
		taken = append(taken, core.Extent{Off: p.Offset, Length: p.Length})
	}
	return r.NonZero(v.Ctx, taken, func(at int64) {
		v.Found.Warn(r.Bad(at, "",
			core.Malformed("a byte of no tensor that is not zero")))
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
		bad(".components", core.Malformed("no component data"))
	}
	readable := true
	for _, p := range core.PayloadsOf(t) {
		w.Stated(p)
		readable = readable && p.Readable() == nil
		if structure {
			w.V.Done.Add(p.Length)
		} else if decoded := w.Payload(p); isSparse(t.Scheme) {
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
