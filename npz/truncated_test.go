package npz

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"hash/crc32"
	"io"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// truncatedDeflate is an archive of one deflated array of four elements whose
// compressed stream ends without its last block, after so many bytes of elements.
func truncatedDeflate(t *testing.T, descr string, elements int) []byte {
	t.Helper()
	whole := array("{'descr': '"+descr+"', 'fortran_order': False, 'shape': (4,), }", "aAbBcCdD")
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(whole[:len(whole)-8+elements]); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return archive(t, entry{"a.npy", b.Bytes(), func(h *zip.FileHeader) {
		h.Method, h.CRC32, h.UncompressedSize64 = zip.Deflate, crc32.ChecksumIEEE(whole),
			uint64(len(whole))
	}})
}

// readsUntilError reads r to its error, which must come after at most one empty read in
// a row.
func readsUntilError(t *testing.T, r io.Reader) (n int, err error) {
	t.Helper()
	p := make([]byte, 3)
	for empty := 0; empty < 2; {
		m, err := r.Read(p)
		if n += m; err != nil {
			return n, err
		}
		if empty++; m > 0 {
			empty = 0
		}
	}
	t.Error("Read returned (0, nil) twice")
	return n, nil
}

func TestTruncatedDeflateStreamEndsInAnError(t *testing.T) {
	for _, descr := range []string{"<u2", ">u2"} {
		for _, elements := range []int{0, 1, 2, 4, 7} {
			r, err := OpenBytes(truncatedDeflate(t, descr, elements), nil)
			if err != nil {
				t.Fatal(err)
			}
			data := r.Tensor("a").Data
			in, err := data.Open()
			if err != nil {
				t.Fatal(err)
			}
			n, err := readsUntilError(t, in)
			if !errors.Is(err, io.ErrUnexpectedEOF) || n > elements {
				t.Fatalf("%s, %d bytes: %d bytes were read, then %v", descr, elements, n, err)
			}
			if _, err := data.ReadAll(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s, %d bytes: ReadAll: %v", descr, elements, err)
			}
			if _, err := data.ReadAt(make([]byte, 8), 0); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s, %d bytes: ReadAt: %v", descr, elements, err)
			}
			if _, err := r.Verify(t.Context(), nil); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s, %d bytes: Verify: %v", descr, elements, err)
			}
			if x, err := tensor.Load[uint16](r.Tensor("a")); err == nil {
				t.Errorf("%s, %d bytes: loaded as %v", descr, elements, x)
			}
		}
	}
}

// All elements are there and the end of the compressed stream is not: what reads to the
// end says so, as an error that has a class.
func TestMissingEndOfDeflateStreamIsTruncated(t *testing.T) {
	for _, descr := range []string{"<u2", ">u2"} {
		r, err := OpenBytes(truncatedDeflate(t, descr, 8), nil)
		if err != nil {
			t.Fatal(err)
		}
		in, err := r.Tensor("a").Data.Open()
		if err != nil {
			t.Fatal(err)
		}
		if n, err := readsUntilError(t, in); n != 8 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %d bytes were read, then %v", descr, n, err)
		}
		if _, err := r.Verify(t.Context(), nil); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: Verify: %v", descr, err)
		}
		err = NewWriter(io.Discard, nil).Add(r.Tensor("a"))
		if tensor.ClassOf(err) != tensor.ClassTruncated {
			t.Errorf("%s: Add: %v", descr, err)
		}
	}
}

// Compressed data that is damaged within the header of an array is damage of the file,
// not an error of the system.
func TestDamagedDeflateOfAHeaderIsMalformed(t *testing.T) {
	b := truncatedDeflate(t, "<u2", 8)
	begin := 30 + len("a.npy")
	b[begin] |= 6 // a block of the reserved kind
	_, err := OpenBytes(b, nil)
	if tensor.ClassOf(err) != tensor.ClassMalformed {
		t.Errorf("%s: %v", tensor.ClassOf(err), err)
	}
}
