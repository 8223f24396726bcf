package pte

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestRuntimeLoadsMutantsThatVerify changes programs at random. What Verify passes the
// runtime must load; the runtime may lack an operator or a backend whose name was
// changed.
func TestRuntimeLoadsMutantsThatVerify(t *testing.T) {
	run := etrun(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	file := filepath.Join(t.TempDir(), "p.pte")
	passed, refused := 0, 0
	for _, name := range []string{"lean", "export-1.5.1-state-initial.pte",
		"export-1.5.1-cond.pte", "export-1.5.1-dynamic.pte"} {
		data := base(t, name)
		end := int(binary.LittleEndian.Uint64(data[16:])) // payloads are anybody's
		for range 600 {
			b := bytes.Clone(data)
			for range 1 + rnd.IntN(2) {
				at := rnd.IntN(end)
				switch rnd.IntN(3) {
				case 0:
					b[at] ^= 1 << rnd.IntN(8)
				case 1:
					b[at] = byte(rnd.Uint32())
				default:
					put32(b, at&^3,
						[]uint32{0, 1, 2, 16, 255, math.MaxInt32, math.MaxUint32}[rnd.IntN(7)])
				}
			}
			r, err := OpenBytes(b, nil)
			if err == nil {
				_, err = r.Verify(t.Context(), nil)
			}
			if err != nil {
				refused++
				continue
			}
			passed++
			big := false
			for m := range r.Program().Methods() {
				big = big || planned(m) > 1<<28
			}
			if big {
				continue // it is not our matter whether the machine has the memory
			}
			if err := os.WriteFile(file, b, 0o666); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(run, "info", file).CombinedOutput()
			var exit *exec.ExitError
			if err == nil || errors.As(err, &exit) && exit.ExitCode() == 1 &&
				(bytes.Contains(out, []byte("OperatorMissing")) ||
					bytes.Contains(out, []byte("NotFound")) || deprecated(r)) {
				continue
			}
			bad := filepath.Join(os.TempDir(), fmt.Sprintf("pte-mutant-%d.pte", passed))
			os.WriteFile(bad, b, 0o666)
			t.Errorf("%s: Verify passes what the runtime does not load (%s): %v\n%.600s", name,
				bad, err, out)
		}
	}
	t.Logf("%d of %d mutants pass Verify and load", passed, passed+refused)
}

// deprecated says that the only thing against a program may be its layout of old, which
// is a warning.
func deprecated(r *Reader) bool {
	for _, w := range r.Warnings() {
		if fieldOf(w) == "constant_segment.offsets" {
			return true
		}
	}
	return false
}
