package readtest

import (
	"fmt"
	"io"
	"iter"
	"runtime/debug"
	"testing"
)

// Stride is the step of loops over all damages: 1, or with -short 97, so that a slow
// build (race detector, emulator) can finish. It is prime, so that every bit of a byte
// has its turn.
func Stride() int {
	if testing.Short() {
		return 97
	}
	return 1
}

// Entries returns n, the number of entries of a large file, or with -short a tenth of it.
func Entries(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// Truncations yields data cut after 0, 1, … len(data)-1 bytes, with the number; some of
// them with -short. Beyond the end there is nothing, not even within the capacity.
func Truncations(data []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for n := 0; n < len(data); n += Stride() {
			if !yield(n, data[:n:n]) {
				return
			}
		}
	}
}

// BitFlips yields a copy of data with one bit turned over, for every bit of the bytes
// from lo to hi (some of them with -short), with the number of the bit. The copy is the
// same one each time: it may be looked at until the next.
func BitFlips(data []byte, lo, hi int) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		b := WithCanary(data)
		for bit := 8 * lo; bit < 8*hi; bit += Stride() {
			b[bit/8] ^= 1 << (bit % 8)
			if !yield(bit, b) {
				return
			}
			b[bit/8] = data[bit/8]
		}
	}
}

// ByteSets yields a copy of data with one byte set to each of values, for every byte
// from lo to hi (some of them with -short) that is not that already, with its offset.
// The copy is the same one each time: it may be looked at until the next.
func ByteSets(data []byte, lo, hi int, values ...byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		b := WithCanary(data)
		for i := lo; i < hi; i += Stride() {
			for _, v := range values {
				if v == data[i] {
					continue
				}
				b[i] = v
				if !yield(i, b) {
					return
				}
			}
			b[i] = data[i]
		}
	}
}

// A Toll is how a package took the damage that was done to a file.
type Toll struct {
	Accepted, Refused int
}

// Accepts is the share of damaged files that were accepted, in percent.
func (c Toll) Accepts() float64 {
	return 100 * float64(c.Accepted) / float64(max(1, c.Accepted+c.Refused))
}

// Damage gives try every truncation of data, and data with every single bit of the bytes
// from lo to hi turned over and with each of those bytes set to 0x00, 0x7f, 0x80 and
// 0xff. It fails the test if one of them makes try panic. The expected result of try is
// open and walk everything; it returns the error that it met.
func Damage(t testing.TB, data []byte, lo, hi int,
	try func(b []byte) error) (truncated, changed Toll) {
	t.Helper()
	run := func(toll *Toll, what string, at int, b []byte) {
		t.Helper()
		if err := Survives(t, func() error { return try(b) }, "%s %d", what, at); err == nil {
			toll.Accepted++
		} else {
			toll.Refused++
		}
	}
	for n, b := range Truncations(data) {
		run(&truncated, "cut after byte", n, b)
	}
	for bit, b := range BitFlips(data, lo, hi) {
		run(&changed, "turned over bit", bit, b)
	}
	for i, b := range ByteSets(data, lo, hi, 0x00, 0x7f, 0x80, 0xff) {
		run(&changed, fmt.Sprintf("set to %#02x byte", b[i]), i, b)
	}
	return truncated, changed
}

// Survives returns what try returns, and fails the test if it panics instead.
func Survives(t testing.TB, try func() error, format string, args ...any) (err error) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
			t.Errorf("%s: %v\n%s", fmt.Sprintf(format, args...), err, debug.Stack())
		}
	}()
	return try()
}

// Misread opens data through every Liar, and through readers that fail or end at each
// of at, and requires an error each time. try opens what it is given and reads all of
// it.
func Misread(t testing.TB, data []byte, at []int64, try func(r io.ReaderAt, size int64) error) {
	t.Helper()
	size := int64(len(data))
	for _, l := range Liars(data) {
		if err := Survives(t, func() error { return try(l, size) }, "%s", l.Name); err == nil {
			t.Errorf("%s: no error", l.Name)
		}
	}
	r := ReaderFunc(NewCounter(data).ReadAt)
	for _, n := range at {
		if err := Survives(t, func() error { return try(Failing(r, n), size) }, "failing at %d",
			n); err == nil {
			t.Errorf("failing at %d: no error", n)
		}
		if err := Survives(t, func() error { return try(Truncating(r, n), size) }, "ending at %d",
			n); err == nil {
			t.Errorf("ending at %d: no error", n)
		}
	}
}
