package tensorfile

import "bytes"

// Recognize returns what a common file is that is not a tensor file, or not by itself,
// and what to do about it, such as a Git LFS pointer; "" where it is not known. head is
// the first 512 bytes, or all of a shorter file.
func Recognize(head []byte, size int64) (what, advice string) {
	at := func(off int, s string) bool {
		return len(head) >= off+len(s) &&
			string(head[off:off+len(s)]) == s
	}
	text := bytes.ToLower(bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))))
	switch {
	case size == 0:
		return "an empty file", "fetching the file again"
	case at(0, "version https://git-lfs.github.com/spec/"):
		return "a Git LFS pointer, not the file itself", "git lfs pull"
	case bytes.HasPrefix(text, []byte("<!doctype html")), bytes.HasPrefix(text, []byte("<html")):
		return "an HTML page", "the address of the file itself, or logging in"
	case at(0, "\x1f\x8b"):
		return "compressed with gzip", "gunzip, or zcat FILE | tensorfile COMMAND -"
	case at(0, "\x89HDF\r\n\x1a\n"):
		return "an HDF5 file", "converting it with h5py"
	case at(4, "TFL3"):
		return "a TFLite model", "converting it with TensorFlow"
	case len(head) > 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5:
		return "a Python pickle, which runs code when it is loaded",
			"saving it as safetensors where it was made"
	case at(4, "ORTM"):
		return "a model in onnxruntime's own format", "the .onnx that it was made of"
	case at(0, "PK\x03\x04"):
		return "a zip archive without arrays", "unpacking it"
	}
	return "", ""
}
