package ztensor

import (
	"errors"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// verifyFile verifies the files that a version 2 file keeps parts in: that they are
// there, framed, and of the right size, and unless only the structure counts
// that their bytes have the digests by which the root knows them.
func (c *container2) verifyFile(v *verifier) error {
	sums := make(map[string]string) // a file that many shards are in is read once
	for i := range c.list {
		if v.found.Full() {
			return nil
		}
		s := &c.list[i]
		field := "shards[" + quote.Name(s.name) + "]"
		src, err := c.shard(i)
		if err == nil && v.found.Options.Depth > tensor.VerifyStructure {
			algorithm, want, _ := strings.Cut(s.digest, ":")
			have, known := sums[algorithm+":"+s.place]
			if !known {
				have, err = sumFile(src, s.digest, func(int64) error { return v.ctx.Err() })
			}
			if err == nil {
				sums[algorithm+":"+s.place] = have
				if have != want {
					err = rule.Broken(rule.ShardIdentity, "its digest is %s, the file says %s", have, want)
				}
			}
		}
		if v.ctx.Err() != nil {
			return v.ctx.Err()
		}
		if err != nil {
			v.found.Error(&tensor.FormatError{Format: format, Offset: -1, Field: field, Err: err})
		}
	}
	return nil
}

// verifyForm reports what is not in canonical form, where that was asked for.
func (c *container2) verifyForm(v *verifier) error {
	if v.found.Options.Depth < tensor.VerifyCanonical {
		return nil
	}
	found, err := c.canonicalViolations(v.ctx)
	for _, f := range found {
		v.found.Error(f)
	}
	return err
}

// verifyTensor verifies a tensor of version 2: the digests and encodings of its
// parts, the content rules of their types, and the data rules of its layout.
func (c *container2) verifyTensor(w *worker, t *tensor.Tensor) {
	before := len(w.found)
	w.undeclared = 0
	for _, p := range partsOf(t) {
		verifyPart(w, t, p)
		if w.ctx.Err() != nil {
			return
		}
	}
	failed := slices.ContainsFunc(w.found[before:], func(f problem) bool { return !f.warn })
	if w.v.found.Options.Depth <= tensor.VerifyStructure || failed || t.Dense() {
		return
	}
	if checkLayout(t, 0, nil) != nil {
		return // warned of when the file was opened
	}
	if err := checkData2(w.ctx, t); err != nil && w.ctx.Err() == nil {
		w.fail(w.v.r.placed(-1, "objects["+quote.Name(t.Name)+"]", err))
	}
}

func verifyPart(w *worker, t *tensor.Tensor, p role2) {
	b := p.blob
	fault := func(field string, err error) error {
		return &tensor.FormatError{Format: format, Offset: b.offset, Field: partField(p.object, p.role) + field, Err: err}
	}
	if b.shard > 0 {
		if _, err := b.source(); err != nil {
			w.v.done.Add(b.length)
			return // verifyFile has said so
		}
	}
	if w.v.found.Options.Depth <= tensor.VerifyStructure {
		w.v.done.Add(b.length)
		return
	}
	var look func(p []byte) error
	var at int64
	switch {
	case b.dtype == tensor.Bool:
		look = isBools
	case b.dtype == tensor.F4E2M1FN && t.Dense():
		n, _ := t.Shape.Elements()
		look = func(p []byte) error {
			if at += int64(len(p)); at == b.size {
				return oddNibble(p[len(p)-1], n)
			}
			return nil
		}
	}
	step := func(n int64) error {
		w.v.done.Add(n)
		return w.ctx.Err()
	}
	if b.digest() == "" {
		w.warn(fault(".digest", errors.New("there is none to check the bytes by")))
	}
	w.once(b.key(), func() string { return partField(p.object, p.role) }, func() {
		if err := b.check(step, look); err != nil && w.ctx.Err() == nil {
			w.fail(err)
		}
	})
}
