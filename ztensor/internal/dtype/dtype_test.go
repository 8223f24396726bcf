package dtype

import (
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// Files have words of their own for dtypes, which differ from the names of DType.
func TestWordsOfDTypesAreReadAndWritten(t *testing.T) {
	for _, c := range []struct {
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
		{tensor.F8E5M2, "", ""},
		{tensor.C64, "", ""},
		{tensor.Unknown, "", ""},
	} {
		short, long := StorageName(c.dtype, true), StorageName(c.dtype, false)
		if short != c.short || long != c.long {
			t.Errorf("%v: %q and %q", c.dtype, short, long)
		}
		for _, short := range []bool{true, false} {
			word := StorageName(c.dtype, short)
			if d := StorageNamed(word, short); word != "" && d != c.dtype {
				t.Errorf("%q is %v", word, d)
			}
			if d := StorageNamed(word, !short); word != "bool" && d != tensor.Unknown {
				t.Errorf("%q is %v in the other generation", word, d)
			}
		}
	}
}
