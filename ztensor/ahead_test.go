package ztensor

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// What two goroutines read of a manifest, errors included, is what one reads.
func TestAheadReadsWhatOneGoroutineReads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	const n = manyEntries + 500
	for _, version := range []string{"1.0", "1.2"} {
		data := manyTensors(t, n, &WriterOptions{Version: version, Digest: CRC32C})
		whole, err := OpenBytes(data, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(whole.tensors.full) != 1 {
			t.Fatalf("%s: read by one goroutine, in %d pieces", version, 1+len(whole.tensors.full))
		}
		at, size := int(whole.manifestAt), int(whole.manifestSize)
		seam := at + size/2
		same := func(what string, file []byte) {
			t.Helper()
			a, err := OpenBytes(file, nil)
			runtime.GOMAXPROCS(1)
			b, err1 := OpenBytes(file, nil)
			runtime.GOMAXPROCS(2)
			if fmt.Sprint(err) != fmt.Sprint(err1) {
				t.Fatalf("%s: %s:\n%v, by one goroutine\n%v", version, what, err, err1)
			}
			if err == nil {
				sameIndex(t, a, b)
			}
		}
		same("as it is", data)

		// Values that stay well-formed, and those that do not, in each half and
		// around the middle.
		rng := rand.New(rand.NewPCG(3, 4))
		for i := range 8 {
			place := at + rng.IntN(size)
			if i%2 == 0 {
				place = seam + rng.IntN(1024) - 512
			}
			bit := byte(1) << rng.IntN(8)
			data[place] ^= bit
			same(fmt.Sprintf("bit at %d", place), data)
			data[place] ^= bit
		}
		swap := func(name string, with string) []byte {
			return bytes.Replace(data, []byte(name), []byte(with), 1)
		}
		first, last := whole.tensors.at(n/4).Name, whole.tensors.at(3*n/4).Name
		again := []byte(last)
		again[len(again)-1]++
		same("a name that does not ascend", swap(last, string(again)))
		same("a name out of the first half again in the second", swap(last, (first + last)[:len(last)]))
		same("its last tensors missing", data[:len(data)-1000])

		// Fewer and more entries than the map says, and what looks like one
		// more behind it.
		m := bytes.Clone(data[at:][:size])
		head := bytes.Index(m, []byte(whole.list)) + len(whole.list)
		for _, d := range []int{-1, 1, 300} {
			count := n + d
			wrong := bytes.Clone(m)
			copy(wrong[head:], appendHead(nil, cborMap, uint64(count)))
			same(fmt.Sprint("a count that is off by ", d), footed(data[:at], wrong, version == "1.2"))
		}
		entry := m[head+3:] // begins with the first entry
		c := cursor{b: entry, deep: 9}
		c.skip() // name
		c.skip()
		if c.err != nil {
			t.Fatal(c.err)
		}
		more := slices.Concat(m, entry[:c.p], appendText(appendText(nil, "zz"), string(make([]byte, 400))))
		more[0] += 2
		same("a key behind the tensors that looks like one", footed(data[:at], more, version == "1.2"))

		// Entries within a byte string in the middle.
		middle := bytes.Index(m[size/2:], []byte(keys11)) + size/2
		if version == "1.2" {
			hidden := slices.Concat([]byte("\xa4\x6aattributes\xa1\x61x"), appendHead(nil, cborBytes, uint64(64<<10)), bytes.Repeat(entry[:c.p], 64<<10/c.p+1)[:64<<10])
			same("entries within a byte string", footed(data[:at], slices.Concat(m[:middle], hidden, m[middle+1:]), true))
		}
	}
}

func sameIndex(t *testing.T, a, b *Reader) {
	t.Helper()
	if a.Len() != b.Len() || a.Version() != b.Version() || a.jumbled != b.jumbled || (a.byName == nil) != (b.byName == nil) || fmt.Sprint(a.Warnings()) != fmt.Sprint(b.Warnings()) {
		t.Fatalf("%d tensors, want %d; %v, want %v", a.Len(), b.Len(), a.Warnings(), b.Warnings())
	}
	if x, y := slices.Collect(a.extents()), slices.Collect(b.extents()); !slices.Equal(x, y) {
		t.Fatal("components are elsewhere, or in another order")
	}
	for i := range b.Len() {
		x, y := a.tensors.at(i), b.tensors.at(i)
		s, _ := x.Data.Stored()
		want, _ := y.Data.Stored()
		if x.Name != y.Name || x.DType != y.DType || !x.Shape.Equal(y.Shape) || s != want {
			t.Fatalf("tensor %d: %+v %+v, want %+v %+v", i, x, s, y, want)
		}
		if b.byName == nil && i%97 == 0 && (a.Tensor(y.Name) != x || a.Tensor(y.Name+"x") != nil) {
			t.Fatalf("%s is not found", y.Name)
		}
	}
	var none *tensor.Tensor
	if a.Tensor("") != none {
		t.Error("a tensor without a name")
	}
}
