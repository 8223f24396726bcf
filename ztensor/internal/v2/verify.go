package v2

import (
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// VerifyFile verifies the files that a version 2 file keeps parts in: that they are
// there, framed, and of the right size, and unless only the structure counts
// that their bytes have the digests by which the root knows them.
func (c *Container) VerifyFile(v *core.Verifier) error {
	sums := make(map[string]string) // a file that many shards are in is read once
	for i := range c.List {
		if v.Found.Full() {
			return nil
		}
		s := &c.List[i]
		field := "shards[" + quote.Name(s.Name) + "]"
		src, err := c.Shard(i)
		if err == nil && v.Found.Options.Depth > tensor.VerifyStructure {
			algorithm, want, _ := strings.Cut(s.Digest, ":")
			have, known := sums[algorithm+":"+s.place]
			if !known {
				have, err = sumFile(v.Ctx, src, s.Digest)
			}
			if err == nil {
				sums[algorithm+":"+s.place] = have
				if have != want {
					err = rule.Broken(rule.ShardIdentity,
						"its digest is %s, the file says %s", have, want)
				}
			}
		}
		if v.Ctx.Err() != nil {
			return v.Ctx.Err()
		}
		if err != nil {
			v.Found.Error(&tensor.FormatError{Format: core.Format, Offset: -1, Field: field,
				Err: err})
		}
	}
	return nil
}

// VerifyTensor verifies a tensor of version 2: the digests and encodings of its
// parts, the content rules of their types, and the data rules of its layout.
func (c *Container) VerifyTensor(w *core.Worker, t *tensor.Tensor) {
	before := len(w.Found)
	structure := w.V.Found.Options.Depth <= tensor.VerifyStructure
	sparse := t.Scheme == layouts.CSR || t.Scheme == layouts.COO
	for _, p := range core.PayloadsOf(t) {
		if _, err := p.Source(); err != nil || structure {
			w.V.Done.Add(p.Length) // VerifyFile reports a shard that is not there
			continue
		}
		w.Stated(p)
		if decoded := w.Payload(p); sparse {
			w.Again(p, decoded)
		}
		if w.Ctx.Err() != nil || w.Err != nil {
			return
		}
	}
	failed := slices.ContainsFunc(w.Found[before:], func(f core.Problem) bool { return !f.Warn })
	if structure || failed || !sparse || layouts.Check(t, 0, nil) != nil {
		return // a broken rule was warned of when the file was opened
	}
	if err := layouts.CheckData(w.Ctx, t); err != nil && w.Ctx.Err() == nil {
		w.Fail(w.V.R.Placed(-1, "objects["+quote.Name(t.Name)+"]", err))
	}
}
