package fb

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
)

// build writes a buffer of n tables, each with a string and a vector.
func build(b *Builder, n int) ([]byte, error) {
	list := make([]Offset, n)
	for i := range list {
		s := b.String(strings.Repeat("x", i%7))
		v := b.Scalars(make([]byte, 8*(i%3)), 8, 16)
		b.Begin()
		b.Ref(4, s)
		b.Ref(6, v)
		b.Scalar(8, 8, uint64(i), 0)
		list[i] = b.End()
	}
	v := b.Offsets(list)
	b.Begin()
	b.Ref(4, v)
	return b.Finish(b.End(), "TEST")
}

func TestGrowChangesNoByte(t *testing.T) {
	var plain Builder
	want, err := build(&plain, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{0, 1, 5000, int64(len(want)) - 1, int64(len(want)), 1 << 20} {
		var b Builder
		b.Grow(n)
		if got, err := build(&b, 1000); err != nil || !bytes.Equal(got, want) {
			t.Errorf("another buffer after Grow(%d): %v", n, err)
		}
	}
	var b Builder
	b.Grow(int64(len(want)))
	capacity := len(b.buf)
	if build(&b, 1000); len(b.buf) != capacity {
		t.Errorf("capacity for %d of %d bytes was not enough", capacity, len(want))
	}
}

// A buffer that would exceed 2 GiB is an error of Finish, wherever that happens, and
// takes no memory.
func TestTooLargeBuffersFailWithoutMemory(t *testing.T) {
	for _, announced := range []int64{math.MaxInt32 + 1, math.MaxInt64} {
		var err error
		got := readtest.Allocated(func() {
			var b Builder
			b.Grow(announced)
			_, err = build(&b, 1000)
		})
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("%d bytes announced: %v", announced, err)
		}
		if got > 1<<20 {
			t.Errorf("%d bytes announced: %d bytes allocated", announced, got)
		}
	}
	// Every call that writes is the one too many once.
	var whole Builder
	all, err := build(&whole, 10)
	if err != nil {
		t.Fatal(err)
	}
	for size := range len(all) + 8 { // a builder keeps room for eight more
		b := Builder{lower: math.MaxInt32 - size}
		if _, err := build(&b, 10); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%d bytes in a buffer of %d: %v", len(all), size, err)
		}
	}
	b := Builder{lower: math.MaxInt32 - len(all) - 16}
	if got, err := build(&b, 10); err != nil || !bytes.Equal(got, all) {
		t.Errorf("%d bytes in a buffer of %d: %v", len(all), len(all)+16, err)
	}
}
