package convert

import (
	"context"
	"fmt"

	"github.com/tensorfile/tensorfile"
)

// File converts the file named in to the format that the extension of out stands
// for, and writes it to out, which appears whole or not at all. Errors are those of
// [tensorfile.Open], [NewPlan] and [Plan.WriteFile]: a *LossError has all losses that
// opts does not allow.
func File(ctx context.Context, in, out string, opts *Options) error {
	target := tensorfile.ByName(out)
	if target == 0 {
		return fmt.Errorf("convert: %s: %w", out, tensorfile.ErrUnknownFormat)
	}
	f, err := tensorfile.Open(in, &tensorfile.Options{Limits: orZero(opts).Limits})
	if err != nil {
		return err
	}
	defer f.Close()
	p, err := NewPlan(ctx, f, target, opts)
	if err != nil {
		return err
	}
	return p.WriteFile(ctx, out)
}
