package readtest

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Files reads all files below dir that wanted accepts, in the order of their names.
func Files(t testing.TB, dir string, wanted func(b []byte) bool) (names []string, files [][]byte) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(name)
		if err == nil && wanted(b) {
			names, files = append(names, name), append(files, b)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files in %s, %v", len(files), dir, err)
	}
	return names, files
}

// Mutants calls try with n damaged copies of files, their numbers and the number of the
// file. n is $TENSORFILE_MUTANTS where that is set, and a quarter of n with -short; the
// first copy is number $TENSORFILE_MUTANT. Which copy has which number does not change
// while the files do not. It fails the test, and keeps the copy, if try panics or, where
// Measuring, takes a second of processor time.
func Mutants(t *testing.T, names []string, files [][]byte, n int,
	try func(number, file int, b []byte) error) {
	first, _ := strconv.Atoi(os.Getenv("TENSORFILE_MUTANT"))
	if set, err := strconv.Atoi(os.Getenv("TENSORFILE_MUTANTS")); err == nil {
		n = set
	} else if testing.Short() {
		n /= 4
	}
	refused := 0
	for i := range n {
		number := first + i
		file, b := Mutant(files, uint64(number))
		failed := t.Failed()
		run := func() error {
			return Survives(t, func() error { return try(number, file, b) }, "mutant %d, of %s",
				number, names[file])
		}
		start := ProcessorTime()
		if run() != nil {
			refused++
		}
		if Measuring() && ProcessorTime()-start >= time.Second {
			start = ProcessorTime() // the first time may have paid for the collector
			if run(); ProcessorTime()-start >= time.Second {
				t.Errorf("mutant %d, of %s, took %v", number, names[file], ProcessorTime()-start)
			}
		}
		if (i+1)%100_000 == 0 {
			t.Logf("%d mutants, %d refused", i+1, refused)
		}
		if t.Failed() && !failed {
			name := filepath.Join(os.TempDir(),
				fmt.Sprint("mutant-", number, filepath.Ext(names[file])))
			err := os.WriteFile(name, b, 0o666)
			t.Logf("mutant %d, of %s, is kept in %s: %v", number, names[file], name, err)
		}
	}
	t.Logf("%d mutants of %d files, from number %d on: %d refused", n, len(files), first, refused)
}

// Mutant makes mutant number i of files: a copy of one of them with one to four changes.
func Mutant(files [][]byte, i uint64) (file int, b []byte) {
	r := rand.New(rand.NewPCG(i, 0x6d7574616e74))
	file = r.IntN(len(files))
	b = append(make([]byte, 0, len(files[file])+4096), files[file]...)
	for range 1 + r.IntN(1+r.IntN(4)) {
		b = mutate(r, b, files)
	}
	return file, slices.Clip(b)
}

// mutate makes one change.
func mutate(r *rand.Rand, b []byte, files [][]byte) []byte {
	// Most of what can be misunderstood stands at the beginning or at the end.
	place := func(n int) int {
		const edge = 1 << 10
		switch n = max(n, 1); {
		case n <= edge || r.IntN(4) == 0:
			return r.IntN(n)
		case r.IntN(3) == 0:
			return n - 1 - r.IntN(edge)
		}
		return r.IntN(edge)
	}
	piece := func(n int) (from, to int) {
		from = place(n)
		return from, min(n, from+1+r.IntN(1<<r.IntN(9)))
	}
	if len(b) == 0 {
		return append(b, byte(r.Uint32()))
	}
	switch r.IntN(12) {
	case 0:
		b[place(len(b))] = byte(r.Uint32())
	case 1:
		b[place(len(b))] ^= 1 << r.IntN(8)
	case 2: // what a length or a type might be
		b[place(len(b))] = []byte{0, 1, 0x7f, 0x80, 0xff, '0', '9', '"', '{', '}', '[', ']', ',',
			'\\'}[r.IntN(14)]
	case 3, 4, 5: // a number
		size := 2 << r.IntN(3)
		at := place(len(b))
		if r.IntN(2) == 0 {
			at &^= size - 1
		}
		if len(b)-at < size {
			break
		}
		var order binary.ByteOrder = binary.LittleEndian
		if r.IntN(4) == 0 {
			order = binary.BigEndian
		}
		word := make([]byte, 8)
		copy(word, b[at:at+size])
		old := order.Uint64(word)
		if order == binary.BigEndian {
			old >>= 64 - 8*size
		}
		v := []uint64{
			0, 1, 1<<(8*size-1) - 1, 1 << (8*size - 1), ^uint64(0),
			^uint64(0) - uint64(r.IntN(64)), uint64(len(b)), uint64(len(b) - at), uint64(at),
			old + 1, old - 1, old * 2, old + uint64(r.IntN(256)), old - uint64(r.IntN(256)), -old,
			1 << r.IntN(8*size), r.Uint64(), uint64(r.IntN(len(b))),
		}[r.IntN(18)]
		if order == binary.BigEndian {
			v <<= 64 - 8*size
		}
		order.PutUint64(word, v)
		if order == binary.BigEndian {
			copy(b[at:], word[:size])
		} else {
			copy(b[at:at+size], word)
		}
	case 6: // cut, or longer
		if r.IntN(3) == 0 {
			return append(b, make([]byte, r.IntN(300))...)
		}
		return b[:place(len(b)+1)]
	case 7: // a piece of another file, or of this one
		from := files[r.IntN(len(files))]
		if r.IntN(2) == 0 {
			from = slices.Clone(b)
		}
		if len(from) > 0 {
			lo, hi := piece(len(from))
			copy(b[place(len(b)):], from[lo:hi])
		}
	case 8: // the same, put between
		from := files[r.IntN(len(files))]
		if r.IntN(2) == 0 {
			from = slices.Clone(b)
		}
		if len(from) > 0 {
			lo, hi := piece(len(from))
			return slices.Insert(b, place(len(b)), from[lo:hi]...)
		}
	case 9:
		lo, hi := piece(len(b))
		return slices.Delete(b, lo, hi)
	case 10:
		lo, hi := piece(len(b))
		clear(b[lo:hi])
	case 11: // two words change places
		if n := (len(b) - 4) / 4; n > 0 {
			i, j := place(4*n)&^3, place(4*n)&^3
			for k := range 4 {
				b[i+k], b[j+k] = b[j+k], b[i+k]
			}
		}
	}
	return b
}
