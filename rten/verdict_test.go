package rten

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// mutant changes a few bytes: offsets and counts more often than not.
func mutant(rnd *rand.Rand, data []byte) []byte {
	b := bytes.Clone(data)
	for range 1 + rnd.IntN(3) {
		at := rnd.IntN(len(b))
		switch rnd.IntN(6) {
		case 0:
			b[at] ^= 1 << rnd.IntN(8)
		case 1:
			b[at] = byte(rnd.Uint32())
		case 2:
			b[at] = []byte{0, 1, 0x7f, 0x80, 0xff, 4, 8, 39, 49, 63}[rnd.IntN(10)]
		case 3:
			at &^= 3
			if at+4 <= len(b) {
				binary.LittleEndian.PutUint32(b[at:],
					[]uint32{0, 1, 4, 1<<31 - 1, 1 << 31, 1<<32 - 1, uint32(len(b)),
						rnd.Uint32()}[rnd.IntN(8)])
			}
		case 4:
			at &^= 3
			from := rnd.IntN(len(b)) &^ 3
			copy(b[at:], b[from:min(from+4, len(b))])
		case 5:
			if rnd.IntN(20) == 0 {
				b = b[:at+1]
			}
		}
	}
	return b
}

// laterOrNever matches the fields that RTen checks when a model runs, or not at all.
var laterOrNever = regexp.MustCompile(`puts\[\d+\]$|captures\[\d+\]$|data_offset$|` +
	`\.(then_branch|else_branch|body)\.`) // of an operator that is no If and no Loop

// stricter returns why we refuse a mutant that RTen loads: a rule of ours that it does
// not have. It is empty where there is none.
func stricter(m []byte, err error) string {
	var fe *tensor.FormatError
	if errors.Is(err, tensor.ErrLimit) {
		return "amplification"
	} else if !errors.As(err, &fe) {
		return ""
	} else if laterOrNever.MatchString(fe.Field) {
		return "a field that is checked later or never"
	}
	buf := m
	if h, err := parseHeader(m, int64(len(m))); err == nil {
		buf = m[h.ModelOffset:][:h.ModelSize]
	}
	var e *fb.Error
	errors.As(fb.Verify(buf, &rtenfb.Schema, rtenfb.TableModel,
		fb.Limits{UTF8: true, Unions: true, MaxDepth: rtenMaxDepth}), &e)
	switch {
	case e == nil:
	case slices.Contains([]string{"offset to itself", "offset goes backwards", "bad vtable size",
		"field inside the header of its table", "union value without a type",
		// of a union's value whose type is unknown to it; of a known one it says the same
		"offset leaves the buffer"}, e.Reason):
		return e.Reason
	}
	return ""
}

// TestVerdictsRunInTheCrate holds what we accept against what RTen's loader
// does: a file that we open, and of which strict verification says nothing, it
// must load.
func TestVerdictsRunInTheCrate(t *testing.T) {
	tool := os.Getenv("RTENPROOF")
	if tool == "" {
		t.Skip("skip: RTENPROOF does not name the program that interop/tools.sh rtenproof makes")
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	files := goldens(t)
	var names []string
	for name, data := range files {
		if len(data) < 8<<10 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var mutants [][]byte
	var input bytes.Buffer
	for i := range 30_000 {
		m := mutant(rnd, files[names[i%len(names)]])
		mutants = append(mutants, m)
		input.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(m))))
		input.Write(m)
	}
	cmd := exec.Command(tool, "--load")
	cmd.Stdin = &input
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	both, neither, warned, refused, panics := 0, 0, 0, map[string]int{}, 0
	for i, m := range mutants {
		if !lines.Scan() {
			t.Fatal("the crate says too little")
		}
		verdict := lines.Text()
		if verdict == "panic" {
			panics++
		}
		r, err := OpenBytes(m, nil)
		switch {
		case err != nil && verdict != "ok":
			neither++
		case err != nil:
			why := stricter(m, err)
			if why == "" {
				t.Errorf("the crate loads what we refuse: %v", err)
			}
			refused[why]++
		case verdict == "ok":
			both++
		default:
			if _, err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); err == nil {
				name := filepath.Join(os.TempDir(), fmt.Sprintf("verdict-%d.rten", i))
				os.WriteFile(name, m, 0o666)
				t.Errorf("strict verification says nothing, the crate %q: %s", verdict, name)
			}
			warned++
		}
	}
	t.Logf("%d mutants: %d loaded by both, %d by none, %d by us with findings; the crate panicked %d times", len(mutants), both, neither, warned, panics)
	n := 0
	for _, k := range refused {
		n += k
	}
	t.Logf("%d loaded by the crate alone, for reasons that are known", n)
}
