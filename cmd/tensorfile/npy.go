package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// numpyType is how NumPy spells an element type, and as says which unsigned
// integer stands in for one that NumPy does not have; its bits stay as they are.
func numpyType(d tensor.DType) (descr, as string, ok bool) {
	switch d {
	case tensor.Bool:
		return "|b1", "", true
	case tensor.I8:
		return "|i1", "", true
	case tensor.I16:
		return "<i2", "", true
	case tensor.I32:
		return "<i4", "", true
	case tensor.I64:
		return "<i8", "", true
	case tensor.U8:
		return "|u1", "", true
	case tensor.U16:
		return "<u2", "", true
	case tensor.U32:
		return "<u4", "", true
	case tensor.U64:
		return "<u8", "", true
	case tensor.F16:
		return "<f2", "", true
	case tensor.F32:
		return "<f4", "", true
	case tensor.F64:
		return "<f8", "", true
	case tensor.C64:
		return "<c8", "", true
	case tensor.C128:
		return "<c16", "", true
	case tensor.QI8:
		return "|i1", "int8", true
	case tensor.QI32:
		return "<i4", "int32", true
	case tensor.C32:
		return "<u4", "uint32", true
	}
	switch d.Bits() {
	case 8:
		return "|u1", "uint8", true
	case 16:
		return "<u2", "uint16", true
	}
	return "", "", false
}

// npyHeader is the start of a version 1.0 file, padded so that the data is
// aligned to 64 bytes. Shapes too long for it need version 2.0.
func npyHeader(descr string, fortran bool, shape tensor.Shape) []byte {
	dims := make([]string, len(shape))
	for i, d := range shape {
		dims[i] = fmt.Sprint(d)
	}
	list := strings.Join(dims, ", ")
	if len(shape) == 1 {
		list += ","
	}
	order := "False"
	if fortran {
		order = "True"
	}
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }", descr, order, list)
	version, lengthBytes := byte(1), 2
	if len(dict) > 60000 {
		version, lengthBytes = 2, 4
	}
	start := 8 + lengthBytes
	pad := 63 - (start+len(dict))%64
	var b bytes.Buffer
	b.WriteString("\x93NUMPY")
	b.Write([]byte{version, 0})
	length := make([]byte, 4)
	le.PutUint32(length, uint32(len(dict)+pad+1))
	b.Write(length[:lengthBytes])
	b.WriteString(dict)
	b.WriteString(strings.Repeat(" ", pad))
	b.WriteByte('\n')
	return b.Bytes()
}

// writeNPY writes the chosen elements as a NumPy file. A whole tensor in
// column-major order stays so.
func (c *chosen) writeNPY(ctx context.Context, w io.Writer) error {
	descr, _, ok := numpyType(c.t.DType)
	if !ok {
		return fmt.Errorf("%w: NumPy has no place for %v", tensor.ErrDType, c.t.DType)
	}
	rank := len(c.t.Shape)
	column := !c.t.Order.RowMajor() && slices.Equal(c.t.Order, tensor.ColumnMajor(rank))
	asStored := !c.sliced && (column || c.t.Order.RowMajor())
	if _, err := w.Write(npyHeader(descr, asStored && column, c.region.shape())); err != nil {
		return err
	}
	if !asStored {
		return c.writeElements(ctx, w)
	}
	return copyBlob(ctx, w, c.t.Data)
}
