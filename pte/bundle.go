package pte

import (
	"fmt"
	"math"
	"strconv"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Bundle is what a .bpte has around its program: inputs for its methods, and the
// outputs that they should give.
type Bundle struct {
	Version uint32
	Suites  []TestSuite
}

// String counts the test cases, such as "2 test cases".
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
	Inputs  []any // int64, bool, float64, *tensor.Tensor; nil for a kind that is not known
	Outputs []any // expected
}

// unwrap reads a .bpte: the whole file is one flatbuffer, in which the program is a
// vector of bytes.
func (r *Reader) unwrap() error {
	if r.size > r.limits.MaxMetadata {
		return fail(tensor.ErrLimit, 0, "",
			"a bundle of %d bytes is above the limit of %d", r.size, r.limits.MaxMetadata)
	}
	buf, err := r.src.Metadata(0, r.size)
	if err != nil {
		return ioError(err)
	}
	if _, err := verify(buf, ptefb.TableBundledProgram, 0); err != nil {
		return err
	}
	root := ptefb.GetRootAsBundledProgram(buf, 0)
	program, ok := r.inline(root.Table(), ptefb.SlotBundledProgramProgram)
	if !ok {
		return malformed(int64(root.Table().Pos), "program", "a bundle without a program")
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
	r.at, r.size = program.off, program.off+program.size
	return nil
}

func (r *Reader) bundledValues(n int, at func(*ptefb.BundledValue, int) bool, field string) []any {
	var all []any
	for i, v := range fb.Each(n, at) {
		var x any
		var t flatbuffers.Table
		if v.Val(&t) {
			number := func(slot int) int64 { return t.GetInt64Slot(flatbuffers.VOffsetT(slot), 0) }
			switch v.ValType() { // a value of another kind was not verified
			case ptefb.BundledValueUnionBundledTensor:
				x = r.bundledTensor(t, field+"["+strconv.Itoa(i)+"]")
			case ptefb.BundledValueUnionBundledInt:
				x = number(ptefb.SlotBundledIntIntVal)
			case ptefb.BundledValueUnionBundledBool:
				x = boolField(t, ptefb.SlotBundledBoolBoolVal)
			case ptefb.BundledValueUnionBundledDouble:
				x = math.Float64frombits(uint64(number(ptefb.SlotBundledDoubleDoubleVal)))
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
