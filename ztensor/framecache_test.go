package ztensor

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// compressedRows is a file of 2,000 rows of 10,000 bytes, in frames of 1 MiB.
func compressedRows(t *testing.T) (file, content []byte) {
	content = make([]byte, 2000*10_000)
	for i := 0; i < len(content); i += 8 {
		binary.LittleEndian.PutUint64(content[i:], uint64(i)*uint64(i))
	}
	file = write(t, &WriterOptions{Level: 1}, func(w *Writer) {
		if err := w.Add(tensor.New("w", tensor.Shape{2000, 10_000}, content)); err != nil {
			t.Fatal(err)
		}
	})
	return file, content
}

func TestSmallSlicesOfFramesAreDecodedOnce(t *testing.T) {
	file, content := compressedRows(t)
	counter := readtest.Count(bytes.NewReader(file))
	r, err := NewReader(counter, int64(len(file)), nil)
	if err != nil {
		t.Fatal(err)
	}
	w := r.Tensor("w")
	counter.Reset()
	if _, err := w.Data.ReadAll(); err != nil {
		t.Fatal(err)
	}
	all := counter.Bytes()
	counter.Reset()
	for row := range int64(2000) {
		s, err := tensor.Slice(w, tensor.At(row))
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.Data.ReadAll()
		if err != nil || !bytes.Equal(b, content[row*10_000:][:10_000]) {
			t.Fatalf("row %d: %v", row, err)
		}
	}
	if n := counter.Bytes(); n > 3*all {
		t.Errorf("rows read %d bytes, the whole %d", n, all)
	}
	counter.Reset()
	s, err := tensor.Slice(w, tensor.Range{Start: 1000, Stop: 1010})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := s.Data.ReadAll(); err != nil ||
		!bytes.Equal(b, content[1000*10_000:][:10*10_000]) {
		t.Fatal(err)
	}
	if n := counter.Bytes(); n > all/5 {
		t.Errorf("ten rows read %d of %d bytes", n, all)
	}
}

// Rows in random order read, and so decode, at most three times as much as the file.
func TestSlicesInRandomOrderDecodeLittle(t *testing.T) {
	rows := 400
	if os.Getenv("TENSORFILE_MEASURE") != "" {
		rows = 10_000
	} else {
		t.Log("a smaller file than the 100 MB of TENSORFILE_MEASURE=1")
	}
	content := make([]byte, rows*10_000)
	for i := 0; i < len(content); i += 8 {
		binary.LittleEndian.PutUint64(content[i:], uint64(i)*uint64(i))
	}
	file := write(t, &WriterOptions{Level: 1}, func(w *Writer) {
		if err := w.Add(tensor.New("w", tensor.Shape{int64(rows), 10_000}, content)); err != nil {
			t.Fatal(err)
		}
	})
	counter := readtest.Count(bytes.NewReader(file))
	r, err := NewReader(counter, int64(len(file)), nil)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	p := make([]byte, 10_000)
	for range 2000 {
		row := rng.IntN(rows)
		if _, err := r.Tensor("w").Data.ReadAt(p, int64(row)*10_000); err != nil ||
			!bytes.Equal(p, content[row*10_000:][:10_000]) {
			t.Fatalf("row %d: %v", row, err)
		}
	}
	if n := counter.Bytes(); n > 3*int64(len(file)) {
		t.Errorf("2,000 rows read %d bytes of a file of %d", n, len(file))
	}
}

func TestConcurrentSlicesOfFramesHaveTheirBytes(t *testing.T) {
	file, content := compressedRows(t)
	r, err := OpenBytes(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for k := range int64(4) {
		all.Go(func() {
			p := make([]byte, 777)
			for i := range int64(200) {
				off := (k*7_654_321 + i*98_765) % int64(len(content)-len(p))
				if _, err := r.Tensor("w").Data.ReadAt(p, off); err != nil ||
					!bytes.Equal(p, content[off:][:len(p)]) {
					t.Errorf("at %d: %v", off, err)
				}
			}
		})
	}
	all.Wait()
}
