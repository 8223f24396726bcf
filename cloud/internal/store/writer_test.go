package store

import (
	"context"
	"errors"
	"io/fs"
	"testing"
)

// memory is an Upload that keeps nothing but what was called.
type memory struct {
	fails   error // of what completes an object
	calls   int   // that completed one
	aborted int
}

func (m *memory) complete() error {
	m.calls++
	return m.fails
}

func (m *memory) Whole(context.Context, []byte) error     { return m.complete() }
func (m *memory) Begin(context.Context) error             { return nil }
func (m *memory) Part(context.Context, int, []byte) error { return nil }
func (m *memory) Complete(context.Context, int) error     { return m.complete() }
func (m *memory) Abort(context.Context) error             { m.aborted++; return nil }

func TestWriterClosesTwice(t *testing.T) {
	failed := errors.New("the store failed")
	for _, size := range []int{10, partSize + 1} {
		for _, fails := range []error{nil, failed} {
			m := &memory{fails: fails}
			w := NewWriter(t.Context(), m, 2)
			if n, err := w.Write(make([]byte, size)); n != size || err != nil {
				t.Fatal(n, err)
			}
			for range 2 {
				if err := w.Close(); err != fails {
					t.Errorf("%d bytes: %v, want %v", size, err, fails)
				}
			}
			w.Abort()
			if _, err := w.Write([]byte{0}); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("%d bytes: writing after Close: %v", size, err)
			}
			if aborted := fails != nil && size > partSize; m.calls != 1 ||
				(m.aborted == 1) != aborted {
				t.Errorf("%d bytes: completed %d times, aborted %d", size, m.calls, m.aborted)
			}
		}
	}
	m := &memory{}
	w := NewWriter(t.Context(), m, 2)
	w.Write(make([]byte, partSize+1))
	w.Abort()
	w.Abort()
	if err := w.Close(); !errors.Is(err, fs.ErrClosed) || m.calls > 0 || m.aborted != 1 {
		t.Errorf("Close after Abort: %v, aborted %d times", err, m.aborted)
	}
}

func TestPartsAreEnoughForTheLargestObject(t *testing.T) {
	total := int64(0)
	for n := range 10_000 {
		size := sizeOfPart(n)
		if size < 5<<20 || size > 5<<30 {
			t.Fatalf("part %d has %d bytes", n, size)
		}
		total += int64(size)
	}
	if total < 5<<40 {
		t.Errorf("10,000 parts are %d bytes", total)
	}
}
