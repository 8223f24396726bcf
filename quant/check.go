package quant

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// Check reads the parts of a weight and returns findings about their values: scales that
// are NaN, infinite, negative or all zero, FP8 codes that are NaN, and invalid groups,
// zero points and maps. A weight with an Err, or without a Scheme, has no findings. Check
// fails if reading fails or ctx ends. It costs as much as reading all values.
func (w *Weight) Check(ctx context.Context) ([]Finding, error) {
	v, ok := w.Tensor.Data.Source().(*values)
	if !ok || w.Scheme == "" {
		return nil, nil
	}
	var found []Finding
	note := noter(func(code Code, s tensor.Severity, format string, args ...any) {
		found = append(found,
			Finding{code, s, w.Name, errorf(tensor.ErrMalformed, w.Name, format, args...)})
	})
	if err := v.prepare(); err != nil {
		if errors.Is(err, tensor.ErrMalformed) {
			return append(found, Finding{QuantizationState, tensor.SeverityError, w.Name, err}),
				nil
		}
		return nil, err
	}
	if a, ok := v.matrix.codes.(*affine); ok {
		scales, zeros := a.countScales()
		note.scales(scales, true, true)
		note.scales(zeros, false, false)
	}
	for _, o := range v.matrix.ops {
		c, err := count(ctx, o.grid)
		switch {
		case errors.Is(err, errDivisor):
			note(ScaleValue, tensor.SeverityError, "%v", errDivisor)
			continue
		case err != nil:
			return found, err
		}
		note.scales(c, o.operator == multiply || o.operator == divide, isPositive(w, o.grid))
		if o.operator == subtract && v.wrapped > 0 && c.most == v.wrapped {
			note(ScaleValue, tensor.SeverityWarning,
				"zero points have all bits set, which kernels read differently")
		}
	}
	if p, ok := v.matrix.codes.(*packed); ok && strings.Contains(w.Scheme, "fp8") &&
		p.unit == 1 {
		codes := *v.matrix
		codes.ops = nil
		c, err := count(ctx, &codes)
		if err != nil {
			return found, err
		}
		if c.nan > 0 {
			note(ValueNaN, tensor.SeverityError, "%d codes of %d are NaN", c.nan, c.all)
		}
	}
	return found, nil
}

// A noter adds a finding.
type noter func(code Code, s tensor.Severity, format string, args ...any)

// scales adds findings about scales (isFactor), or about zero points.
func (note noter) scales(c counts, isFactor, isPositive bool) {
	what := "zero points"
	if isFactor {
		what = "scales"
	}
	if c.nan > 0 || c.infinite > 0 {
		note(ScaleValue, tensor.SeverityError, "%d %s are NaN, %d infinite, of %d", c.nan, what,
			c.infinite, c.all)
	}
	if c.negative > 0 && isFactor && isPositive {
		note(ScaleValue, tensor.SeverityError, "%d scales of %d are negative", c.negative, c.all)
	}
	if c.zero == c.all && isFactor && c.all > 0 {
		note(ScaleValue, tensor.SeverityError, "all %d scales are 0", c.all)
	}
}

// isPositive reports whether negative scales are an error: only some schemes have them.
func isPositive(w *Weight, grid *matrix) bool {
	nested := len(grid.ops) > 1
	return !nested && w.Scheme != "mlx-affine" && w.Scheme != "gguf-scale"
}

// counts are the counts of elements of a matrix, and the largest element.
type counts struct {
	all, nan, infinite, negative, zero int64
	most                               float32
}

func (c *counts) add(x float64) {
	c.all++
	switch {
	case x != x:
		c.nan++
	case math.IsInf(x, 0):
		c.infinite++
	case x < 0:
		c.negative++
	case x == 0:
		c.zero++
	}
}

// count counts the elements of a matrix.
func count(ctx context.Context, m *matrix) (c counts, err error) {
	v := newValues(m, false, "", nil)
	if v.elements() == 0 {
		return c, nil
	}
	r, err := v.Open()
	if err != nil {
		return c, err
	}
	defer r.Close()
	buf := make([]byte, 64<<10)
	for {
		if err := ctx.Err(); err != nil {
			return c, err
		}
		n, err := io.ReadFull(r, buf)
		for i := 0; i+4 <= n; i += 4 {
			x := math.Float32frombits(binary.LittleEndian.Uint32(buf[i:]))
			c.add(float64(x))
			c.most = max(c.most, x)
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			if 4*c.all == v.Size() {
				return c, nil
			}
			return c, fmt.Errorf("%d of %d elements: %w", c.all, v.elements(),
				io.ErrUnexpectedEOF)
		default:
			return c, err
		}
	}
}
