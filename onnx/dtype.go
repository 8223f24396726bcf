package onnx

import (
	"strconv"

	"github.com/tensorfile/tensorfile/tensor"
)

// The numbers of the fields of a TensorProto that have elements.
const (
	floatData  = 4
	int32Data  = 5
	stringData = 6
	int64Data  = 7
	rawData    = 9
	doubleData = 10
	uint64Data = 11
)

var fieldNames = [...]string{floatData: "float_data", int32Data: "int32_data",
	stringData: "string_data", int64Data: "int64_data", rawData: "raw_data",
	doubleData: "double_data", uint64Data: "uint64_data"}

const stringType = 8 // of TensorProto.DataType

// dataTypes is TensorProto.DataType by number.
var dataTypes = [...]struct {
	dtype   tensor.DType
	field   uint32 // the typed field for its elements
	inEntry int64  // elements in an entry of the typed field
	entries int64  // entries for an element
}{
	1:          {tensor.F32, floatData, 1, 1},
	2:          {tensor.U8, int32Data, 1, 1},
	3:          {tensor.I8, int32Data, 1, 1},
	4:          {tensor.U16, int32Data, 1, 1},
	5:          {tensor.I16, int32Data, 1, 1},
	6:          {tensor.I32, int32Data, 1, 1},
	7:          {tensor.I64, int64Data, 1, 1},
	stringType: {tensor.Unknown, stringData, 1, 1},
	9:          {tensor.Bool, int32Data, 1, 1},
	10:         {tensor.F16, int32Data, 1, 1},
	11:         {tensor.F64, doubleData, 1, 1},
	12:         {tensor.U32, uint64Data, 1, 1},
	13:         {tensor.U64, uint64Data, 1, 1},
	14:         {tensor.C64, floatData, 1, 2},
	15:         {tensor.C128, doubleData, 1, 2},
	16:         {tensor.BF16, int32Data, 1, 1},
	17:         {tensor.F8E4M3FN, int32Data, 1, 1},
	18:         {tensor.F8E4M3FNUZ, int32Data, 1, 1},
	19:         {tensor.F8E5M2, int32Data, 1, 1},
	20:         {tensor.F8E5M2FNUZ, int32Data, 1, 1},
	21:         {tensor.U4, int32Data, 2, 1},
	22:         {tensor.I4, int32Data, 2, 1},
	23:         {tensor.F4E2M1FN, int32Data, 2, 1},
	24:         {tensor.F8E8M0FNU, int32Data, 1, 1},
	25:         {tensor.U2, int32Data, 4, 1},
	26:         {tensor.I2, int32Data, 4, 1},
	27:         {tensor.F6E2M3FN, int32Data, 1, 1},
	28:         {tensor.F6E3M2FN, int32Data, 1, 1},
}

// known reports whether a DataType is known, string included.
func known(dataType int) bool { return dataType > 0 && dataType < len(dataTypes) }

// dtypeOf returns the dtype of a DataType, Unknown for string and unknown numbers.
func dtypeOf(dataType int) tensor.DType {
	if !known(dataType) {
		return tensor.Unknown
	}
	return dataTypes[dataType].dtype
}

// typeName returns the name of a DataType, or its number if it is not known.
func typeName(dataType int) string {
	switch {
	case dataType == stringType:
		return "string"
	case known(dataType):
		return dtypeOf(dataType).String()
	}
	return strconv.Itoa(dataType)
}

// entriesOf returns how many entries of a typed field n elements take.
func entriesOf(dataType int, n int64) int64 {
	t := &dataTypes[dataType]
	whole := n / t.inEntry
	if n%t.inEntry != 0 {
		whole++
	}
	return whole * t.entries // no overflow: the size in bytes fits an int64
}
