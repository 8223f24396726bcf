package pte

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// cves are the published vulnerabilities of ExecuTorch that a program reaches, each
// with a file that shows it. The runtime that they are compared with has the fixes.
var cves = []struct {
	name string
	base string
	make func(c crafted)
	want error
}{
	{"CVE-2025-30404 planned memory whose sizes wrap", "lean", func(c crafted) {
		setI64s(c.plan(), ptefb.SlotExecutionPlanNonConstBufferSizes, 0, math.MaxInt64,
			math.MaxInt64)
	}, tensor.ErrMalformed},
	{"CVE-2025-54952 a list of values whose bytes wrap", "lean", func(c crafted) {
		setI64s(c.plan(), ptefb.SlotExecutionPlanNonConstBufferSizes, 0, -8)
	}, tensor.ErrMalformed},
	{"CVE-2025-30405 offset and size of a planned tensor wrap", "lean", func(c crafted) {
		a := c.of(3).Child(ptefb.SlotTensorAllocationInfo)
		a.SetScalar(ptefb.SlotAllocationDetailsMemoryOffsetLow, 4, math.MaxUint32)
		a.SetScalar(ptefb.SlotAllocationDetailsMemoryOffsetHigh, 4, math.MaxUint32)
	}, tensor.ErrMalformed},
	{"CVE-2025-54951 more dimensions than the runtime has room for", "lean", func(c crafted) {
		dims := make([]byte, 100)
		for i := range dims {
			dims[i] = byte(i)
		}
		setI32s(c.of(0), ptefb.SlotTensorSizes, slices.Repeat([]int32{1}, 100)...)
		c.of(0).SetBytes(ptefb.SlotTensorDimOrder, dims, 1)
	}, tensor.ErrMalformed},
	{"CVE-2025-54949 et_copy_index beyond its destination", "export-1.5.1-map.pte",
		func(c crafted) {
			for i, op := range c.plan().Children(ptefb.SlotExecutionPlanOperators) {
				if string(op.Bytes(ptefb.SlotOperatorName)) != "executorch_prim::et_copy_index" {
					continue
				}
				for _, ins := range c.chain().Children(ptefb.SlotChainInstructions) {
					if call := ins.Child(ptefb.SlotInstructionInstrArgs); ins.Scalar(
						ptefb.SlotInstructionInstrArgsType, 0) == uint64(OpKernelCall) &&
						call.Scalar(ptefb.SlotKernelCallOpIndex, 0) == uint64(i) {
						c.of(int(u32s(call.Bytes(ptefb.SlotKernelCallArgs),
							2))).SetScalar(ptefb.SlotIntIntVal, 8, 1000)
					}
				}
			}
		}, tensor.ErrMalformed},
	{"CVE-2025-54950 a call that reaches outside of the values", "lean", func(c crafted) {
		setI32s(c.call(0), ptefb.SlotKernelCallArgs, 0, 1, 2, 3, math.MaxInt32)
	}, tensor.ErrMalformed},
	{"CVE-2025-30402 a list that is made before its tensors", "lean", func(c crafted) {
		setI32s(c.of(6), ptefb.SlotTensorListItems, slices.Repeat([]int32{15}, 1000)...)
	}, tensor.ErrMalformed},
	{"TOB-EXECUTORCH-9 optional tables used without looking", "lean", func(c crafted) {
		c.of(1).Remove(ptefb.SlotTensorSizes)
	}, tensor.ErrMalformed},
	{"no number: a constant's end wraps", "lean", func(c crafted) {
		c.tree.Child(ptefb.SlotProgramConstantSegment).SetVector(
			ptefb.SlotSubsegmentOffsetsOffsets, vector([]uint64{0, math.MaxUint64 - 7, 32, 48}), 8)
	}, tensor.ErrMalformed},
	{"no number: elements times width wraps", "lean", func(c crafted) {
		setI32s(c.of(1), ptefb.SlotTensorSizes, 1<<30, 1<<30, 8)
		c.of(1).SetBytes(ptefb.SlotTensorDimOrder, []byte{0, 1, 2}, 1)
	}, tensor.ErrMalformed},
	{"no number: sizes ask for more than the stored bytes", "lean", func(c crafted) {
		setI32s(c.of(1), ptefb.SlotTensorSizes, 2, 1000)
	}, tensor.ErrMalformed},
	{"no number: sizes and dim_order of different length", "lean", func(c crafted) {
		c.of(1).SetBytes(ptefb.SlotTensorDimOrder, []byte{0, 1, 2, 3}, 1)
	}, tensor.ErrMalformed},
	{"no number: inline data used without looking", "export-1.5.1-xnnpack-inline.pte",
		func(c crafted) {
			c.tree.SetChildren(ptefb.SlotProgramBackendDelegateData, []*fb.Node{new(fb.Node)})
		}, tensor.ErrMalformed},
}

func TestFilesOfKnownCVEsAreRefused(t *testing.T) {
	for _, v := range cves {
		t.Run(v.name, func(t *testing.T) {
			b := craft(t, base(t, v.base), v.make)
			r, err := OpenBytes(b, nil)
			if err != nil {
				t.Fatal(err) // it is shown nevertheless
			}
			if _, err := r.Verify(t.Context(), nil); !errors.Is(err, v.want) {
				t.Errorf("Verify: %v, want %v", err, v.want)
			}
			walkAll(t, r)
			writeAll(t, r)
		})
	}
}

// TestRuntimeRefusesProgramsOfCVEs records what today's runtime does with these files:
// none of them runs.
func TestRuntimeRefusesProgramsOfCVEs(t *testing.T) {
	run := etrun(t)
	for _, v := range cves {
		t.Run(v.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "p.pte")
			if err := os.WriteFile(file, craft(t, base(t, v.base), v.make), 0o666); err != nil {
				t.Fatal(err)
			}
			err := exec.Command(run, "run", file).Run()
			if err == nil {
				t.Error("the runtime runs it")
			}
			t.Logf("the runtime: %v", err)
		})
	}
}
