package core

import (
	"github.com/tensorfile/tensorfile/tensor"
)

// storageTypes are the dtypes that are stored as they are: short from 1.1 on, long
// before. Version 2 has all but bool.
var storageTypes = [...]struct {
	dtype       tensor.DType
	short, long string
}{
	{tensor.BF16, "bf16", "bfloat16"},
	{tensor.F16, "f16", "float16"},
	{tensor.F32, "f32", "float32"},
	{tensor.F64, "f64", "float64"},
	{tensor.U8, "u8", "uint8"},
	{tensor.I8, "i8", "int8"},
	{tensor.I64, "i64", "int64"},
	{tensor.I32, "i32", "int32"},
	{tensor.I16, "i16", "int16"},
	{tensor.U64, "u64", "uint64"},
	{tensor.U32, "u32", "uint32"},
	{tensor.U16, "u16", "uint16"},
	{tensor.Bool, "bool", "bool"},
}

// A Logical type is stored as another.
type Logical struct {
	Name    string
	Storage tensor.DType
	DType   tensor.DType
	latest  bool // in version 2 only
}

var logicalTypes = [...]Logical{
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

// StorageType returns the storage type of that word; Unknown where there is none.
func StorageType(word string, short bool) tensor.DType {
	for i := range storageTypes {
		if s := &storageTypes[i]; short && s.short == word || !short && s.long == word {
			return s.dtype
		}
	}
	return tensor.Unknown
}

// StorageWord returns the word of a storage type; "" where there is none.
func StorageWord(d tensor.DType, short bool) string {
	for _, s := range storageTypes {
		if s.dtype == d && short {
			return s.short
		} else if s.dtype == d {
			return s.long
		}
	}
	return ""
}

// LogicalNamed returns the logical type of that name, of version 2 or of 1.2. Its Name is
// empty where there is none.
func LogicalNamed(name string, latest bool) Logical {
	for _, l := range logicalTypes {
		if l.Name == name && (latest || !l.latest) {
			return l
		}
	}
	return Logical{}
}

// LogicalOf returns the logical type that a dtype is; where it is none, it is stored as
// itself.
func LogicalOf(d tensor.DType, latest bool) Logical {
	for _, l := range logicalTypes {
		if l.DType == d && (latest || !l.latest) {
			return l
		}
	}
	return Logical{Storage: d, DType: d}
}
