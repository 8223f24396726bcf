package safetensors

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// The helpers of tests in several files.

var api = readtest.API[*Reader]{
	Open: func(name string, noMap bool) (*Reader, error) {
		return Open(name, &ReaderOptions{NoMap: noMap})
	},
	OpenBytes: func(b []byte) (*Reader, error) { return OpenBytes(b, nil) },
	NewReader: func(r io.ReaderAt, size int64) (*Reader, error) { return NewReader(r, size, nil) },
}

func file(header, data string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header+data...)
}

func golden(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../testdata/safetensors/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// checkpoint returns n tensors of 40 bytes of that value each.
func checkpoint(n int, value float32) (ts []*tensor.Tensor) {
	for i := range n {
		ts = append(ts, tensor.New(string(rune('a'+i)), tensor.Shape{10},
			slices.Repeat([]float32{value}, 10)))
	}
	return ts
}

// writeCheckpoint writes one into three shards or, of one tensor, into one file.
func writeCheckpoint(t *testing.T, dir string, n int, value float32) []string {
	t.Helper()
	names, err := WriteShards(t.Context(), filepath.Join(dir, "m.safetensors"),
		tensor.Of(checkpoint(n, value)...), &ShardOptions{MaxSize: 80})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

const testIndex = "m.safetensors.index.json"
