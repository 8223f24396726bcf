package fb_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/fb/fbtest"
)

// Buffers that our verifier refuses and the C++ one does not, by the reason given;
// everything else must be refused by both.
var stricter = map[string]string{
	"bad vtable size":                                 "a vtable shorter than its own header",
	"offset to itself":                                "a vector element that is its own table, with a vtable of size 0",
	"union value without a type":                      "a union value of type NONE",
	"field inside the header of its table":            "a field inside its table's header",
	"offset leaves the buffer":                        "a union value of unknown type in the last three bytes",
	"vtable outside of the buffer":                    "a vtable of size 0 or 2 at the end",
	"the same bytes are shared too often":             "amplification",
	"more tables than a buffer of this size may have": "amplification",
}

// TestVerdictsAreTheSameAsCpp compares verdicts on mutants with interop/fb/oracle.cpp,
// which interop/fb.sh builds. TENSORFILE_FBMUTANTS is their number for each root,
// TENSORFILE_FBSEED makes them other ones.
func TestVerdictsAreTheSameAsCpp(t *testing.T) {
	oracle := os.Getenv("TENSORFILE_FBORACLE")
	if oracle == "" {
		t.Skip("TENSORFILE_FBORACLE does not name the C++ verifier: interop/fb.sh builds it and runs this test")
	}
	mutants := 600_000 // of each of the six roots
	if n, err := strconv.Atoi(os.Getenv("TENSORFILE_FBMUTANTS")); err == nil {
		mutants = n
	}
	for i, r := range fbtest.Roots() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			compare(t, oracle, byte(i), r, mutants)
		})
	}
}

func compare(t *testing.T, oracle string, number byte, r fbtest.Root, mutants int) {
	random, _ := strconv.ParseUint(os.Getenv("TENSORFILE_FBSEED"), 10, 64)
	rng := rand.New(rand.NewPCG(11+random, uint64(number)))
	var seeds [][]byte
	for _, b := range goldens(t, r) {
		if len(b) <= 64<<10 {
			seeds = append(seeds, b)
		}
	}
	slices.SortFunc(seeds, bytes.Compare)
	fixed := len(seeds)
	extra := map[string]int{}
	var both, neither int
	for mutants > 0 {
		batch := min(mutants, 20_000)
		mutants -= batch
		seeds = seeds[:fixed]
		for range 40 {
			seeds = append(seeds, r.Random(rng, 1+rng.IntN(40)))
		}
		var input bytes.Buffer
		var bufs [][]byte
		for range batch {
			seed := seeds[rng.IntN(len(seeds))]
			b := append([]byte(nil), seed...)
			switch k := rng.IntN(10); {
			case k == 0:
				b = fbtest.Redirect(rng, b)
			case k == 1:
				b = fbtest.Splice(rng, b, seeds[rng.IntN(len(seeds))])
			case k == 2:
				b = fbtest.Mutate(rng,
					fbtest.Redirect(rng, fbtest.Splice(rng, b, seeds[rng.IntN(len(seeds))])))
			default:
				b = fbtest.Mutate(rng, b)
			}
			input.WriteByte(number)
			input.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(b))))
			input.Write(b)
			bufs = append(bufs, b)
		}
		cmd := exec.Command(oracle)
		cmd.Stdin = &input
		cmd.Stderr = os.Stderr
		verdicts, err := cmd.Output()
		if err != nil || len(verdicts) != batch {
			t.Fatalf("oracle: %v, %d answers to %d buffers", err, len(verdicts), batch)
		}
		for i, b := range bufs {
			ours, theirs := verify(b, r), verdicts[i] == '1'
			switch {
			case ours == nil && theirs:
				both++
				walkAccepted(t, b, r, func() string { return "mutant" })
			case ours == nil:
				t.Fatalf("accepted, and refused by C++: %x", b)
			case theirs:
				var e *fb.Error
				errors.As(ours, &e)
				what, ok := stricter[e.Reason]
				if !ok {
					t.Fatalf("refused, and accepted by C++: %v\n%x", ours, b)
				}
				extra[what]++
			default:
				neither++
			}
		}
	}
	t.Logf("%d seeds in addition to the random ones; accepted by both %d, refused by both %d, refused by us alone:%s", fixed, both, neither, counts(extra))
}

func counts(m map[string]int) string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&b, "\n\t%6d %s", m[k], k)
	}
	return b.String()
}
