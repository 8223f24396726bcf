package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tensorfile/tensorfile"
)

// A foreign file is a common one that is not a tensor file, or not by itself.
type foreign struct {
	what, try string
}

// foreignOf recognizes a file by its first bytes; head has all of a short one.
func foreignOf(head []byte, size int64) (foreign, bool) {
	at := func(off int, s string) bool { return len(head) >= off+len(s) && string(head[off:off+len(s)]) == s }
	text := bytes.ToLower(bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))))
	switch {
	case size == 0:
		return foreign{"an empty file", "fetching the file again"}, true
	case at(0, "version https://git-lfs.github.com/spec/"):
		return foreign{"a Git LFS pointer, not the file itself", "git lfs pull"}, true
	case bytes.HasPrefix(text, []byte("<!doctype html")), bytes.HasPrefix(text, []byte("<html")):
		return foreign{"an HTML page", "the address of the file itself, or logging in"}, true
	case at(0, "\x1f\x8b"):
		return foreign{"compressed with gzip", "gunzip, or zcat FILE | tensorfile COMMAND -"}, true
	case at(0, "\x89HDF\r\n\x1a\n"):
		return foreign{"an HDF5 file", "converting it with h5py"}, true
	case at(4, "TFL3"):
		return foreign{"a TFLite model", "converting it with TensorFlow"}, true
	case len(head) > 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5:
		return foreign{"a Python pickle, which runs code when it is loaded", "saving it as safetensors where it was made"}, true
	case isONNX(head):
		return foreign{"an ONNX model", "rten-convert, which makes a .rten of it"}, true
	case at(0, "PK\x03\x04"):
		return foreign{"a zip archive without arrays", "unpacking it"}, true
	}
	return foreign{}, false
}

// isONNX recognizes a ModelProto: ir_version, then the name of a producer or the imports
// of operators.
func isONNX(head []byte) bool {
	if len(head) < 8 || head[0] != 0x08 || head[1] == 0 || head[1] > 20 {
		return false
	}
	n := int(head[3])
	if head[2] != 0x12 || n == 0 || len(head) < 4+n {
		return false
	}
	for _, c := range head[4 : 4+n] {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// explain says what a file is that has no known format.
func (a *app) explain(in *input, err error) error {
	if !errors.Is(err, tensorfile.ErrUnknownFormat) {
		return err
	}
	var r io.ReaderAt = in.raw
	size := int64(1)
	if r == nil {
		f, e := os.Open(in.path)
		if e != nil {
			return err
		}
		defer f.Close()
		if info, e := f.Stat(); e == nil {
			size = info.Size()
		}
		r = f
	}
	head := make([]byte, 512)
	n, e := r.ReadAt(head, 0)
	if e == io.EOF && n == 0 {
		size = 0
	}
	if f, ok := foreignOf(head[:n], size); ok {
		return advise(f.try, fmt.Errorf("%w: it is %s", err, f.what))
	}
	return err
}
