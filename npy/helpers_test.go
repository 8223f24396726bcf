package npy

import (
	"encoding/binary"
	"io"
	"os"
	"testing"

	"github.com/tensorfile/tensorfile/internal/numpy"
	"github.com/tensorfile/tensorfile/internal/readtest"
)

// The helpers of tests in several files.

var api = readtest.API[*Reader]{
	Open: func(name string, noMap bool) (*Reader, error) {
		return Open(name, &ReaderOptions{NoMap: noMap})
	},
	OpenBytes: func(b []byte) (*Reader, error) { return OpenBytes(b, nil) },
	NewReader: func(r io.ReaderAt, size int64) (*Reader, error) { return NewReader(r, size, nil) },
}

// array is a .npy file of version 1.
func array(dict, data string) []byte {
	b := append([]byte(numpy.Magic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(dict)))
	return append(b, dict+data...)
}

func golden(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../testdata/npy/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
