package pte

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// The version that ExecuTorch's bundles have.
const bundleVersion = 2

// Write writes a .bpte: the bundle around program, which is a whole .pte. Test cases must
// fit their methods: as many inputs and outputs, of their kinds, and tensors of their
// element type. The runtime runs them as the reference does, by executing the method on
// the inputs and comparing what it gives.
//
// A Bundle that a Reader answered can be written around another program than its own,
// such as one that an [Edit] has changed; the Reader must then stay open. A bundle is one
// flatbuffer of less than 2 GiB, and made in memory.
func (b *Bundle) Write(w io.Writer, program []byte) error {
	buf, err := b.encode(program)
	if err != nil {
		return err
	}
	return (&output{head: buf}).writeTo(context.Background(), w)
}

// WriteFile is Write into a file, which appears whole or not at all.
func (b *Bundle) WriteFile(name string, program []byte) error {
	buf, err := b.encode(program)
	if err != nil {
		return err
	}
	return (&output{head: buf}).writeFile(context.Background(), name)
}

func (b *Bundle) encode(program []byte) ([]byte, error) {
	r, err := OpenBytes(program, nil)
	if err != nil {
		return nil, err
	}
	if r.bundle != nil {
		return nil, fmt.Errorf("pte: %w: a bundle inside a bundle", tensor.ErrMalformed)
	}
	e := encoder{}
	e.fb.Grow(int64(len(program)))
	suites := make([]fb.Offset, len(b.Suites))
	for i, s := range b.Suites {
		m, ok := r.Program().Method(s.Method)
		if !ok {
			return nil, fmt.Errorf("pte: %w: test cases for %s, but the program has no such method", tensor.ErrMalformed, quote.Name(s.Method))
		}
		cases := make([]fb.Offset, len(s.Cases))
		for k, c := range s.Cases {
			at := func(what string) string {
				return fmt.Sprintf("%s of test case %d of %s", what, k, quote.Name(s.Method))
			}
			out, err := e.bundled(c.Outputs, m.Outputs(), at("outputs"))
			if err != nil {
				return nil, err
			}
			in, err := e.bundled(c.Inputs, m.Inputs(), at("inputs"))
			if err != nil {
				return nil, err
			}
			e.fb.Begin()
			e.fb.Ref(ptefb.SlotBundledMethodTestCaseExpectedOutputs, out)
			e.fb.Ref(ptefb.SlotBundledMethodTestCaseInputs, in)
			cases[k] = e.fb.End()
		}
		list, name := e.fb.Offsets(cases), e.fb.String(s.Method)
		e.fb.Begin()
		e.fb.Ref(ptefb.SlotBundledMethodTestSuiteTestCases, list)
		e.fb.Ref(ptefb.SlotBundledMethodTestSuiteMethodName, name)
		suites[i] = e.fb.End()
	}
	// Whatever the program has aligned in its file is so in the bundle too.
	align := max(32, min(powerOfTwo(r.header.SegmentBase), 4096))
	p := e.fb.Scalars(program, 1, int(align))
	list := e.fb.Offsets(suites)
	version := b.Version
	if version == 0 {
		version = bundleVersion
	}
	e.fb.Begin()
	e.fb.Ref(ptefb.SlotBundledProgramProgram, p)
	e.fb.Ref(ptefb.SlotBundledProgramMethodTestSuites, list)
	e.fb.Scalar(ptefb.SlotBundledProgramVersion, 4, uint64(version), 0)
	buf, err := e.fb.Finish(e.fb.End(), "BP08")
	if err != nil {
		return nil, fmt.Errorf("pte: %w: %w", tensor.ErrLimit, err)
	}
	return buf, nil
}

// bundled writes the inputs or outputs of a test case, of a method that has these.
func (e *encoder) bundled(values []any, of []Value, where string) (fb.Offset, error) {
	if len(values) != len(of) {
		return 0, fmt.Errorf("pte: %w: %d %s, and the method has %d", tensor.ErrMalformed,
			len(values), where, len(of))
	}
	all := make([]fb.Offset, len(values))
	for i, v := range values {
		tag, x, err := e.bundledValue(v, of[i])
		if err != nil {
			return 0, fmt.Errorf("pte: number %d of the %s: %w", i, where, err)
		}
		e.fb.Begin()
		e.fb.Ref(ptefb.SlotBundledValueVal, x)
		e.fb.Scalar(ptefb.SlotBundledValueValType, 1, uint64(tag), 0)
		all[i] = e.fb.End()
	}
	return e.fb.Offsets(all), nil
}

func (e *encoder) bundledValue(v any, of Value) (ptefb.BundledValueUnion, fb.Offset, error) {
	scalar := func(slot, size int, bits uint64) fb.Offset {
		e.fb.Begin()
		e.fb.Scalar(slot, size, bits, 0)
		return e.fb.End()
	}
	wrong := func() error {
		return fmt.Errorf("%w: %T for a %v", tensor.ErrMalformed, v, of)
	}
	kind := of.Kind()
	switch v := v.(type) {
	case int:
		return e.bundledValue(int64(v), of)
	case int64:
		if kind == KindInt {
			return ptefb.BundledValueUnionBundledInt, scalar(ptefb.SlotBundledIntIntVal, 8,
				uint64(v)), nil
		}
	case bool:
		if bits := uint64(0); kind == KindBool {
			if v {
				bits = 1
			}
			return ptefb.BundledValueUnionBundledBool, scalar(ptefb.SlotBundledBoolBoolVal, 1,
				bits), nil
		}
	case float64:
		if kind == KindDouble {
			return ptefb.BundledValueUnionBundledDouble, scalar(ptefb.SlotBundledDoubleDoubleVal,
				8, math.Float64bits(v)), nil
		}
	case *tensor.Tensor:
		info, ok := of.Tensor()
		if !ok || v == nil {
			break
		}
		if err := v.Check(); err != nil {
			return 0, 0, err
		}
		if !v.Dense() || v.DType != info.DType || len(v.Shape) != len(info.Shape) {
			return 0, 0, fmt.Errorf("%w: %v%v for a %v", tensor.ErrMalformed, v.DType, v.Shape, of)
		}
		var data bytes.Buffer // not ReadAll: the stream checks a digest
		if _, err := v.Data.WriteTo(&data); err != nil {
			return 0, 0, err
		}
		sizes, order := make([]int32, len(v.Shape)), make([]byte, len(v.Shape))
		for d, n := range v.Shape {
			if n > math.MaxInt32 {
				return 0, 0, fmt.Errorf("%w: shape %v", tensor.ErrLimit, v.Shape)
			}
			sizes[d], order[d] = int32(n), byte(d)
			if v.Order != nil {
				order[d] = byte(v.Order[d])
			}
		}
		d, o, s := e.fb.Scalars(data.Bytes(), 1, 16), e.fb.Scalars(order, 1, 1), e.u32s(sizes)
		e.fb.Begin()
		e.fb.Ref(ptefb.SlotBundledTensorDimOrder, o)
		e.fb.Ref(ptefb.SlotBundledTensorData, d)
		e.fb.Ref(ptefb.SlotBundledTensorSizes, s)
		e.fb.Scalar(ptefb.SlotBundledTensorScalarType, 1, uint64(uint8(info.ScalarType)), 0)
		return ptefb.BundledValueUnionBundledTensor, e.fb.End(), nil
	}
	return 0, 0, wrong()
}
