package core

import (
	"github.com/tensorfile/tensorfile/tensor"
)

// LogicalType is the type of that name over a storage type; Unknown where there
// is none.
func LogicalType(storage tensor.DType, name string) tensor.DType {
	for _, l := range logicalTypes {
		if l.name == name && l.storage == storage {
			return l.dtype
		}
	}
	return tensor.Unknown
}

// logicalTypes are those of 1.2.
var logicalTypes = [...]struct {
	name    string
	storage tensor.DType
	dtype   tensor.DType
}{
	{"f8_e4m3fn", tensor.U8, tensor.F8E4M3FN},
	{"f8_e5m2", tensor.U8, tensor.F8E5M2},
	{"f8_e4m3fnuz", tensor.U8, tensor.F8E4M3FNUZ},
	{"f8_e5m2fnuz", tensor.U8, tensor.F8E5M2FNUZ},
	{"complex64", tensor.F32, tensor.C64},
	{"complex128", tensor.F64, tensor.C128},
}

// StorageType reads a dtype as it is spelled from 1.1 on, or, not short, as
// before.
func StorageType(word string, short bool) tensor.DType {
	if short {
		switch word {
		case "f64":
			return tensor.F64
		case "f32":
			return tensor.F32
		case "f16":
			return tensor.F16
		case "bf16":
			return tensor.BF16
		case "i64":
			return tensor.I64
		case "i32":
			return tensor.I32
		case "i16":
			return tensor.I16
		case "i8":
			return tensor.I8
		case "u64":
			return tensor.U64
		case "u32":
			return tensor.U32
		case "u16":
			return tensor.U16
		case "u8":
			return tensor.U8
		case "bool":
			return tensor.Bool
		}
		return tensor.Unknown
	}
	switch word {
	case "float64":
		return tensor.F64
	case "float32":
		return tensor.F32
	case "float16":
		return tensor.F16
	case "bfloat16":
		return tensor.BF16
	case "int64":
		return tensor.I64
	case "int32":
		return tensor.I32
	case "int16":
		return tensor.I16
	case "int8":
		return tensor.I8
	case "uint64":
		return tensor.U64
	case "uint32":
		return tensor.U32
	case "uint16":
		return tensor.U16
	case "uint8":
		return tensor.U8
	case "bool":
		return tensor.Bool
	}
	return tensor.Unknown
}

// StorageOf is the storage type of d, and its logical type if it needs one.
func StorageOf(d tensor.DType) (storage tensor.DType, logical string) {
	for _, l := range logicalTypes {
		if l.dtype == d {
			return l.storage, l.name
		}
	}
	return d, ""
}
