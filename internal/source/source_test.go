package source

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"testing"
)

func TestEverySourceReadsTheSame(t *testing.T) {
	data := []byte("0123456789abcdef")
	for kind, s := range sources(t, data) {
		t.Run(kind, func(t *testing.T) {
			if s.Size() != 16 {
				t.Fatalf("Size = %d", s.Size())
			}
			for _, c := range []struct {
				off, n int64
				ok     bool
			}{
				{0, 16, true}, {0, 0, true}, {16, 0, true}, {3, 5, true}, {15, 1, true},
				{0, 17, false}, {16, 1, false}, {17, 0, false}, {-1, 1, false},
				{1 << 62, 1, false},
				{1<<63 - 1, 1, false}, {5, 1 << 62, false}, {5, 1<<63 - 1, false}, {0, -1, false},
			} {
				want := []byte(nil)
				if c.ok {
					want = data[c.off : c.off+c.n]
				}
				if c.n >= 0 && c.n <= 100 {
					p := make([]byte, c.n)
					n, err := s.ReadAt(p, c.off)
					if (err == nil) != c.ok || c.ok && (n != len(p) || !bytes.Equal(p, want)) {
						t.Errorf("ReadAt(%d at %d) = %d, %v %q", c.n, c.off, n, err, p)
					}
					if !c.ok && !errors.Is(err, io.ErrUnexpectedEOF) {
						t.Errorf("ReadAt(%d at %d): %v", c.n, c.off, err)
					}
				}
				m, err := s.Metadata(c.off, c.n)
				if (err == nil) != c.ok || !bytes.Equal(m, want) {
					t.Errorf("Metadata(%d, %d) = %q, %v", c.off, c.n, m, err)
				}
				if !c.ok && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("Metadata(%d, %d): %v", c.off, c.n, err)
				}
				b, ok := s.Bytes(c.off, c.n)
				if ok != (c.ok && s.Mapped()) || ok &&
					(!bytes.Equal(b, want) || cap(b) != len(b)) {
					t.Errorf("Bytes(%d, %d) = %q cap %d, %v", c.off, c.n, b, cap(b), ok)
				}
				if _, err := s.Extent(c.off, c.n); (err == nil) != c.ok {
					t.Errorf("Extent(%d, %d): %v", c.off, c.n, err)
				}
			}
		})
	}
}

// Writers store once what several tensors of a file share, also where the bytes are not
// in memory.
func TestIdentityOfExtentsIsTheirPlace(t *testing.T) {
	for kind, s := range sources(t, []byte("0123456789abcdef")) {
		t.Run(kind, func(t *testing.T) {
			of := func(off, n int64) any {
				e, err := s.Extent(off, n)
				if err != nil {
					t.Fatal(err)
				}
				return e.Identity()
			}
			if of(2, 4) == nil || of(2, 4) != of(2, 4) {
				t.Error("the same place has two identities")
			}
			if of(2, 4) == of(3, 4) || of(2, 4) == of(2, 5) {
				t.Error("two places have the same identity")
			}
			if of(2, 0) != nil {
				t.Error("no bytes have an identity")
			}
		})
	}
}

func TestUseAfterCloseIsErrClosed(t *testing.T) {
	for kind, s := range sources(t, []byte("0123456789abcdef")) {
		t.Run(kind, func(t *testing.T) {
			e, err := s.Extent(2, 4)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			var p [4]byte
			if _, err := s.ReadAt(p[:], 0); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("ReadAt: %v", err)
			}
			if _, err := e.ReadAt(p[:], 0); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("Extent.ReadAt: %v", err)
			}
			if _, err := s.Metadata(0, 4); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("Metadata: %v", err)
			}
			if _, ok := s.Bytes(0, 4); ok {
				t.Error("Bytes answered")
			}
			if _, ok := e.Bytes(); ok {
				t.Error("Extent.Bytes answered")
			}
			if s.Size() != 16 {
				t.Error("Size forgotten")
			}
		})
	}
}

func TestExtentsAreReadFromTheirStart(t *testing.T) {
	for kind, s := range sources(t, []byte("0123456789abcdef")) {
		t.Run(kind, func(t *testing.T) {
			slab := make([]Extent, 2) // the zero one is empty
			var err error
			if slab[1], err = s.Extent(4, 8); err != nil {
				t.Fatal(err)
			}
			e := &slab[1]
			if e.Size() != 8 || e.Offset() != 4 {
				t.Fatalf("Size %d, Offset %d", e.Size(), e.Offset())
			}
			got, err := io.ReadAll(io.NewSectionReader(e, 0, e.Size()))
			if err != nil || string(got) != "456789ab" {
				t.Fatalf("%q, %v", got, err)
			}
			if b, ok := e.Bytes(); ok != s.Mapped() || ok && string(b) != "456789ab" {
				t.Fatalf("Bytes = %q, %v", b, ok)
			}
			var p [4]byte
			for _, off := range []int64{-1, 5, 8, 9, 1<<63 - 1} {
				if _, err := e.ReadAt(p[:], off); !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("ReadAt(4 at %d): %v", off, err)
				}
			}
			zero := &slab[0]
			if b, ok := zero.Bytes(); !ok || len(b) != 0 || zero.Size() != 0 {
				t.Errorf("the zero Extent has bytes: %q, %v", b, ok)
			}
			if _, err := zero.ReadAt(p[:], 0); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("the zero Extent reads: %v", err)
			}
		})
	}
}
