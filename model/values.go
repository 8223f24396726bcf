package model

import (
	"context"
	"math"
	"path"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// minConstant is how many elements a tensor has that is suspicious if all are the same.
const minConstant = 16

// checkValues reads the elements of a floating-point tensor. It fails only if
// the context ends.
func checkValues(ctx context.Context, file string, t *tensor.Tensor) ([]Finding, error) {
	if !t.Dense() || !t.DType.IsFloat() || t.External {
		return nil, nil
	}
	var v values
	var err error
	if t.DType == tensor.F64 {
		err = scan[float64](ctx, t, &v)
	} else {
		err = scan[float32](ctx, t, &v)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		f := findingOf(codeOf(err), file, err)
		f.Tensor = t.Name
		return []Finding{f}, nil
	}
	var all []Finding
	count := func(code Code, n int64, what string) {
		if n > 0 {
			f := finding(code, file, t.Name, "%d of %d elements are %s", n, v.n, what)
			f.Count = n
			all = append(all, f)
		}
	}
	count(NaN, v.nan, "NaN")
	count(Inf, v.inf, "infinite")
	// LoRA starts with a matrix of zeros.
	if len(t.Shape) >= 2 && v.n >= minConstant && v.nan == 0 && v.min == v.max &&
		!strings.HasPrefix(path.Base(file), "adapter_model") {
		code := Constant
		if v.min == 0 {
			code = AllZero
		}
		all = append(all, finding(code, file, t.Name, "all %d elements are %v", v.n, v.min))
	}
	return all, nil
}

// values are what is counted of a tensor's elements.
type values struct {
	n, nan, inf int64
	min, max    float64 // of those that are not NaN
}

func scan[T float32 | float64](ctx context.Context, t *tensor.Tensor, v *values) error {
	lo, hi := T(math.Inf(1)), T(math.Inf(-1))
	for piece, err := range tensor.Values[T](t) {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		v.n += int64(len(piece))
		for _, x := range piece {
			if d := x - x; d != 0 { // NaN or infinite
				if x != x {
					v.nan++
				} else {
					v.inf++
				}
			}
			lo, hi = min(lo, x), max(hi, x)
		}
	}
	v.min, v.max = float64(lo), float64(hi)
	return nil
}
