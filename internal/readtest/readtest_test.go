package readtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/source"
)

var api = API[*source.Source]{
	Open:      source.Open,
	OpenBytes: func(b []byte) (*source.Source, error) { return source.OfBytes(b), nil },
	NewReader: source.OfReaderAt,
}

func all(s *source.Source) string {
	b, err := s.Metadata(0, s.Size())
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestEachOpensFourForms(t *testing.T) {
	data := []byte(strings.Repeat("0123456789", 10))
	var forms []string
	api.Each(t, data, func(t *testing.T, s *source.Source) {
		if got := all(s); got != string(data) {
			t.Errorf("%q", got)
		}
		forms = append(forms, t.Name()[strings.LastIndex(t.Name(), "/")+1:])
	})
	if got := fmt.Sprint(forms); got != "[mapped unmapped bytes reader]" {
		t.Error(got)
	}
	if got := api.Same(t, data, all); got != string(data) {
		t.Errorf("%q", got)
	}
}

func TestCounterSeesRequestsNotShortAnswers(t *testing.T) {
	data := make([]byte, 100)
	for _, s := range Sources(t, data) {
		if s.Reader == nil {
			continue
		}
		r, err := source.OfReaderAt(s.Reader, s.Size)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []Read{{0, 100}, {40, 20}, {60, 20}} {
			if _, err := r.Metadata(c.Off, int64(c.N)); err != nil {
				t.Fatal(err)
			}
		}
		if got := fmt.Sprint(s.Reader.Reads()); got != "[{0 100} {40 20} {60 20}]" ||
			s.Reader.Calls() != 3 || s.Reader.Bytes() != 140 {
			t.Errorf("%s, %d calls, %d bytes", got, s.Reader.Calls(), s.Reader.Bytes())
		}
		s.Reader.Reset()
		if s.Reader.Calls() != 0 {
			t.Error("Reset forgets nothing")
		}
	}
}

func TestMisbehavingReadersMisbehave(t *testing.T) {
	data := []byte("0123456789")
	r := bytes.NewReader(data)
	p := make([]byte, 6)
	for _, c := range []struct {
		name string
		r    io.ReaderAt
		off  int64
		n    int
		err  error
	}{
		{"short", Short(r, 4), 0, 4, nil},
		{"failing before", Failing(r, 6), 0, 6, nil},
		{"failing across", Failing(r, 6), 1, 5, ErrInjected},
		{"failing behind", Failing(r, 6), 6, 0, ErrInjected},
		{"truncating across", Truncating(r, 6), 2, 4, io.EOF},
		{"truncating behind", Truncating(r, 6), 9, 0, io.EOF},
		{"slow", Slow(r, 1), 0, 6, nil},
	} {
		if n, err := c.r.ReadAt(p, c.off); n != c.n || err != c.err {
			t.Errorf("%s: %d, %v", c.name, n, err)
		}
	}
	ch := Changing(r)
	ch.ReadAt(p, 0)
	if string(p) != "012345" {
		t.Errorf("changed on the first read: %q", p)
	}
	ch.ReadAt(p, 4)
	if p[0] != ^byte('4') || p[2] != '6' {
		t.Errorf("not changed on the second read: %q", p)
	}
}

func TestMisreadIsRefusedBySource(t *testing.T) {
	data := make([]byte, 100)
	Misread(t, data, []int64{0, 1, 50, 99}, func(r io.ReaderAt, size int64) error {
		s, err := source.OfReaderAt(r, size)
		if err != nil {
			return err
		}
		_, err = s.Metadata(0, size)
		return err
	})
}

// recorder is a testing.TB that only remembers that something was wrong.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestDamageReachesEveryBitAndReportsPanics(t *testing.T) {
	if testing.Short() {
		t.Skip("-short takes a sample")
	}
	data := []byte("abc")
	tried := 0
	r := &recorder{TB: t}
	cut, changed := Damage(r, data, 1, 3, func(b []byte) error {
		tried++
		if b = b[:cap(b)]; len(b) > 3 && string(b[3:]) != Canary {
			t.Fatalf("no canary behind the bytes: %q", b)
		}
		switch {
		case len(b) < 3:
			return errors.New("too short")
		case b[1] == 0xff:
			panic("ff")
		case b[0] != 'a':
			t.Fatalf("byte 0 was touched: %q", b)
		}
		return nil
	})
	if want := 3 + 16 + 8; tried != want {
		t.Errorf("tried %d, want %d", tried, want)
	}
	if cut != (Toll{0, 3}) || changed != (Toll{23, 1}) || cut.Accepts() != 0 {
		t.Errorf("%+v %+v", cut, changed)
	}
	if len(r.errors) != 1 || !strings.Contains(r.errors[0], "set to 0xff byte 1") {
		t.Errorf("%q", r.errors)
	}
	if string(data) != "abc" {
		t.Errorf("the original is now %q", data)
	}
}

func TestFailedWritesAreReportedToTheTest(t *testing.T) {
	for _, size := range []int{0, 1, 100, 10_000} {
		good := func(w io.Writer) error {
			for i := 0; i < size; i += 50 {
				p := make([]byte, min(50, size-i))
				if n, err := w.Write(p); err != nil {
					return err
				} else if n < len(p) {
					return io.ErrShortWrite
				}
			}
			return nil
		}
		if err := FailedWrites(good); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		careless := func(w io.Writer) error {
			if size > 0 {
				good(w)
			}
			return nil
		}
		if err := FailedWrites(careless); (err == nil) != (size == 0) {
			t.Errorf("%d bytes, errors dropped: %v", size, err)
		}
	}
	forgetful := func(w io.Writer) error {
		_, err := w.Write(make([]byte, 10))
		return err
	}
	if err := FailedWrites(forgetful); err == nil {
		t.Error("a short write went unnoticed")
	}
}

var sink []byte

func TestAllocatedCountsWhatAFunctionAllocates(t *testing.T) {
	if got := Allocated(func() { sink = make([]byte, 1<<20) }); got < 1<<20 || got > 2<<20 {
		t.Errorf("Allocated = %d", got)
	}
	sink = nil
}

func TestPeakHeapIsWhatLivesAtOnce(t *testing.T) {
	Measure(t)
	got := PeakHeap(func() {
		for range 20 {
			sink = make([]byte, 8<<20)
			clear(sink)
		}
		sink = nil
	})
	if got < 8<<20 || got > 25<<20 {
		t.Errorf("PeakHeap = %d", got)
	}
}

func TestAllocationsAreCountedOnAllGoroutines(t *testing.T) {
	var kept [2][]byte
	got := Allocations(func() {
		done := make(chan bool)
		for i := range kept {
			go func() {
				for range 100 {
					kept[i] = make([]byte, 100)
				}
				done <- true
			}()
		}
		<-done
		<-done
	})
	if got < 200 {
		t.Errorf("%d allocations of 200", got)
	}
}
