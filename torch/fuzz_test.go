package torch

import (
	"bytes"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
)

func FuzzOpen(f *testing.F) {
	for _, name := range []string{"values.pt", "legacy4.pt", "kinds.pt", "script.pt",
		"program.pt2", "modules.pt", "dtensors.pt",
		"dcp/.metadata"} {
		f.Add(golden(f, name))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		Detect(bytes.NewReader(b), int64(len(b)))
		walk(OpenBytes(readtest.WithCanary(b), nil))
	})
}

// FuzzPickle fuzzes the machine in an archive of its own.
func FuzzPickle(f *testing.F) {
	f.Add([]byte(dictWith("a", floats(4))), false)
	f.Add([]byte(call(rebuild, storageOf("FloatStorage", "0", 4), "I0\n", ints(2, 2), ints(1, 2),
		"\x89", "N")), true)
	f.Add([]byte(ndarray("(I2\nt", "<i2", "abcd")), false)
	f.Add([]byte("](U\x01aN\x88G\x00\x00\x00\x00\x00\x00\x00\x00\x8a\x09aaaaaaaa\x00V\\u1234\nS'a\\n'\nL12L\nF1.5\nC\x01be"), false)
	f.Add([]byte(legacyStart), true)
	f.Fuzz(func(t *testing.T, pickle []byte, isScript bool) {
		extra := []file{{"x/data/1", "01234567"}}
		if isScript {
			extra = append(extra, file{"x/constants.pkl", string(pickle) + "."})
		}
		walk(OpenBytes(archive(string(pickle), extra...), nil))
		walk(OpenBytes(legacy(string(pickle), "]"+str("0")+"a", count(4)+"0123456789abcdef"), nil))
	})
}
