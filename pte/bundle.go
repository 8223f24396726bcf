package pte

import (
	"fmt"
	"math"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Bundle is what a .bpte has around its program: inputs for its methods, and the outputs that they should give.
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

const (
	slotBundleVersion = 4
	slotBundleSuites  = 6
	slotBundleProgram = 8

	slotSuiteMethod = 4
	slotSuiteCases  = 6

	slotCaseInputs  = 4
	slotCaseOutputs = 6

	slotBundledScalarType = 4
	slotBundledSizes      = 6
	slotBundledData       = 8
	slotBundledDimOrder   = 10
)

// unwrap reads a .bpte: the whole file is one flatbuffer, in which the program is a vector of bytes.
func (r *Reader) unwrap() error {
	if r.size > r.limits.MaxMetadata {
		return fail(tensor.ErrLimit, 0, "", "a bundle of %d bytes is above the limit of %d", r.size, r.limits.MaxMetadata)
	}
	buf, err := r.src.Metadata(0, r.size)
	if err != nil {
		return ioError(err)
	}
	if err := verify(buf, ptefb.TableBundledProgram, 0); err != nil {
		return err
	}
	root := fb.Root(buf)
	program, ok := root.Bytes(slotBundleProgram, 1)
	if !ok {
		return malformed(root.Pos(), "program", "a bundle without a program")
	}
	r.bundle = &Bundle{Version: root.Uint32(slotBundleVersion, 0)}
	suites := root.Objects(slotBundleSuites)
	for i := range suites.Len() {
		t := suites.At(i)
		suite := TestSuite{Method: text(t, slotSuiteMethod)}
		cases := t.Objects(slotSuiteCases)
		for k := range cases.Len() {
			field := fmt.Sprintf("method_test_suites[%d].test_cases[%d]", i, k)
			suite.Cases = append(suite.Cases, TestCase{
				Inputs:  r.bundledValues(cases.At(k).Objects(slotCaseInputs), field+".inputs"),
				Outputs: r.bundledValues(cases.At(k).Objects(slotCaseOutputs), field+".expected_outputs"),
			})
		}
		r.bundle.Suites = append(r.bundle.Suites, suite)
	}
	r.at = root.DataAt(slotBundleProgram)
	r.size = r.at + int64(len(program))
	return nil
}

func (r *Reader) bundledValues(v fb.Objects, field string) []any {
	var all []any
	for i := range v.Len() {
		var x any
		// A value of an unknown kind the verifier has not seen.
		if k := ptefb.BundledValueUnion(v.At(i).Uint8(slotUnionType, 0)); k <= ptefb.BundledValueUnionBundledDouble && v.At(i).Has(slotUnion) {
			switch t := v.At(i).Child(slotUnion); k {
			case ptefb.BundledValueUnionBundledTensor:
				x = r.bundledTensor(t, field+"["+strconv.Itoa(i)+"]")
			case ptefb.BundledValueUnionBundledInt:
				x = int64(t.Uint64(slotItems, 0))
			case ptefb.BundledValueUnionBundledBool:
				x = t.Uint8(slotItems, 0) != 0
			case ptefb.BundledValueUnionBundledDouble:
				x = math.Float64frombits(t.Uint64(slotItems, 0))
			}
		}
		all = append(all, x)
	}
	return all
}

func (r *Reader) bundledTensor(t fb.Object, field string) *tensor.Tensor {
	out := &tensor.Tensor{Name: field, DType: dtypeOf(int8(t.Uint8(slotBundledScalarType, 0)))}
	sizes, _ := t.Bytes(slotBundledSizes, 4)
	dims, _ := t.Bytes(slotBundledDimOrder, 1)
	out.Shape, out.Order = decodeShape(sizes, dims, nil)
	data, _ := t.Bytes(slotBundledData, 1)
	out.Data = r.blob(t.DataAt(slotBundledData), int64(len(data)))
	return out
}
