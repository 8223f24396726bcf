package pte

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Helpers: what ExecuTorch's C++ runtime says of a program. TENSORFILE_ETRUN is its path:
// `interop/tools.sh etrun`.

// etrun is the path of the runtime; the test is skipped where there is none.
func etrun(t testing.TB) string {
	t.Helper()
	name := os.Getenv("TENSORFILE_ETRUN")
	if name == "" {
		t.Skip("TENSORFILE_ETRUN names no runtime: run by interop/pte.sh")
	}
	return name
}

// An answer is what the runtime gave for one output.
type answer struct {
	Tag   string
	DType string
	Shape []int64
	Hex   string
	Value any
}

func (a answer) floats(t testing.TB) []float32 {
	t.Helper()
	b, err := hex.DecodeString(a.Hex)
	if err != nil || a.DType != "float32" {
		t.Fatalf("%+v is no float32: %v", a, err)
	}
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

// runProgram runs a method twice and returns both lists of outputs.
func runProgram(t testing.TB, file, method string, args ...string) (first, second []answer) {
	t.Helper()
	cmd := exec.Command(etrun(t),
		append([]string{"run", file, "-m", method, "-n", "2"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("the runtime does not run %s of %s: %v\n%s%s", method, filepath.Base(file), err,
			&out, &errs)
	}
	var v struct {
		First  []answer `json:"outputs_0"`
		Second []answer `json:"outputs_1"`
	}
	if err := json.Unmarshal(out.Bytes(), &v); err != nil {
		t.Fatalf("%v in %s", err, &out)
	}
	return v.First, v.Second
}

// floatInput is an argument for the runtime: a tensor of that shape.
func floatInput(shape string, vs ...float32) string {
	b := make([]byte, 0, 4*len(vs))
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return fmt.Sprintf("float32:%s:%x", shape, b)
}

// wantFloats requires an answer of these values, but for rounding.
func wantFloats(t testing.TB, a answer, want ...float32) {
	t.Helper()
	got := a.floats(t)
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range got {
		if d := math.Abs(float64(got[i] - want[i])); d > 1e-5*max(1, math.Abs(float64(want[i]))) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}
