package npz

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/internal/readtest/lifecycle"
	"github.com/tensorfile/tensorfile/tensor"
)

func describe(r *Reader) string {
	var b strings.Builder
	for x := range r.Tensors() {
		if x.Size() > 1<<16 {
			continue
		}
		p, err := x.Data.ReadAll()
		st, _ := x.Data.Stored()
		fmt.Fprintln(&b, x.Name, x.DType, x.Shape, x.Order, p, err, st)
	}
	for name, x := range r.Blobs() {
		fmt.Fprintln(&b, name, x.Size())
	}
	fmt.Fprintln(&b, r.Warnings(), r.Version(), r.Len())
	return b.String()
}

// walk reads everything that is not absurdly large.
var walk = lifecycle.Walker(describe)

func TestHostileArchivesAreRefused(t *testing.T) {
	good := array("{'descr': '|u1', 'fortran_order': False, 'shape': (4,)}", "abcd")
	set := func(f func(h *zip.FileHeader)) func(*zip.FileHeader) { return f }
	for name, c := range map[string]struct {
		b         []byte
		open, use error // nil: no error
	}{
		"good": {archive(t, entry{"a.npy", good, nil},
			entry{"note.txt", []byte("x"), nil}), nil, nil},
		"a member twice": {archive(t, entry{"a.npy", good, nil},
			entry{"a.npy", good, nil}), tensor.ErrMalformed, nil},
		"cut": {archive(t, entry{"a.npy", good, nil})[:60],
			io.ErrUnexpectedEOF, nil},
		"no array inside": {archive(t, entry{"a.npy", []byte("pickle"), nil}),
			io.ErrUnexpectedEOF, nil},
		"bytes after the elements": {archive(t, entry{"a.npy", append(good, 'x'), nil}),
			tensor.ErrMalformed, nil},
		"too few elements": {archive(t, entry{"a.npy", good[:len(good)-1], nil}),
			io.ErrUnexpectedEOF, nil},
		"encrypted": {archive(t,
			entry{"a.npy", good, set(func(h *zip.FileHeader) { h.Flags |= 1 })}),
			errors.ErrUnsupported, nil},
		"another method": {archive(t,
			entry{"a.npy", good, set(func(h *zip.FileHeader) { h.Method = 12 })}),
			errors.ErrUnsupported, nil},
		"two sizes": {archive(t,
			entry{"a.npy", good, set(func(h *zip.FileHeader) { h.UncompressedSize64++ })}),
			tensor.ErrMalformed, nil},
		"beyond the file": {archive(t,
			entry{"a.npy", good,
				set(func(h *zip.FileHeader) {
					h.UncompressedSize64 += 1 << 40
					h.CompressedSize64 += 1 << 40
				})}), io.ErrUnexpectedEOF, nil},
		"2^63 bytes": {archive(t,
			entry{"a.npy", good,
				set(func(h *zip.FileHeader) {
					h.UncompressedSize64, h.CompressedSize64 = 1<<63, 1<<63
				})}), tensor.ErrMalformed, nil},
		"a wrong CRC": {archive(t,
			entry{"a.npy", good, set(func(h *zip.FileHeader) { h.CRC32++ })}), nil,
			tensor.ErrChecksum},
		"not deflated": {archive(t,
			entry{"a.npy", good,
				set(func(h *zip.FileHeader) {
					h.Method = zip.Deflate
					h.UncompressedSize64 = 200
				})}), tensor.ErrMalformed, nil},
		"a blob that is not deflated": {archive(t,
			entry{"a", []byte("\xff\xff\xff"),
				set(func(h *zip.FileHeader) {
					h.Method = zip.Deflate
					h.UncompressedSize64 = 200
				})}), nil, tensor.ErrMalformed},
	} {
		r, err := OpenBytes(readtest.WithCanary(c.b), nil)
		if c.open != nil {
			if !errors.Is(err, c.open) && !(name == "not deflated" && err != nil) {
				t.Errorf("%s: %v, want %v", name, err, c.open)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, err = r.Verify(t.Context(), nil)
		if c.use == nil && err != nil || c.use != nil && !errors.Is(err, c.use) {
			t.Errorf("%s: Verify: %v, want %v", name, err, c.use)
		}
		api.Same(t, c.b, describe)
	}
}

// NumPy refuses a member whose local header has another name than the directory.
func TestOtherNameInLocalHeaderIsMalformed(t *testing.T) {
	b := archive(t, entry{name: "a.npy", data: array("{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }", "x")})
	if _, err := OpenBytes(b, nil); err != nil {
		t.Fatal(err)
	}
	other := bytes.Replace(b, []byte("a.npy"), []byte("b.npy"), 1)
	if _, err := OpenBytes(other, nil); !errors.Is(err, tensor.ErrMalformed) {
		t.Error(err)
	}
}

// NumPy reads an archive that other bytes follow.
func TestBytesAfterTheEndAreAWarning(t *testing.T) {
	b := archive(t, entry{name: "a.npy", data: array("{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }", "x")})
	size := int64(len(b))
	b = append(b, "more"...)
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	var at *tensor.FormatError
	if w := r.Warnings(); len(w) != 1 || !errors.As(w[0], &at) || at.Offset != size {
		t.Errorf("%v, and the archive ends at %d", w, size)
	}
	if _, err := OpenBytes(b, &ReaderOptions{Strict: true}); !errors.Is(err, tensor.ErrMalformed) {
		t.Errorf("strict: %v", err)
	}
}

// A member that claims more than it holds, and one that holds far more
// than its archive's size suggests.
func TestMembersThatExpandAreBounded(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out, &WriterOptions{Compress: true})
	if err := w.Add(tensor.New("zeros", tensor.Shape{8 << 20},
		make([]uint8, 8<<20))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b := out.Bytes()
	if n := readtest.Allocated(func() {
		r, err := OpenBytes(b, nil)
		if err != nil || r.Len() != 1 {
			t.Fatal(err)
		}
	}); n > 1<<20 {
		t.Errorf("listing allocated %d bytes", n)
	}
	r, err := OpenBytes(b, &ReaderOptions{Limits: tensor.Limits{MaxDecoded: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Tensor("zeros").Data.ReadAll(); !errors.Is(err, tensor.ErrLimit) {
		t.Errorf("beyond MaxDecoded: %v", err)
	}
	if _, err := OpenBytes(overstated(t, 1<<40), nil); !errors.Is(err, tensor.ErrMalformed) {
		t.Errorf("more than deflate can hold: %v", err)
	}
	r, err = OpenBytes(overstated(t, 1<<15), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Tensor("a").Data.ReadAll(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("bytes that are not there: %v", err)
	}
}

// overstated is an archive whose only member, a header, claims n elements.
func overstated(t *testing.T, n int64) []byte {
	t.Helper()
	head := array(fmt.Sprintf("{'descr': '|u1', 'fortran_order': False, 'shape': (%d,)}", n), "")
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	m, err := w.CreateHeader(&zip.FileHeader{Name: "a.npy", Method: zip.Deflate})
	if err != nil {
		t.Fatal(err)
	}
	m.Write(head)
	w.Close()
	z := packed.Bytes()
	// The directory's uncompressed size, made to agree with the header.
	dir := bytes.LastIndex(z, []byte("PK\x01\x02"))
	extra := binary.LittleEndian.AppendUint16(nil, 1)
	extra = binary.LittleEndian.AppendUint16(extra, 8)
	extra = binary.LittleEndian.AppendUint64(extra, uint64(int64(len(head))+n))
	binary.LittleEndian.PutUint32(z[dir+24:], 1<<32-1)
	binary.LittleEndian.PutUint16(z[dir+30:], uint16(len(extra)))
	end := bytes.LastIndex(z, []byte("PK\x05\x06"))
	forged := append(append(bytes.Clone(z[:end]), extra...), z[end:]...)
	binary.LittleEndian.PutUint32(forged[end+len(extra)+12:], uint32(end-dir+len(extra)))
	return forged
}

func TestDamagedFilesAreReadOrRefused(t *testing.T) {
	for _, name := range []string{"none.npz"} {
		b := golden(t, name)
		cut, changed := readtest.Damage(t, b, 0, min(len(b), 128),
			func(b []byte) error { return walk(OpenBytes(readtest.WithCanary(b), nil)) })
		if cut.Accepted != 0 {
			t.Errorf("%s: %d truncated files were accepted", name, cut.Accepted)
		}
		t.Logf("%s: %.1f%% of changed headers open", name, changed.Accepts())
	}
	if testing.Short() {
		return
	}
	good := array("{'descr': '>u2', 'fortran_order': True, 'shape': (2,1)}", "abcd")
	var out bytes.Buffer
	w := NewWriter(&out, &WriterOptions{Compress: true})
	if err := w.Add(tensor.New("x", tensor.Shape{3}, []uint32{1, 2, 3})); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{archive(t, entry{"a.npy", good, nil}), out.Bytes(),
		golden(t, "one-be-deflated.npz")} {
		cut, _ := readtest.Damage(t, b, 0, len(b),
			func(b []byte) error { return walk(OpenBytes(readtest.WithCanary(b), nil)) })
		if cut.Accepted != 0 {
			t.Errorf("%d truncated archives were accepted", cut.Accepted)
		}
	}
}

func TestLimitsAreKept(t *testing.T) {
	b := golden(t, "stored.npz")
	for name, l := range map[string]tensor.Limits{"tensors": {MaxTensors: 5},
		"names": {MaxName: 5}, "metadata": {MaxMetadata: 20}, "rank": {MaxRank: 2}} {
		if _, err := OpenBytes(b, &ReaderOptions{Limits: l}); !errors.Is(err, tensor.ErrLimit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenBytes(b, &ReaderOptions{Limits: tensor.Limits{MaxTensors: -1}}); err == nil {
		t.Error("a negative limit")
	}
}

// A disk that fails at every byte, and what the writer refuses.
func TestFailedWritesAreErrors(t *testing.T) {
	ts := []*tensor.Tensor{tensor.New("a", tensor.Shape{100}, make([]float32, 100)),
		tensor.New("b", nil, []float64{1})}
	for _, compress := range []bool{false, true} {
		if err := readtest.FailedWrites(func(w io.Writer) error {
			nw := NewWriter(w, &WriterOptions{Compress: compress})
			for _, x := range ts {
				if err := nw.Add(x); err != nil {
					return err
				}
			}
			return nw.Close()
		}); err != nil {
			t.Error(err)
		}
	}
	channels := tensor.New("c", tensor.Shape{1, 2, 2, 2}, make([]uint8, 8))
	channels.Order = tensor.Order{0, 2, 3, 1}
	for name, c := range map[string]struct {
		x    *tensor.Tensor
		want error
	}{
		"nil":           {nil, tensor.ErrNoTensor},
		"the same name": {tensor.New("a", tensor.Shape{1}, []int8{1}), tensor.ErrDuplicate},
		"with a suffix": {tensor.New("a.npy", tensor.Shape{1}, []int8{1}), tensor.ErrDuplicate},
		"a NUL":         {tensor.New("a\x00b", tensor.Shape{1}, []int8{1}), errors.ErrUnsupported},
		"not UTF-8":     {tensor.New("\xff", tensor.Shape{1}, []int8{1}), errors.ErrUnsupported},
		"too long": {tensor.New(strings.Repeat("x", 1<<16), tensor.Shape{1}, []int8{1}),
			errors.ErrUnsupported},
		"bfloat16": {tensor.New("b", tensor.Shape{1}, []tensor.BFloat16{1}),
			errors.ErrUnsupported},
		"channels-last": {channels, errors.ErrUnsupported},
		"sparse": {&tensor.Tensor{Name: "b", DType: tensor.F32, Scheme: "sparse_csr"},
			errors.ErrUnsupported},
		"wrong length": {tensor.New("b", tensor.Shape{3}, []int8{1}), tensor.ErrMalformed},
	} {
		w := NewWriter(io.Discard, nil)
		if err := w.Add(ts[0]); err != nil {
			t.Fatal(err)
		}
		if err := w.Check(c.x); !errors.Is(err, c.want) {
			t.Errorf("%s: Check: %v, want %v", name, err, c.want)
		}
		if err := w.Add(c.x); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	w := NewWriter(io.Discard, nil)
	w.Abort()
	if err := w.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Close after Abort: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		walk(OpenBytes(readtest.WithCanary(b), nil))
	})
}

// addSeeds adds archives of arrays of every dtype in both byte orders, stored and
// deflated.
func addSeeds(f *testing.F) {
	f.Helper()
	for _, name := range []string{"none.npz", "one-le-stored.npz", "one-be-stored.npz",
		"one-le-deflated.npz", "one-be-deflated.npz", "words.npz"} {
		f.Add(golden(f, name))
	}
	arrays, err := filepath.Glob("../testdata/npy/*.npy")
	if err != nil || len(arrays) < 30 {
		f.Fatalf("%d arrays, %v", len(arrays), err)
	}
	for _, name := range arrays {
		f.Add(archive(f, entry{"a.npy", golden(f, filepath.Base(name)), nil}))
	}
}

// An archive that opens and is written again opens with the same content.
func FuzzRoundTrip(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := OpenBytes(b, nil)
		if err != nil || walk(r, nil) != nil {
			return
		}
		if r, err = OpenBytes(b, nil); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		w := NewWriter(&out, nil)
		for x := range r.Tensors() {
			if x.Size() > 1<<20 || x.DType == tensor.Unknown || !utf8.ValidString(x.Name) {
				return
			}
			err := w.Add(x)
			switch tensor.ClassOf(err) {
			case tensor.ClassChecksum, tensor.ClassMalformed, tensor.ClassTruncated:
				// streams check the end of a member, and other reading does not unless
				// Strict
				return
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := OpenBytes(out.Bytes(), &ReaderOptions{Strict: true})
		if err != nil || again.Len() != r.Len() {
			t.Fatal(err)
		}
		for x := range r.Tensors() {
			y := again.Tensor(x.Name)
			p, err1 := x.Data.ReadAll()
			q, err2 := y.Data.ReadAll()
			if y.DType != x.DType || !y.Shape.Equal(x.Shape) ||
				y.Order.RowMajor() != x.Order.RowMajor() ||
				string(p) != string(q) || err1 != nil || err2 != nil {
				t.Fatalf("%q has changed: %v %v", x.Name, err1, err2)
			}
		}
	})
}

// Many small members that are compressed do not each take a decoder.
func TestHeadersShareADecoder(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out, &WriterOptions{Compress: true})
	for i := range 500 {
		if err := w.Add(tensor.New(fmt.Sprint(i), tensor.Shape{1}, []float32{1})); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	n := readtest.Allocated(func() {
		if _, err := OpenBytes(out.Bytes(), nil); err != nil {
			t.Fatal(err)
		}
	})
	if most := int64(1<<20 + 16*out.Len()); n > most {
		t.Errorf("%d bytes allocated for a file of %d", n, out.Len())
	}
}

// sharedMember is an archive of n directory entries over one deflated array of zeros.
func sharedMember(t testing.TB, n int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out, &WriterOptions{Compress: true})
	if err := w.Add(tensor.New("00000", tensor.Shape{1 << 16}, make([]uint8, 1<<16))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b := out.Bytes()
	dir, end := bytes.LastIndex(b, []byte("PK\x01\x02")), bytes.LastIndex(b, []byte("PK\x05\x06"))
	forged := bytes.Clone(b[:dir])
	for i := range n {
		e := bytes.Clone(b[dir:end])
		copy(e[46:], fmt.Sprintf("%05d", i))
		forged = append(forged, e...)
	}
	tail := bytes.Clone(b[end:])
	binary.LittleEndian.PutUint16(tail[8:], uint16(n))
	binary.LittleEndian.PutUint16(tail[10:], uint16(n))
	binary.LittleEndian.PutUint32(tail[12:], uint32(n*(end-dir)))
	return append(forged, tail...)
}

func TestOverlappingMembersAreMalformed(t *testing.T) {
	if r, err := OpenBytes(sharedMember(t, 1), nil); err != nil || r.Len() != 1 {
		t.Fatal(err)
	}
	for _, n := range []int{2, 2000} {
		var fe *tensor.FormatError
		if _, err := OpenBytes(sharedMember(t, n), nil); !errors.Is(err, tensor.ErrMalformed) ||
			!errors.As(err, &fe) || fe.Field != `members["00001.npy"]` {
			t.Errorf("%d entries over one member: %v", n, err)
		}
	}
}
