// Package dtype has the words that zTensor files have for dtypes, and checks values that
// not every byte is.
package dtype

import (
	"fmt"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// storage are the dtypes that are stored as they are, with their words from 1.1 on.
// Before, the words are the names of the dtypes. Version 2 has all but bool.
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

// A Logical type is stored as another.
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

// StorageName returns the word of a storage type, the short one from 1.1 on; "" where it is
// none.
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

// StorageNamed returns the storage type of that word; Unknown where there is none.
func StorageNamed(name string, short bool) tensor.DType {
	for i := range storage {
		if s := &storage[i]; short && s.name == name || !short && s.dtype.String() == name {
			return s.dtype
		}
	}
	return tensor.Unknown
}

// LogicalNamed returns the logical type of that name, of version 2 or of 1.2. Its Name is empty
// where there is none.
func LogicalNamed(name string, isVersion2 bool) Logical {
	for _, l := range logical {
		if l.Name == name && (isVersion2 || !l.onlyV2) {
			return l
		}
	}
	return Logical{}
}

// LogicalOf returns the logical type of version 2 that a dtype is; where it is none, it is
// stored as itself.
func LogicalOf(d tensor.DType) Logical {
	for _, l := range logical {
		if l.DType == d {
			return l
		}
	}
	return Logical{Storage: d, DType: d}
}

// A Check finds values that their type does not have in the bytes of a payload.
type Check struct {
	dtype     tensor.DType
	OddNibble bool // half of the last byte means nothing and must be zero
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

// End checks what shows when all bytes were there.
func (c *Check) End() error {
	if c.OddNibble && c.last > 0xf {
		return rule.Broken(rule.LayoutData, "the unused half of the last byte is 0x%x", c.last>>4)
	}
	return nil
}
