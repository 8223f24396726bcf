package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
)

// maps says whether this system is one where files are mapped.
var maps = runtime.GOOS == "linux" || runtime.GOOS == "darwin" || runtime.GOOS == "windows"

func TestFilesAreMappedWhereTheyCanBe(t *testing.T) {
	s := open(t, file(t, []byte("content")))
	if s.Mapped() != maps {
		t.Errorf("Mapped = %v on %s", s.Mapped(), runtime.GOOS)
	}
}

func TestReflectionAsksBeforeItReads(t *testing.T) {
	type bytesOfTheirOwn []byte
	for _, c := range []struct {
		name string
		m    any
		want []byte
	}{
		{"bytes", &struct{ data []byte }{[]byte("x")}, []byte("x")},
		{"no bytes", &struct{ data []byte }{}, nil},
		{"no such field", &struct{ f *os.File }{}, nil},
		{"a string", &struct{ data string }{"x"}, nil},
		{"a slice of something else", &struct{ data []uint16 }{[]uint16{1}}, nil},
		{"a pointer", &struct{ data *byte }{}, nil},
		{"a named type", &struct{ data bytesOfTheirOwn }{bytesOfTheirOwn("x")}, []byte("x")},
	} {
		if got := mappedBytes(c.m); !bytes.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// guarded returns what do panics with when it touches memory that is not there.
func guarded(do func()) (fault any) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { fault = recover() }()
	do()
	return nil
}

// The finalizer of x/exp/mmap would unmap once the handle is unreachable.
func TestBytesOutliveTheSource(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 10_000)
	name := file(t, data)
	var views [][]byte
	for range 20 {
		s, err := Open(name, false)
		if err != nil {
			t.Fatal(err)
		}
		if !s.Mapped() {
			t.Skipf("no mapping on %s", runtime.GOOS)
		}
		b, _ := s.Bytes(0, s.Size())
		views = append(views, b) // and s is garbage
	}
	for range 5 {
		runtime.GC()
		// Finalizers run one after the other: when this one has run, so have those that
		// were found before.
		done := make(chan bool)
		runtime.SetFinalizer(new([16]byte), func(*[16]byte) { close(done) })
		runtime.GC()
		<-done
	}
	for i, b := range views {
		if fault := guarded(func() {
			if !bytes.Equal(b, data) {
				t.Errorf("view %d holds something else", i)
			}
		}); fault != nil {
			t.Fatalf("view %d was unmapped by the collector: %v", i, fault)
		}
	}
}

// x/exp/mmap opens by name, which may be given to another file after the open one was
// looked at.
func TestTheOpenFileIsMappedNotItsName(t *testing.T) {
	name := file(t, []byte("looked at"))
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	path := descriptorPath(f)
	if path == "" {
		f.Close()
		t.Skipf("open files have no names on %s", runtime.GOOS)
	}
	if err := os.Rename(file(t, []byte("slipped in")), name); err != nil {
		t.Fatal(err)
	}
	s := new(Source)
	if err := s.ofFile(f, name, path); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if b, err := s.Metadata(0, s.Size()); string(b) != "looked at" || !s.Mapped() {
		t.Errorf("%q, %v, mapped %v", b, err, s.Mapped())
	}
}

func TestTruncationUnderTheMappingIsAnError(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("windows does not truncate mapped files")
	}
	data := bytes.Repeat([]byte{7}, 1<<20)
	for _, noMap := range []bool{false, true} {
		t.Run(fmt.Sprintf("noMap %v", noMap), func(t *testing.T) {
			name := file(t, data)
			s, err := Open(name, noMap)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			e, err := s.Extent(500_000, 8)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(name, 100_000); err != nil {
				t.Fatal(err)
			}
			p := make([]byte, 1<<20)
			for range 3 { // it does not matter that it happened before
				if _, err := s.ReadAt(p, 0); !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("ReadAt: %v", err)
				}
				if _, err := s.Metadata(0, 1<<20); !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("Metadata: %v", err)
				}
				if _, err := e.ReadAt(p[:8], 0); !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("Extent.ReadAt: %v", err)
				}
			}
			if _, err := s.ReadAt(p[:1000], 99_000); err != nil ||
				!bytes.Equal(p[:1000], data[:1000]) {
				t.Errorf("what is left cannot be read: %v", err)
			}
			if debug.SetPanicOnFault(false) {
				t.Error("faults were left to panic in this goroutine")
			}
		})
	}
}

// A fault that is not in the mapping is the caller's: it must not be called a truncated
// file, nor leave the lock held.
func TestAFaultOfTheCallerIsNotHidden(t *testing.T) {
	data := bytes.Repeat([]byte{7}, 100_000)
	readOnly, s := open(t, file(t, data)), open(t, file(t, data))
	if !s.Mapped() {
		t.Skipf("no mapping on %s", runtime.GOOS)
	}
	view, _ := readOnly.Bytes(0, 100_000)
	if fault := guarded(func() { s.ReadAt(view, 0) }); fault == nil {
		t.Error("writing into a mapping went unnoticed")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestCloseWaitsForReadersAndEndsThem(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	for kind, s := range sources(t, data) {
		t.Run(kind, func(t *testing.T) {
			var wg sync.WaitGroup
			var reads atomic.Int64
			started := make(chan bool, 64)
			for i := range 64 {
				wg.Add(1)
				go func() {
					defer wg.Done()
					p := make([]byte, 4096*(1+i%8))
					for n := 0; ; n++ {
						off := int64(n) * 16 * 1021 % int64(len(data)-len(p))
						_, err := s.ReadAt(p, off)
						if n == 0 {
							started <- true
						}
						if errors.Is(err, fs.ErrClosed) {
							return
						}
						if err != nil || !bytes.Equal(p, data[off:off+int64(len(p))]) {
							t.Errorf("ReadAt: %v", err)
							return
						}
						s.Bytes(off, 1)
						reads.Add(1)
						runtime.Gosched() // or the others take long to start
					}
				}()
			}
			for range 64 {
				<-started
			}
			for range 2 {
				wg.Add(1)
				go func() {
					defer wg.Done()
					if err := s.Close(); err != nil {
						t.Errorf("Close: %v", err)
					}
				}()
			}
			wg.Wait()
			t.Logf("%d reads", reads.Load())
		})
	}
}

// A reader that blocks for ever must not keep Close from returning.
func TestCloseDoesNotWaitForAForeignReader(t *testing.T) {
	block, entered := make(chan bool), make(chan bool)
	s, err := OfReaderAt(readtest.ReaderFunc(func(p []byte, off int64) (int, error) {
		close(entered)
		<-block
		return len(p), nil
	}), 10)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { _, err := s.ReadAt(make([]byte, 5), 0); done <- err }()
	<-entered
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	close(block)
	<-done
}

func TestEmptyFilesHaveNoBytesToRead(t *testing.T) {
	for kind, s := range sources(t, nil) {
		t.Run(kind, func(t *testing.T) {
			if s.Size() != 0 {
				t.Fatalf("Size = %d", s.Size())
			}
			if b, err := s.Metadata(0, 0); err != nil || len(b) != 0 {
				t.Errorf("Metadata = %q, %v", b, err)
			}
			if _, err := s.ReadAt(make([]byte, 1), 0); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("ReadAt: %v", err)
			}
			if b, ok := s.Bytes(0, 0); ok != s.Mapped() || len(b) != 0 {
				t.Errorf("Bytes = %q, %v", b, ok)
			}
		})
	}
}

// A file larger than an int on 32 bit, and than 32 bits everywhere.
func TestFilesAbove4GiBAreRead(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "js" || runtime.GOOS == "wasip1" {
		t.Skip("no sparse files here without ado")
	}
	name := file(t, []byte("start"))
	const size = 5<<30 + 3
	if err := os.Truncate(name, size); err != nil {
		t.Skipf("no large files here: %v", err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt([]byte("end"), size-3)
	f.Close()
	s := open(t, name)
	if s.Size() != size {
		t.Fatalf("Size = %d", s.Size())
	}
	if fits := uint64(size) <= math.MaxInt; s.Mapped() && !fits {
		t.Error("mapped what does not fit")
	} else if maps && fits && !s.Mapped() {
		t.Error("not mapped")
	}
	if b, err := s.Metadata(size-3, 3); err != nil || string(b) != "end" {
		t.Errorf("Metadata = %q, %v", b, err)
	}
	p := make([]byte, 5)
	if _, err := s.ReadAt(p, 0); err != nil || string(p) != "start" {
		t.Errorf("ReadAt = %q, %v", p, err)
	}
	if b, ok := s.Bytes(1<<32, 2); ok != s.Mapped() || ok && len(b) != 2 {
		t.Errorf("Bytes = %q, %v", b, ok)
	}
	if math.MaxInt == math.MaxInt32 {
		if _, err := s.Metadata(0, 3<<30); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("3 GiB of metadata on 32 bit: %v", err)
		}
		if _, ok := s.Bytes(0, 3<<30); ok {
			t.Error("3 GiB as bytes on 32 bit")
		}
	}
}

func TestReadersThatBreakTheirContractAreErrors(t *testing.T) {
	data := []byte("0123456789abcdef")
	readtest.Misread(t, data, []int64{0, 1, 8, 15}, func(r io.ReaderAt, size int64) error {
		s, err := OfReaderAt(r, size)
		if err != nil {
			return err
		}
		_, err = s.ReadAt(make([]byte, size), 0)
		return err
	})
	for name, r := range map[string]io.ReaderAt{
		"short": readtest.Short(bytes.NewReader(data), 3),
		"io.EOF with last byte": readtest.ReaderFunc(func(p []byte, off int64) (int, error) {
			return copy(p, data[off:]), io.EOF
		}),
	} {
		s, _ := OfReaderAt(r, 16)
		if b, err := s.Metadata(2, 14); err != nil || string(b) != "23456789abcdef" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if _, err := OfReaderAt(nil, 1); err == nil {
		t.Error("no reader, no error")
	}
	if _, err := OfReaderAt(bytes.NewReader(nil), -1); err == nil {
		t.Error("a negative size is no error")
	}
}

func TestMetadataIsNotAllocatedFromAPromise(t *testing.T) {
	s, err := OfReaderAt(bytes.NewReader(make([]byte, 100)), 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	got := readtest.Allocated(func() {
		if _, err := s.Metadata(0, 1<<30); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
	})
	if got > 2*firstRead {
		t.Errorf("%d bytes allocated for 100", got)
	}
}

func TestMetadataTakesFewReads(t *testing.T) {
	for _, c := range []struct{ n, most int }{{0, 0}, {1, 1}, {13_200_000, 1}, {firstRead, 1},
		{firstRead + 1, 2}, {100_000_000, 2}} {
		r := readtest.Count(readtest.ReaderFunc(func(p []byte, off int64) (int, error) {
			p[len(p)-1] = byte(off + int64(len(p)))
			return len(p), nil
		}))
		s, err := OfReaderAt(r, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		var b []byte
		got := readtest.Allocated(func() { b, err = s.Metadata(7, int64(c.n)) })
		if got > 2*int64(c.n)+1<<20 {
			t.Errorf("%d bytes: %d allocated", c.n, got)
		}
		if err != nil || len(b) != c.n || c.n > 0 && b[c.n-1] != byte(7+c.n) {
			t.Errorf("%d bytes: %d, %v", c.n, len(b), err)
		}
		if cap(b) != c.n || r.Calls() > c.most {
			t.Errorf("%d bytes: capacity %d, %d reads", c.n, cap(b), r.Calls())
		}
	}
}
