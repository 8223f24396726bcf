// Package dtype has the names of dtypes in zTensor files, and checks for bytes that are
// not a value of their dtype.
package dtype

import (
	"fmt"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// storage has the storage types, with their short names, which files from 1.1 on have.
// Older files have the names of tensor.DType. Version 2 has all but bool.
var storage = [...]struct {
	dtype tensor.DType
	name  string
}{
	{tensor.BF16, "bf16"},
	{tensor.F16, "f16"},
	{tensor.F32, "f32"},
	{tensor.F64, "f64"},
	{tensor.U8, "u8"},
	{tensor.I8, "i8"},
	{tensor.I64, "i64"},
	{tensor.I32, "i32"},
	{tensor.I16, "i16"},
	{tensor.U64, "u64"},
	{tensor.U32, "u32"},
	{tensor.U16, "u16"},
	{tensor.Bool, "bool"},
}

// A Logical type is a dtype whose elements are stored as another, its storage type.
type Logical struct {
	Name    string
	Storage tensor.DType
	DType   tensor.DType
	onlyV2  bool // in version 2 only
}

var logical = [...]Logical{
	{"f8_e4m3fn", tensor.U8, tensor.F8E4M3FN, false},
	{"f8_e5m2", tensor.U8, tensor.F8E5M2, false},
	{"f8_e4m3fnuz", tensor.U8, tensor.F8E4M3FNUZ, false},
	{"f8_e5m2fnuz", tensor.U8, tensor.F8E5M2FNUZ, false},
	{"complex64", tensor.F32, tensor.C64, false},
	{"complex128", tensor.F64, tensor.C128, false},
	{"bool", tensor.U8, tensor.Bool, true},
	{"f8_e8m0", tensor.U8, tensor.F8E8M0FNU, true},
	{"f4_e2m1", tensor.U8, tensor.F4E2M1FN, true},
}

// StorageName returns the name of a storage type, short or long; "" if d is none.
func StorageName(d tensor.DType, short bool) string {
	for _, s := range storage {
		switch {
		case s.dtype != d:
		case short:
			return s.name
		default:
			return d.String()
		}
	}
	return ""
}

// StorageNamed returns the storage type of that name; Unknown if there is none.
func StorageNamed(name string, short bool) tensor.DType {
	for i := range storage {
		if s := &storage[i]; short && s.name == name || !short && s.dtype.String() == name {
			return s.dtype
		}
	}
	return tensor.Unknown
}

// LogicalNamed returns the logical type of that name in version 2, or in 1.2. If there is
// none, its Name is empty.
func LogicalNamed(name string, isVersion2 bool) Logical {
	for _, l := range logical {
		if l.Name == name && (isVersion2 || !l.onlyV2) {
			return l
		}
	}
	return Logical{}
}

// LogicalOf returns the logical type of version 2 that d is. If it is none, the result
// has no Name, and d as its Storage.
func LogicalOf(d tensor.DType) Logical {
	for _, l := range logical {
		if l.DType == d {
			return l
		}
	}
	return Logical{Storage: d, DType: d}
}

// A Check checks the bytes of a payload for values that its dtype does not have.
type Check struct {
	dtype     tensor.DType
	OddNibble bool // half of the last byte is unused and must be zero
	n         int64
	last      byte
}

// NewCheck returns the Check of a payload of t of that type.
func NewCheck(t *tensor.Tensor, d tensor.DType) Check {
	n, _ := t.Shape.Elements()
	return Check{dtype: d, OddNibble: t.Dense() && d == tensor.F4E2M1FN && n%2 == 1}
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

// End checks the last byte, after all calls of Next.
func (c *Check) End() error {
	if c.OddNibble && c.last > 0xf {
		return rule.Broken(rule.LayoutData, "the unused half of the last byte is 0x%x", c.last>>4)
	}
	return nil
}
