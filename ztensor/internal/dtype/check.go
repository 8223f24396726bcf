package dtype

import (
	"fmt"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// A Check finds values that their type does not have in the bytes of a payload.
type Check struct {
	dtype tensor.DType
	Odd   bool // half of the last byte means nothing and must be zero
	n     int64
	last  byte
}

// NewCheck returns the Check of a payload of t of that type.
func NewCheck(t *tensor.Tensor, d tensor.DType) Check {
	n, _ := t.Shape.Elements()
	return Check{dtype: d, Odd: t.Dense() && d == tensor.F4E2M1FN && n%2 == 1}
}

// Next checks the next bytes.
func (c *Check) Next(b []byte) error {
	if c.dtype == tensor.Bool {
		if i := le.NotBool(b); i >= 0 {
			return fmt.Errorf("%w: element %d is the bool 0x%02x", tensor.ErrMalformed,
				c.n+int64(i), b[i])
		}
	}
	if c.n += int64(len(b)); len(b) > 0 {
		c.last = b[len(b)-1]
	}
	return nil
}

// End checks what shows when all bytes were there.
func (c *Check) End() error {
	if c.Odd && c.last > 0xf {
		return rule.Broken(rule.LayoutData, "the unused half of the last byte is 0x%x", c.last>>4)
	}
	return nil
}
