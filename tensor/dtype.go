package tensor

import (
	"fmt"
	"strings"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/naming"
)

// A DType is the type of a tensor's elements. It says how many storage bits an
// element takes in the formats that have it: quint4x2 of ExecuTorch takes a
// whole byte there, float4_e2m1fn of safetensors half a byte.
//
// The zero value, Unknown, stands for a type that this library has no name for;
// [Stored] then has the word that the file uses.
type DType uint8

// The dtypes of all formats.
const (
	Unknown DType = iota
	Bool
	I8
	I16
	I32
	I64
	U8
	U16
	U32
	U64
	I4 // packed, the first element in the low bits, as I2, U4 and U2
	U4
	I2
	U2
	F16
	BF16
	F32
	F64
	C32  // two float16
	C64  // two float32
	C128 // two float64
	F8E4M3FN
	F8E5M2
	F8E4M3FNUZ
	F8E5M2FNUZ
	F8E8M0FNU // an exponent alone, as in the scales of MX blocks
	F6E2M3FN
	F6E3M2FN
	F4E2M1FN
	QI8 // quantised integers, whose scale and zero point are external
	QU8
	QI32
	QU4x2 // a byte of two 4-bit values, as ExecuTorch counts elements
	QU2x4
	Bits1x8
	Bits2x4
	Bits4x2
	Bits8
	Bits16
	numDTypes
)

type kind uint8

const (
	kindOpaque kind = iota
	kindBool
	kindInt
	kindUint
	kindFloat
	kindComplex
	kindQuantized
)

// dtypes is indexed by DType. width is the bytes of one component that has a
// byte order: 8 for complex128, 1 where order has no meaning.
var dtypes = [numDTypes]struct {
	name  string
	short string
	bits  uint8
	width uint8
	kind  kind
}{
	Unknown:    {"unknown", "Unknown", 0, 1, kindOpaque},
	Bool:       {"bool", "Bool", 8, 1, kindBool},
	I8:         {"int8", "I8", 8, 1, kindInt},
	I16:        {"int16", "I16", 16, 2, kindInt},
	I32:        {"int32", "I32", 32, 4, kindInt},
	I64:        {"int64", "I64", 64, 8, kindInt},
	U8:         {"uint8", "U8", 8, 1, kindUint},
	U16:        {"uint16", "U16", 16, 2, kindUint},
	U32:        {"uint32", "U32", 32, 4, kindUint},
	U64:        {"uint64", "U64", 64, 8, kindUint},
	I4:         {"int4", "I4", 4, 1, kindInt},
	U4:         {"uint4", "U4", 4, 1, kindUint},
	I2:         {"int2", "I2", 2, 1, kindInt},
	U2:         {"uint2", "U2", 2, 1, kindUint},
	F16:        {"float16", "F16", 16, 2, kindFloat},
	BF16:       {"bfloat16", "BF16", 16, 2, kindFloat},
	F32:        {"float32", "F32", 32, 4, kindFloat},
	F64:        {"float64", "F64", 64, 8, kindFloat},
	C32:        {"complex32", "C32", 32, 2, kindComplex},
	C64:        {"complex64", "C64", 64, 4, kindComplex},
	C128:       {"complex128", "C128", 128, 8, kindComplex},
	F8E4M3FN:   {"float8_e4m3fn", "F8E4M3FN", 8, 1, kindFloat},
	F8E5M2:     {"float8_e5m2", "F8E5M2", 8, 1, kindFloat},
	F8E4M3FNUZ: {"float8_e4m3fnuz", "F8E4M3FNUZ", 8, 1, kindFloat},
	F8E5M2FNUZ: {"float8_e5m2fnuz", "F8E5M2FNUZ", 8, 1, kindFloat},
	F8E8M0FNU:  {"float8_e8m0fnu", "F8E8M0FNU", 8, 1, kindFloat},
	F6E2M3FN:   {"float6_e2m3fn", "F6E2M3FN", 6, 1, kindFloat},
	F6E3M2FN:   {"float6_e3m2fn", "F6E3M2FN", 6, 1, kindFloat},
	F4E2M1FN:   {"float4_e2m1fn", "F4E2M1FN", 4, 1, kindFloat},
	QI8:        {"qint8", "QI8", 8, 1, kindQuantized},
	QU8:        {"quint8", "QU8", 8, 1, kindQuantized},
	QI32:       {"qint32", "QI32", 32, 4, kindQuantized},
	QU4x2:      {"quint4x2", "QU4x2", 8, 1, kindQuantized},
	QU2x4:      {"quint2x4", "QU2x4", 8, 1, kindQuantized},
	Bits1x8:    {"bits1x8", "Bits1x8", 8, 1, kindOpaque},
	Bits2x4:    {"bits2x4", "Bits2x4", 8, 1, kindOpaque},
	Bits4x2:    {"bits4x2", "Bits4x2", 8, 1, kindOpaque},
	Bits8:      {"bits8", "Bits8", 8, 1, kindOpaque},
	Bits16:     {"bits16", "Bits16", 16, 2, kindOpaque},
}

// DTypes returns every known dtype, in the order of their constants.
func DTypes() []DType {
	all := make([]DType, 0, numDTypes-1)
	for d := Unknown + 1; d < numDTypes; d++ {
		all = append(all, d)
	}
	return all
}

// Known reports whether d is one of the named constants other than Unknown.
func (d DType) Known() bool { return d > Unknown && d < numDTypes }

// String returns the name that the command line and JSON use, such as
// "bfloat16"; "unknown" for Unknown.
func (d DType) String() string {
	if d >= numDTypes {
		return fmt.Sprintf("DType(%d)", uint8(d))
	}
	return dtypes[d].name
}

// Bits returns the storage of one element in bits, 0 for Unknown.
func (d DType) Bits() int {
	if d >= numDTypes {
		return 0
	}
	return int(dtypes[d].bits)
}

// Size returns the storage of one element in bytes; 0 for Unknown and for types of less
// than a byte, whose tensors are measured by [DType.Bytes].
func (d DType) Size() int { return d.Bits() / 8 }

// Align returns the alignment in bytes that a typed view needs: the alignment of one
// component, so 4 for complex64 and 1 for everything up to a byte.
func (d DType) Align() int {
	if d >= numDTypes {
		return 1
	}
	return int(dtypes[d].width)
}

// Bytes returns how many bytes n elements take, packed without gaps and rounded up to a
// whole byte. It returns false for Unknown, a negative n, and a result beyond int64.
func (d DType) Bytes(n int64) (size int64, ok bool) {
	b := int64(d.Bits())
	if b == 0 {
		return 0, false
	}
	if b%8 == 0 {
		return align.Mul(n, b/8)
	}
	// Sub-byte types: whole bytes first, so that n*b cannot overflow early.
	whole, ok := align.Mul(n/8, b)
	if !ok || n < 0 {
		return 0, false
	}
	return align.Add(whole, (n%8*b+7)/8)
}

// IsFloat reports a real floating-point type of any width.
func (d DType) IsFloat() bool { return d < numDTypes && dtypes[d].kind == kindFloat }

// IsInt reports a signed or unsigned integer that is not quantised.
func (d DType) IsInt() bool {
	return d < numDTypes && (dtypes[d].kind == kindInt || dtypes[d].kind == kindUint)
}

// IsComplex reports complex32, complex64 and complex128.
func (d DType) IsComplex() bool { return d < numDTypes && dtypes[d].kind == kindComplex }

// ParseDType reads a name as [DType.String] writes it, or the name of the
// constant in any case ("bf16", "F8E5M2"). The error is ErrDType.
func ParseDType(s string) (DType, error) {
	for d := Unknown + 1; d < numDTypes; d++ {
		if s == dtypes[d].name || strings.EqualFold(s, dtypes[d].short) {
			return d, nil
		}
	}
	return Unknown, fmt.Errorf("%w: no dtype is named %s", ErrDType, naming.Quote(s))
}

// unknownText stands for Unknown in JSON: no dtype has that name.
const unknownText = "unknown"

// MarshalText writes the name, "unknown" for Unknown. Values that are not constants
// fail.
func (d DType) MarshalText() ([]byte, error) {
	if d == Unknown {
		return []byte(unknownText), nil
	}
	if !d.Known() {
		return nil, fmt.Errorf("%w: %v has no name", ErrDType, d)
	}
	return []byte(dtypes[d].name), nil
}

// UnmarshalText accepts what MarshalText writes and what [ParseDType] accepts.
func (d *DType) UnmarshalText(text []byte) error {
	if string(text) == unknownText {
		*d = Unknown
		return nil
	}
	v, err := ParseDType(string(text))
	if err == nil {
		*d = v
	}
	return err
}
