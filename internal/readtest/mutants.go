package readtest

import (
	"encoding/binary"
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

// Mutants gives try damaged copies of files, with the number of the file and of the mutant, for the time given; or as many as
// $TENSORFILE_MUTANTS says, from $TENSORFILE_MUTANT on. Which copy has which number never changes while the files do not.
// It fails the test, and keeps the copy, when try panics, or keeps the processor busy for seconds; for one where many are tried.
func Mutants(t *testing.T, names []string, files [][]byte, budget time.Duration, try func(file int, b []byte) error) {
	first, _ := strconv.ParseUint(os.Getenv("TENSORFILE_MUTANT"), 10, 64)
	most, _ := strconv.ParseUint(os.Getenv("TENSORFILE_MUTANTS"), 10, 64)
	limit := slowest // also with the race detector, or emulated
	if most > 0 {
		limit = time.Second
	}
	start, refused := time.Now(), 0
	i := first
	for ; most > 0 && i < first+most || most == 0 && time.Since(start) < budget; i++ {
		file, b := Mutant(files, i)
		failed := t.Failed()
		var err error
		fastest := time.Hour
		for range 3 { // the collector may have had much to do
			began := spent()
			err = Survives(t, func() error { return try(file, b) }, "mutant %d, of %s", i, names[file])
			if fastest = min(fastest, spent()-began); fastest < limit {
				break
			}
		}
		if fastest >= limit {
			t.Errorf("mutant %d, of %s, took %v", i, names[file], fastest)
		}
		if err != nil {
			refused++
		}
		if n := i - first + 1; n%100_000 == 0 { // somebody may be waiting
			t.Logf("%d mutants, %d refused", n, refused)
		}
		if t.Failed() && !failed {
			name := filepath.Join(os.TempDir(), "mutant-"+strconv.FormatUint(i, 10)+filepath.Ext(names[file]))
			t.Logf("mutant %d, of %s, is kept in %s: %v", i, names[file], name, os.WriteFile(name, b, 0o666))
		}
	}
	t.Logf("%d mutants of %d files, from number %d on: %d refused, in %v", i-first, len(files), first, refused, time.Since(start).Round(time.Millisecond))
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
		b[place(len(b))] = []byte{0, 1, 0x7f, 0x80, 0xff, '0', '9', '"', '{', '}', '[', ']', ',', '\\'}[r.IntN(14)]
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
			0, 1, 1<<(8*size-1) - 1, 1 << (8*size - 1), ^uint64(0), ^uint64(0) - uint64(r.IntN(64)), uint64(len(b)), uint64(len(b) - at), uint64(at),
			old + 1, old - 1, old * 2, old + uint64(r.IntN(256)), old - uint64(r.IntN(256)), -old, 1 << r.IntN(8*size), r.Uint64(), uint64(r.IntN(len(b))),
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
