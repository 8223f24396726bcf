package tensor

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

func TestEveryBlobReadsTheSameWay(t *testing.T) {
	const text = "0123456789abcdef"
	long, err := BlobOf([]byte("--"+text+"--")).Section(2, 16)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]Blob{
		"memory":  BlobOf([]byte(text)),
		"section": long,
		"plain":   plainOf([]byte(text)),
		"coded":   codedOf([]byte(text), 16, 10),
		"stream":  BlobFunc(16, opener(text)),
	} {
		t.Run(name, func(t *testing.T) {
			if b.Size() != 16 {
				t.Fatal(b.Size())
			}
			if p, err := b.ReadAll(); err != nil || string(p) != text {
				t.Errorf("ReadAll: %q, %v", p, err)
			}
			p := make([]byte, 16)
			if err := b.ReadInto(p); err != nil || string(p) != text {
				t.Errorf("ReadInto: %q, %v", p, err)
			}
			if err := b.ReadInto(p[:15]); !errors.Is(err, io.ErrShortBuffer) {
				t.Errorf("a buffer that is too short: %v", err)
			}
			if n, err := b.ReadAt(p[:4], 6); n != 4 || err != nil || string(p[:4]) != "6789" {
				t.Errorf("ReadAt: %d, %v", n, err)
			}
			if n, err := b.ReadAt(p[:4], 14); n != 2 || err != io.EOF {
				t.Errorf("ReadAt over the end: %d, %v", n, err)
			}
			if _, err := b.ReadAt(p[:4], -1); err == nil {
				t.Error("a negative offset was read")
			}
			var w bytes.Buffer
			if n, err := b.WriteTo(&w); n != 16 || err != nil || w.String() != text {
				t.Errorf("WriteTo: %d, %v", n, err)
			}
			r, err := b.Open()
			if err != nil {
				t.Fatal(err)
			}
			if err := iotest.TestReader(r, []byte(text)); err != nil {
				t.Error(err)
			}
			r.Close()
			s, err := b.Section(10, 3)
			if err != nil {
				t.Fatal(err)
			}
			if s, err = s.Section(1, 2); err != nil {
				t.Fatal(err)
			}
			if p, err := s.ReadAll(); err != nil || string(p) != "bc" {
				t.Errorf("Section: %q, %v", p, err)
			}
			for _, bad := range [][2]int64{{-1, 2}, {0, 17}, {16, 1}, {1 << 62, 1 << 62},
				{3, -1}} {
				if _, err := b.Section(bad[0], bad[1]); !errors.Is(err, ErrMalformed) {
					t.Errorf("Section%v: %v", bad, err)
				}
			}
			if e, err := b.Section(16, 0); err != nil || e.Size() != 0 {
				t.Errorf("the empty section at the end: %v", err)
			}
		})
	}
}

func TestEmptyBlobsHaveNoBytes(t *testing.T) {
	for _, b := range []Blob{{}, BlobOf(nil), NewBlob(nil)} {
		if p, ok := b.Bytes(); !ok || len(p) != 0 || b.Size() != 0 || b.ReadInto(nil) != nil {
			t.Error("the zero blob is empty")
		}
		if p, err := b.ReadAll(); err != nil || p == nil || len(p) != 0 {
			t.Errorf("%v, %v", p, err)
		}
		if n, err := b.ReadAt(make([]byte, 1), 0); n != 0 || err != io.EOF {
			t.Error(n, err)
		}
		if _, ok := b.Stored(); ok {
			t.Error("a blob in memory is said to be stored")
		}
		r, err := b.Open()
		if err != nil {
			t.Fatal(err)
		}
		if p, err := io.ReadAll(r); err != nil || len(p) != 0 {
			t.Error(p, err)
		}
	}
}

func TestStreamsThatDoNotKeepTheirPromiseAreErrors(t *testing.T) {
	short, long := BlobFunc(17, opener("0123456789abcdef")),
		BlobFunc(15, opener("0123456789abcdef"))
	if _, err := short.ReadAll(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("short ReadAll: %v", err)
	}
	if err := short.ReadInto(make([]byte, 17)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("short ReadInto: %v", err)
	}
	if _, err := long.ReadAll(); !errors.Is(err, ErrMalformed) {
		t.Errorf("long ReadAll: %v", err)
	}
	if err := long.ReadInto(make([]byte, 15)); !errors.Is(err, ErrMalformed) {
		t.Errorf("long ReadInto: %v", err)
	}
	if _, err := short.WriteTo(io.Discard); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("short WriteTo: %v", err)
	}
	broken := BlobFunc(4, func() (io.ReadCloser, error) { return nil, io.ErrClosedPipe })
	if _, err := broken.ReadAll(); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	if _, err := broken.ReadAt(make([]byte, 1), 0); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

func TestBlobsOfUnknownSizeAreRead(t *testing.T) {
	b := codedOf([]byte("abc"), -1, 3)
	if p, err := b.ReadAll(); err != nil || string(p) != "abc" {
		t.Errorf("%q, %v", p, err)
	}
	p := make([]byte, 3)
	if err := b.ReadInto(p); err != nil || string(p) != "abc" {
		t.Errorf("%q, %v", p, err)
	}
	if err := b.ReadInto(make([]byte, 2)); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	if err := b.ReadInto(make([]byte, 4)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if _, err := b.Section(0, 1); err == nil {
		t.Error("a section of a blob of unknown size")
	}
}

func TestADeclaredSizeIsNotAllocated(t *testing.T) {
	b := codedOf([]byte("tiny"), 1<<40, 4)
	if _, err := b.ReadAll(); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	w := &Tensor{Name: "w", DType: U8, Shape: Shape{1 << 40}, Data: b}
	if _, err := Load[uint8](w); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
}

func TestBytesCannotReachPastTheBlob(t *testing.T) {
	whole := []byte("visible SECRET")
	p, ok := BlobOf(whole[:7]).Bytes()
	if !ok || cap(p) != 7 {
		t.Errorf("capacity %d", cap(p))
	}
	s, _ := BlobOf(whole).Section(0, 7)
	if p, ok = s.Bytes(); !ok || cap(p) != 7 {
		t.Errorf("capacity %d of a section", cap(p))
	}
}

func TestStoredTellsPlaceAndEncoding(t *testing.T) {
	if s, ok := plainOf(make([]byte, 4)).Stored(); !ok ||
		s != (Stored{Offset: 128, Size: 4, Encoding: "raw"}) {
		t.Errorf("%+v, %v", s, ok)
	}
	if s, ok := codedOf(nil, 9, 5).Stored(); !ok || s.Size != 5 || s.Encoding != "zstd" {
		t.Errorf("%+v, %v", s, ok)
	}
}

func TestWriteToReportsAShortWriter(t *testing.T) {
	for _, b := range []Blob{BlobOf([]byte("abc")), BlobFunc(3, opener("abc"))} {
		if _, err := b.WriteTo(shortWriter{}); !errors.Is(err, io.ErrShortWrite) {
			t.Error(err)
		}
	}
}

type shortWriter struct{}

func (shortWriter) Write(p []byte) (int, error) { return len(p) - 1, nil }

func TestIdentityIsThatOfMemoryOrSource(t *testing.T) {
	p := []byte{1, 2, 3, 4}
	a, b := BlobOf(p), BlobOf(p)
	if a.Identity() == nil || a.Identity() != b.Identity() {
		t.Error("the same memory has two identities")
	}
	half, err := a.Section(0, 2)
	if err != nil {
		t.Fatal(err)
	}
	if half.Identity() == a.Identity() || BlobOf([]byte{1, 2, 3, 4}).Identity() == a.Identity() {
		t.Error("other memory has the same identity")
	}
	if (Blob{}).Identity() != nil {
		t.Error("nothing has an identity")
	}
	f := BlobFunc(4, nil)
	if f.Identity() == nil || f.Identity() != f.Identity() ||
		f.Identity() == BlobFunc(4, nil).Identity() {
		t.Error("a source is not its own identity")
	}
	var nothing emptySource
	if e := NewBlob(&nothing); e.Identity() == nil ||
		e.Identity() != NewBlob(&nothing).Identity() ||
		e.Identity() == NewBlob(new(emptySource)).Identity() {
		t.Error("a source of no bytes is not its own identity")
	}
	if (Blob{&placed{at: 3}}).Identity() != (Blob{&placed{at: 3}}).Identity() ||
		(Blob{&placed{at: 3}}).Identity() == (Blob{&placed{at: 4}}).Identity() {
		t.Error("what a source says of its identity is not asked")
	}
	if a := (Blob{&placed{}}); a.Identity() == nil || a.Identity() != a.Identity() ||
		a.Identity() == (Blob{&placed{}}).Identity() {
		t.Error("a source that says nothing of its identity is not its own")
	}
}

// placed is a Source that knows its identity, except at 0.
type placed struct {
	emptySource
	at int
}

func (p *placed) Identity() any {
	if p.at == 0 {
		return nil
	}
	return p.at
}

// answers is a Source that says the same to every ReadAt.
type answers struct {
	Computed
	size int64
	n    func(asked int) int
}

func (a answers) Size() int64                           { return a.size }
func (a answers) ReadInto(p []byte) error               { return ReadFull(a, p) }
func (a answers) Open() (io.ReadCloser, error)          { return Stream(a), nil }
func (a answers) ReadAt(p []byte, _ int64) (int, error) { return a.n(len(p)), nil }
func (a answers) Read(p []byte) (int, error)            { return a.n(len(p)), nil }

func TestSourcesThatMiscountAreErrors(t *testing.T) {
	for name, n := range map[string]func(int) int{
		"nothing":  func(int) int { return 0 },
		"negative": func(int) int { return -1 },
		"too many": func(asked int) int { return asked + 1 },
	} {
		for _, size := range []int64{4, 2 << 20, -1} {
			blobs := []Blob{NewBlob(answers{size: size, n: n})}
			if name != "nothing" { // which is what an io.Reader may answer
				blobs = append(blobs,
					BlobFunc(size,
						func() (io.ReadCloser,
							error) {
							return io.NopCloser(answers{size: size, n: n}), nil
						}))
			}
			if size > 0 {
				part, err := blobs[0].Section(1, size-2)
				if err != nil {
					t.Fatal(err)
				}
				blobs = append(blobs, part)
			}
			for i, b := range blobs {
				if _, err := b.ReadAll(); err == nil {
					t.Errorf("%s, size %d, %d: ReadAll", name, size, i)
				}
				if err := b.ReadInto(make([]byte, max(b.Size(), 1))); err == nil {
					t.Errorf("%s, size %d, %d: ReadInto", name, size, i)
				}
				if _, err := b.WriteTo(io.Discard); err == nil {
					t.Errorf("%s, size %d, %d: WriteTo", name, size, i)
				}
			}
		}
	}
	none := BlobFunc(4, func() (io.ReadCloser, error) { return nil, nil })
	if _, err := none.ReadAll(); err == nil {
		t.Error("a stream that is not there was read")
	}
}

// An emptySource has no bytes, which are in memory.
type emptySource struct {
	Computed
	_ int
}

func (*emptySource) Size() int64                       { return 0 }
func (*emptySource) Bytes() ([]byte, bool)             { return []byte{}, true }
func (*emptySource) ReadAt([]byte, int64) (int, error) { return 0, nil }
func (*emptySource) ReadInto([]byte) error             { return nil }
func (e *emptySource) Open() (io.ReadCloser, error)    { return Stream(e), nil }
