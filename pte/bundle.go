package pte

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Bundle is the test cases of a .bpte: inputs for the methods of its program, and the
// expected outputs.
type Bundle struct {
	Version uint32
	Suites  []TestSuite
}

// String returns the number of test cases, such as "2 test cases".
func (b *Bundle) String() string {
	n := 0
	for _, s := range b.Suites {
		n += len(s.Cases)
	}
	if n == 1 {
		return "1 test case"
	}
	return fmt.Sprintf("%d test cases", n)
}

// A TestSuite is the test cases of one method.
type TestSuite struct {
	Method string
	Cases  []TestCase
}

// A TestCase is one call of a method.
type TestCase struct {
	Inputs  []any // int64, bool, float64, *tensor.Tensor; nil for an unknown kind
	Outputs []any // expected
}

// unwrap reads a .bpte: one flatbuffer, in which the program is a vector of bytes.
func (r *Reader) unwrap() error {
	if r.end > r.in.Options.Limits.MaxMetadata {
		return errs.At(0, "", tensor.ErrLimit,
			"a bundle of %d bytes is above the limit of %d", r.end,
			r.in.Options.Limits.MaxMetadata)
	}
	buf, err := r.in.Metadata(0, r.end)
	if err != nil {
		return errs.Wrap(-1, "", err)
	}
	if _, err := verify(buf, ptefb.TableBundledProgram, 0); err != nil {
		return err
	}
	root := ptefb.GetRootAsBundledProgram(buf, 0)
	program, ok := r.inline(root.Table(), ptefb.SlotBundledProgramProgram)
	if !ok {
		return errs.Malformed(int64(root.Table().Pos), "program", "a bundle without a program")
	}
	r.bundle = &Bundle{Version: root.Version()}
	for i, t := range fb.Each(root.MethodTestSuitesLength(), root.MethodTestSuites) {
		suite := TestSuite{Method: string(t.MethodName())}
		for k, c := range fb.Each(t.TestCasesLength(), t.TestCases) {
			field := fmt.Sprintf("method_test_suites[%d].test_cases[%d]", i, k)
			suite.Cases = append(suite.Cases, TestCase{
				Inputs: r.bundledValues(c.InputsLength(), c.Inputs, field+".inputs"),
				Outputs: r.bundledValues(c.ExpectedOutputsLength(), c.ExpectedOutputs,
					field+".expected_outputs"),
			})
		}
		r.bundle.Suites = append(r.bundle.Suites, suite)
	}
	r.at, r.end = program.off, program.off+program.size
	return nil
}

func (r *Reader) bundledValues(n int, at func(*ptefb.BundledValue, int) bool, field string) []any {
	var all []any
	for i, v := range fb.Each(n, at) {
		var x any
		var t flatbuffers.Table
		if v.Val(&t) {
			switch v.ValType() { // a value of another kind was not verified
			case ptefb.BundledValueUnionBundledTensor:
				x = r.bundledTensor(t, field+"["+strconv.Itoa(i)+"]")
			case ptefb.BundledValueUnionBundledInt:
				x = t.GetInt64Slot(ptefb.SlotBundledIntIntVal, 0)
			case ptefb.BundledValueUnionBundledBool:
				x = boolField(t, ptefb.SlotBundledBoolBoolVal)
			case ptefb.BundledValueUnionBundledDouble:
				x = t.GetFloat64Slot(ptefb.SlotBundledDoubleDoubleVal, 0)
			}
		}
		all = append(all, x)
	}
	return all
}

func (r *Reader) bundledTensor(table flatbuffers.Table, field string) *tensor.Tensor {
	var t ptefb.BundledTensor
	t.Init(table.Bytes, table.Pos)
	out := &tensor.Tensor{Name: field, DType: executorch.DType(int8(t.ScalarType()))}
	out.Shape, out.Order, _ = shapeOf(t.SizesLength(), t.Sizes, t.DimOrderBytes())
	data, ok := r.inline(table, ptefb.SlotBundledTensorData)
	if !ok {
		data = extent{}
	}
	out.Data = r.blob(data.off, data.size)
	return out
}

// bundleVersion is the version that ExecuTorch writes into bundles.
const bundleVersion = 2

// Write writes a .bpte: the test cases and program, which is a whole .pte. It fails with
// tensor.ErrMalformed if a test case does not fit its method, in the number and kinds of
// its inputs and outputs or in the dtype and rank of a tensor. If a Reader returned the
// Bundle, it must still be open. The file is one flatbuffer, which is made in memory;
// Write fails with tensor.ErrLimit if it has 2 GiB or more.
func (b *Bundle) Write(ctx context.Context, w io.Writer, program []byte) error {
	assemble := func(WriterOptions) (*output, error) { return b.wrap(program) }
	return format.Encode(ctx, w, new(WriterOptions).encoding(assemble))
}

// wrap makes a .bpte of the test cases and program.
func (b *Bundle) wrap(program []byte) (*output, error) {
	head, err := b.encode(program)
	return &output{head: head, size: int64(len(head))}, err
}

func (b *Bundle) encode(program []byte) ([]byte, error) {
	r, err := OpenBytes(program, nil)
	if err != nil {
		return nil, err
	}
	if r.bundle != nil {
		return nil, errs.New(tensor.ErrMalformed, "a bundle inside a bundle")
	}
	w := new(fb.Builder)
	w.Grow(int64(len(program)))
	suites := make([]fb.Offset, len(b.Suites))
	for i, s := range b.Suites {
		if suites[i], err = s.encode(w, r); err != nil {
			return nil, err
		}
	}
	// The program is aligned so that its segments keep their alignment in the bundle.
	align := max(32, powerOfTwo(r.header.SegmentBase, 4096))
	p := w.Scalars(program, 1, int(align))
	list := w.Offsets(suites)
	version := cmp.Or(b.Version, bundleVersion)
	buf, err := w.Finish(w.Table(fb.Ref(ptefb.SlotBundledProgramProgram, p),
		fb.Ref(ptefb.SlotBundledProgramMethodTestSuites, list),
		fb.Number(ptefb.SlotBundledProgramVersion, 4, uint64(version))), "BP08")
	return buf, tooLarge(err)
}

func (s *TestSuite) encode(w *fb.Builder, r *Reader) (fb.Offset, error) {
	m, ok := r.Program().Method(s.Method)
	if !ok {
		return 0, errs.New(tensor.ErrMalformed, "test cases for %s, which is no method",
			naming.Quote(s.Method))
	}
	cases := make([]fb.Offset, len(s.Cases))
	for k, c := range s.Cases {
		out, err := encodeValues(w, "outputs", c.Outputs, m.Outputs())
		var in fb.Offset
		if err == nil {
			in, err = encodeValues(w, "inputs", c.Inputs, m.Inputs())
		}
		if err != nil {
			return 0, errs.Wrap(-1,
				fmt.Sprintf("test case %d of %s", k, naming.Quote(s.Method)), err)
		}
		cases[k] = w.Table(fb.Ref(ptefb.SlotBundledMethodTestCaseExpectedOutputs, out),
			fb.Ref(ptefb.SlotBundledMethodTestCaseInputs, in))
	}
	list := w.Offsets(cases)
	name := w.String(s.Method)
	return w.Table(fb.Ref(ptefb.SlotBundledMethodTestSuiteTestCases, list),
		fb.Ref(ptefb.SlotBundledMethodTestSuiteMethodName, name)), nil
}

// encodeValues writes the inputs or outputs of a test case. of are the inputs or outputs
// of its method.
func encodeValues(w *fb.Builder, what string, values []any, of []Value) (fb.Offset, error) {
	if len(values) != len(of) {
		return 0, fmt.Errorf("%w: %d %s, and the method has %d", tensor.ErrMalformed,
			len(values), what, len(of))
	}
	all := make([]fb.Offset, len(values))
	for i, v := range values {
		tag, x, err := encodeValue(w, v, of[i])
		if err != nil {
			return 0, fmt.Errorf("%s[%d]: %w", what, i, err)
		}
		all[i] = w.Table(fb.Ref(ptefb.SlotBundledValueVal, x),
			fb.Number(ptefb.SlotBundledValueValType, 1, uint64(tag)))
	}
	return w.Offsets(all), nil
}

func encodeValue(w *fb.Builder, v any, of Value) (tag ptefb.BundledValueUnion, at fb.Offset,
	err error) {
	kind, field := kindNone, fb.Value{}
	switch v := v.(type) {
	case int:
		return encodeValue(w, int64(v), of)
	case int64:
		kind, tag = kindInt, ptefb.BundledValueUnionBundledInt
		field = fb.Number(ptefb.SlotBundledIntIntVal, 8, uint64(v))
	case bool:
		kind, tag = kindBool, ptefb.BundledValueUnionBundledBool
		field = fb.Number(ptefb.SlotBundledBoolBoolVal, 1, bit(v))
	case float64:
		kind, tag = kindDouble, ptefb.BundledValueUnionBundledDouble
		field = fb.Number(ptefb.SlotBundledDoubleDoubleVal, 8, math.Float64bits(v))
	case *tensor.Tensor:
		if info, ok := of.Tensor(); ok && v != nil {
			at, err = encodeTensor(w, v, info)
			return ptefb.BundledValueUnionBundledTensor, at, err
		}
	}
	if kind == kindNone || kind != of.Kind() {
		return 0, 0, fmt.Errorf("%w: %T for a %v", tensor.ErrMalformed, v, of)
	}
	return tag, w.Table(field), nil
}

func encodeTensor(w *fb.Builder, t *tensor.Tensor, of TensorInfo) (fb.Offset, error) {
	if err := t.Check(); err != nil {
		return 0, err
	}
	if !t.Dense() || t.DType != of.DType || len(t.Shape) != len(of.Shape) {
		return 0, fmt.Errorf("%w: %v%v for a %v", tensor.ErrMalformed, t.DType, t.Shape, of)
	}
	if len(t.Shape) > 0 && slices.Max(t.Shape) > math.MaxInt32 {
		return 0, fmt.Errorf("%w: shape %v", tensor.ErrLimit, t.Shape)
	}
	var data bytes.Buffer // not ReadAll: the stream checks a digest
	if _, err := t.Data.WriteTo(&data); err != nil {
		return 0, err
	}
	sizes, dims := sizesOf(t.Shape, t.Order)
	dataAt, dimsAt := w.Scalars(data.Bytes(), 1, 16), w.Scalars(dims, 1, 1)
	sizesAt := w.Scalars(vector(sizes), 4, 4)
	return w.Table(fb.Ref(ptefb.SlotBundledTensorDimOrder, dimsAt),
		fb.Ref(ptefb.SlotBundledTensorData, dataAt),
		fb.Ref(ptefb.SlotBundledTensorSizes, sizesAt),
		fb.Number(ptefb.SlotBundledTensorScalarType, 1, uint64(uint8(of.ScalarType)))), nil
}
