package torch

import (
	"archive/zip"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// each joins n texts.
func each(n int, text func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(text(i))
	}
	return b.String()
}

// binint2 is an integer of two bytes.
func binint2(i int) string { return "M" + string([]byte{byte(i), byte(i >> 8)}) }

// stateDict is the pickle of n tensors as torch writes it, with keys of that format.
func stateDict(n int, key string) string {
	return "}q\x00(" + each(n, func(i int) string {
		first := "ctorch._utils\n_rebuild_tensor_v2\nq\x01((" + str("storage") +
			"q\x02ctorch\nFloatStorage\nq\x03"
		if i > 0 {
			first = "h\x01((h\x02h\x03"
		}
		return str(fmt.Sprintf(key, i)) + first + str("0") + str("cpu") + "K\x04tQK\x00" +
			"K\x01K\x04\x86K\x04K\x01\x86\x89ccollections\nOrderedDict\n)RtR"
	}) + "u"
}

// Opening takes no more than 48 times the pickle and 1 MiB, whatever a file says. Honest
// files are read within that; others are refused.
func TestMemoryIsBounded(t *testing.T) {
	const n = 30_000
	for _, c := range []struct {
		name, pickle string
		isRead       bool
	}{
		{"tensors", stateDict(n, "model.layers.%d.weight"), true},
		{"tensors of short names", stateDict(n, "%d"), true},
		{"bools", "]" + strings.Repeat("("+strings.Repeat("\x88", 1000)+"e", n/25), true},
		{"more bools", "]" + strings.Repeat("("+strings.Repeat("\x89", 1000)+"e", n/25), true},
		{"lists of a thousand bools", "](" + strings.Repeat("]("+strings.Repeat("\x89",
			1000)+"e", n/30) + "e", true},
		{"a list of small integers", "](" + strings.Repeat("K\xff", 20*n) + "e", true},
		{"a list of floats", "](" + strings.Repeat("G\x3f\xb9\x99\x99\x99\x99\x99\x9a",
			10*n) + "e", true},
		{"a list of strings", "](" + strings.Repeat(str("ab"), 10*n) + "e", true},
		{"a list of lists", "](" + strings.Repeat("]q\x00(K\x01K\x02K\x03e", 5*n) + "e", true},
		{"a dict of integers", "}(" + each(2*n, func(i int) string {
			return binint2(i) + binint2(i)
		}) + "u", true},
		{"a dict of names", "}(" + each(2*n, func(i int) string {
			return str(fmt.Sprint("token", i)) + binint2(i)
		}) + "u", true},
		{"a dict of dicts", "}(" + each(2*n, func(i int) string {
			return binint2(i) + "}q\x00(" + str("lr") + "N" + str("step") + binint2(i) + "u"
		}) + "u", true},
		{"numbers of NumPy", "](cnumpy.core.multiarray\nscalar\nq\x00cnumpy\ndtype\n" +
			tup(str("f8"),
				"\x89", "\x88") + "Rq\x01e(" +
			strings.Repeat("h\x00(h\x01C\x0800000000tR", n) + "e", true},
		{"objects", "](ca\nB\nq\x000" + strings.Repeat("h\x00)\x81q\x01}q\x02("+str("lr")+
			"K\x01"+str("by")+"K\x02ub", 2*n) + "e", true},

		{"empty tuples", "](" + strings.Repeat(")", 10*n) + "e", false},
		{"empty lists", "](" + strings.Repeat("]", 10*n) + "e", false},
		{"empty dicts", "](" + strings.Repeat("}", 10*n) + "e", false},
		{"nested tuples", "](" + strings.Repeat("N\x85\x85\x85", 10*n) + "e", false},
		{"one value on the stack", strings.Repeat("N", 1) + strings.Repeat("2", 60*n), true},
		{"a memo out of order", "N" + each(10*n, func(i int) string {
			return "p" + fmt.Sprint(1000+i*7) + "\n"
		}), true},
		{"marks", strings.Repeat("(", 60*n) + strings.Repeat("1", 60*n) + "N", true},
		{"names of no letters", "](" + strings.Repeat("c\n\n", 10*n) + "e", false},
		{"one long name", str(strings.Repeat("a", 1<<16)) + "q\x00](" +
			strings.Repeat("h\x00h\x00\x93", n) + "e", false},
		{"calls of one name", "](ca\nB\nq\x000" + strings.Repeat("h\x00)R", 10*n) + "e", false},
		{"one long string", str(strings.Repeat("\x01", 2000)) + "q\x000](" +
			strings.Repeat("h\x00", n) + "e", false},
		{"one long key", str(strings.Repeat("a", 2000)) + "q\x000](" +
			strings.Repeat("}h\x00Ns", n) + "e", false},
		{"one tensor", floats(4) + "q\x000](" + strings.Repeat("h\x00", n) + "e", false},
		{"one state", "}" + str("a") + "Nsq\x000](" + strings.Repeat("h\x00", n) + "e", false},
		{"one shape of 64 dimensions", ints(make([]int64, 64)...) + "q\x000" +
			storageOf("FloatStorage", "0", 4) + "q\x010" + rebuild + "q\x020](" +
			strings.Repeat("h\x02(h\x01K\x00h\x00h\x00tR", n) + "e", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := archive(c.pickle)
			var err error
			peak := readtest.PeakHeap(func() { _, err = OpenBytes(b, nil) })
			if factor := float64(peak-1<<20) / float64(len(c.pickle)); factor > 48 {
				t.Errorf("%.1f times %d bytes", factor, len(c.pickle))
			} else if readtest.Measuring() {
				t.Logf("%.1f times", factor)
			}
			// Where an int has 32 bits values take half as much, so that some are read.
			isRead := c.isRead || strconv.IntSize == 32 && err == nil
			if isRead && err != nil || !isRead && !errors.Is(err, tensor.ErrLimit) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A compressed pickle is in proportion to its bytes in the file: one of a large model is
// read, and one of a megabyte in a kilobyte is not.
func TestCompressedPicklesAreLimitedByTheirBytes(t *testing.T) {
	for pickle, want := range map[string]error{
		stateDict(20_000, "model.layers.%d.weight"):                  nil,
		str(strings.Repeat("a", 1<<20)):                              tensor.ErrLimit,
		"Nq\x00](" + strings.Repeat("h\x00", 1<<19) + "e" + str("a"): tensor.ErrLimit,
	} {
		b := zipBy(zip.Deflate, file{"x/data.pkl", pickle + "."}, file{"x/version", "3"},
			file{"x/data/0", "0123456789abcdef"})
		if _, err := OpenBytes(b, nil); !errors.Is(err, want) {
			t.Errorf("%d bytes of %d: %v", len(b), len(pickle), err)
		}
	}
}
