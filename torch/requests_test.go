package torch

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// aligned is an archive as torch lays it out: data at multiples of 64, by an extra
// field of the header, and a descriptor after each member. Storage i has n float32 of
// value i.
func aligned(t *testing.T, storages, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	add := func(name string, data []byte) {
		t.Helper()
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		at := b.Len()
		if at > 0 {
			at += 16 // of the descriptor, which is written with the next header
		}
		pad := (64 - (at+30+len(name)+4)%64) % 64
		extra := append([]byte{'F', 'B', byte(pad), 0}, bytes.Repeat([]byte("Z"), pad)...)
		m, err := w.CreateHeader(&zip.FileHeader{Name: name, Extra: extra})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	pickle := "\x80\x02}("
	for i := range storages {
		s := storageOf("FloatStorage", fmt.Sprint(i), int64(n))
		pickle += str(fmt.Sprintf("layer.%d.weight", i)) +
			tensorOf(s, 0, []int64{int64(n)}, []int64{1})
	}
	add("x/data.pkl", []byte(pickle+"u."))
	add("x/byteorder", []byte("little"))
	for i := range storages {
		add(fmt.Sprint("x/data/", i), bytes.Repeat([]byte{byte(i)}, 4*n))
	}
	add("x/version", []byte("3\n"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Opening reads the directory and the pickle, not the header of every storage; a tensor
// is read with its header.
func TestOpeningReadsNoHeaderOfAStorage(t *testing.T) {
	const storages, n = 200, 10_000
	b := aligned(t, storages, n)
	c := readtest.NewCounter(b)
	r, err := NewReader(c, int64(len(b)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Len() != storages || c.Calls() > 20 || c.Bytes() > 200_000 {
		t.Errorf("%d tensors by %d reads of %d bytes", r.Len(), c.Calls(), c.Bytes())
	}
	const window = 64 << 10 // at both ends, by which package remote begins
	for _, x := range c.Reads() {
		if end := x.Off + int64(x.N); end > window && x.Off < int64(len(b))-window {
			t.Errorf("%d bytes at %d are far from both ends", x.N, x.Off)
		}
	}
	c.Reset()
	for i := range 5 {
		p, err := r.Tensor(fmt.Sprintf("layer.%d.weight", i)).Data.ReadAll()
		if err != nil || !bytes.Equal(p, bytes.Repeat([]byte{byte(i)}, 4*n)) {
			t.Fatalf("tensor %d: %v", i, err)
		}
	}
	if c.Calls() > 10 || c.Bytes() > 5*(4*n+64) {
		t.Errorf("%d reads of %d bytes for five tensors", c.Calls(), c.Bytes())
	}
}

// A local header by which the data begin elsewhere is found when the data are read.
func TestDeducedHeadersAreCheckedWhenRead(t *testing.T) {
	b := aligned(t, 3, 100)
	at := bytes.LastIndex(b[:bytes.Index(b, []byte("PK\x01\x02"))], []byte("x/data/1")) - 30
	for what, change := range map[string]func(header []byte){
		"a longer name":  func(h []byte) { h[26]++ },
		"another name":   func(h []byte) { h[30]++ },
		"a larger extra": func(h []byte) { binary.LittleEndian.PutUint16(h[28:], 1000) },
		"no header":      func(h []byte) { h[0] = 0 },
	} {
		bad := bytes.Clone(b)
		change(bad[at:])
		r, err := OpenBytes(bad, nil)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		x := r.Tensor("layer.1.weight")
		if _, err := x.Data.ReadAll(); !errors.Is(err, tensor.ErrMalformed) {
			t.Errorf("%s: read: %v", what, err)
		}
		if _, ok := x.Data.Bytes(); ok {
			t.Errorf("%s: borrowed", what)
		}
		if report, err := r.Verify(t.Context(), nil); !errors.Is(err, tensor.ErrMalformed) ||
			len(report.Findings) == 0 {
			t.Errorf("%s: Verify: %v", what, err)
		}
		if _, err := r.Tensor("layer.0.weight").Data.ReadAll(); err != nil {
			t.Errorf("%s: another tensor: %v", what, err)
		}
	}
}

// A tensor in chunks is assembled as it is read: a piece takes the bytes of the piece.
func TestDistributedIsStreamed(t *testing.T) {
	const rows, columns, ranks = 512, 256, 4
	files := map[string]*readtest.Counter{}
	var chunks []chunkFile
	sizes := map[string]int64{}
	for i := range ranks { // half of the rows, and half of the columns
		data := bytes.Repeat([]byte{byte('a' + i)}, rows*columns/ranks*2)
		archive := chunkArchive([]int64{rows / 2, columns / 2}, string(data))
		name := fmt.Sprintf("__%d_0.distcp", i)
		files[name], sizes[name] = readtest.NewCounter([]byte(archive)), int64(len(archive))
		chunks = append(chunks, chunkFile{
			[]int64{int64(i/2) * rows / 2, int64(i%2) * columns / 2},
			[]int64{rows / 2, columns / 2}, name, 0, int64(len(archive))})
	}
	r, err := OpenBytes([]byte(metadata([]int64{rows, columns}, chunks, "")), &ReaderOptions{
		Companion: func(name string) (io.ReaderAt, int64, error) {
			return files[name], sizes[name], nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	read := func() (n int64) {
		for _, c := range files {
			n += c.Bytes()
		}
		return n
	}
	if n := read(); n > 10_000 {
		t.Errorf("opening reads %d bytes", n)
	}
	x := r.Tensor("w")
	piece := make([]byte, 2*columns)
	before := read()
	for row := range int64(rows) {
		if _, err := x.Data.ReadAt(piece, row*2*columns); err != nil {
			t.Fatal(err)
		}
		left := byte('a' + row/(rows/2)*2)
		if piece[0] != left || piece[columns] != left+1 {
			t.Fatalf("row %d begins with %q and %q", row, piece[0], piece[columns])
		}
		if row == 0 {
			if n := read() - before; n > 2*columns+200 {
				t.Errorf("a row reads %d bytes", n)
			}
		}
	}
	if n := read() - before; n > x.Size()+1000 {
		t.Errorf("all rows read %d bytes of %d", n, x.Size())
	}
}
