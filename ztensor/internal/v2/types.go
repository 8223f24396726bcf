package v2

import (
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// storageType2 is one of the twelve storage types; Unknown for any other word.
func storageTypeOf(word []byte) tensor.DType {
	if d := core.StorageType(string(word), true); d != tensor.Bool {
		return d
	}
	return tensor.Unknown
}

// A logical2 is a logical type and how it is stored.
type logicalType struct {
	name    string
	storage tensor.DType
	dtype   tensor.DType
}

var logicalTypes = [...]logicalType{
	{"bool", tensor.U8, tensor.Bool},
	{"f8_e4m3fn", tensor.U8, tensor.F8E4M3FN},
	{"f8_e5m2", tensor.U8, tensor.F8E5M2},
	{"f8_e4m3fnuz", tensor.U8, tensor.F8E4M3FNUZ},
	{"f8_e5m2fnuz", tensor.U8, tensor.F8E5M2FNUZ},
	{"f8_e8m0", tensor.U8, tensor.F8E8M0FNU},
	{"f4_e2m1", tensor.U8, tensor.F4E2M1FN},
	{"complex64", tensor.F32, tensor.C64},
	{"complex128", tensor.F64, tensor.C128},
}

// logicalType2 is the registered type of that name; the zero value where there
// is none.
func logicalTypeOf(name []byte) logicalType {
	for _, l := range logicalTypes {
		if l.name == string(name) {
			return l
		}
	}
	return logicalType{}
}

// typeWords is how version 2 spells d: its storage type, and its logical type
// if it needs one; "" where it has none.
func typeWords(d tensor.DType) (dtype, logical string) {
	for _, l := range logicalTypes {
		if l.dtype == d {
			d, logical = l.storage, l.name
		}
	}
	for _, word := range []string{"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"} {
		if core.StorageType(word, true) == d {
			return word, logical
		}
	}
	return "", ""
}
