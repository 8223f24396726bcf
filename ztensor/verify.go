package ztensor

import (
	"context"

	"github.com/tensorfile/tensorfile/internal/finding"
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
	return l.End(r.f.Verify(ctx, l))
}
