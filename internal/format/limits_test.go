package format

import (
	"errors"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestCompleteLimitsFillsZerosAndRefusesNegatives(t *testing.T) {
	l, err := CompleteLimits(tensor.Limits{MaxTensors: 5})
	if l.MaxMetadata != 1<<30 || l.MaxTensors != 5 || l.MaxDecodedTotal != 0 || err != nil {
		t.Errorf("%+v, %v", l, err)
	}
	for _, l := range []tensor.Limits{{MaxRank: -1}, {MaxDecodedTotal: -1}} {
		if _, err := CompleteLimits(l); err == nil {
			t.Errorf("%+v is accepted", l)
		}
	}
}

func TestDecodedTotalFollowsTheSizeOfTheFile(t *testing.T) {
	for _, c := range []struct {
		limit, size, want int64
	}{{0, 1 << 20, 64 << 30}, {0, 1 << 30, 1100 << 30}, {0, 1 << 62, 1<<63 - 1}, {7, 1 << 62, 7}} {
		if got := DecodedTotal(tensor.Limits{MaxDecodedTotal: c.limit}, c.size); got != c.want {
			t.Errorf("a limit of %d and a file of %d bytes: %d, want %d", c.limit, c.size, got,
				c.want)
		}
	}
}

// storedAt is a range of a file, or what is made of one.
type storedAt struct {
	tensor.Source
	size int64
	st   tensor.Stored
}

func (s storedAt) Size() int64                   { return s.size }
func (s storedAt) Stored() (tensor.Stored, bool) { return s.st, true }

func TestBudgetIsInProportionToTheFile(t *testing.T) {
	at := func(off, stored int64, encoding string, size int64) tensor.Blob {
		return tensor.NewBlob(storedAt{size: size,
			st: tensor.Stored{Offset: off, Size: stored, Encoding: encoding}})
	}
	times := func(n int, b tensor.Blob) []tensor.Blob { return slices.Repeat([]tensor.Blob{b}, n) }
	for _, c := range []struct {
		name    string
		limit   int64
		file    int64
		blobs   []tensor.Blob
		refused bool
	}{
		{"a large plain file", 0, 3 << 40, times(3, at(0, 1<<40, "raw", 1<<40)), false},
		{"plain bytes under a limit of decoded ones", 1 << 20, 1 << 30,
			times(1, at(0, 1<<30, "raw", 1<<30)), false},
		{"plain bytes twice under that limit", 1 << 20, 1 << 30,
			times(2, at(0, 1<<30, "raw", 1<<30)), true},
		{"shared in a small file", 0, 1 << 10, times(1025, at(0, 1<<20, "raw", 1<<20)), true},
		{"shared in a file of 4 MiB", 0, 4 << 20, times(1025, at(0, 1<<20, "raw", 1<<20)), false},
		{"strided", 0, 459, times(1, at(-1, 4, "strided", 4<<30)), true},
		{"tensors of files that are not known", 0, 0,
			append(times(1, at(0, 2<<30, "raw", 2<<30)), at(2<<30, 2<<30, "raw", 2<<30)), false},
		{"compressed", 0, 1 << 20, times(1, at(0, 1<<20, "zstd", 63<<30)), false},
		{"compressed beyond the limit", 0, 1 << 20, times(1, at(0, 1<<20, "zstd", 65<<30)), true},
		{"compressed once and shared", 0, 1 << 10, times(1026, at(0, 100, "zstd", 1<<20)), true},
		{"in no file", 0, 100, times(9, tensor.BlobFunc(1<<40, nil)), false},
	} {
		err := CheckDecoded(tensor.Limits{MaxDecodedTotal: c.limit}, c.file,
			slices.Values(c.blobs))
		if errors.Is(err, tensor.ErrLimit) != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
