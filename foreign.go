package tensorfile

import (
	"bytes"
	"path"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A foreign is a kind of file that is not a tensor file of a known format, or not by
// itself.
type foreign struct {
	name         string // a pattern of path.Match for names in lower case, "" for all
	offset       int
	mark         string // of the content, at offset; "" where the name decides
	what, advice string
}

const (
	original  = "the model that it was made of"
	exported  = "the .onnx that it was made of"
	archive   = "unpacking it, and the files in it"
	numpy     = ", whose arrays numpy.savez writes"
	litert    = "the interpreter of LiteRT" + numpy + ", or " + original
	coreML    = "coremltools" + numpy + ", or " + original
	tf        = "tf.train.load_checkpoint" + numpy
	tables    = "DuckDB or pyarrow, which read tables"
	pickled   = "saving its tensors with torch.save, or its arrays with numpy.savez"
	converted = "a .gguf of the model"
)

// foreigns are the kinds that are known, in the order in which they are tried.
var foreigns = []foreign{
	{"", 0, "version https://git-lfs.github.com/spec/", "a Git LFS pointer, not the file itself",
		"git lfs pull"},
	{"", 0, "\x89HDF\r\n\x1a\n", "an HDF5 file", "h5py" + numpy},
	{"", 4, "TFL3", "a TFLite model", litert},
	{"", 0, "LITERTLM", "a LiteRT-LM bundle", original},
	{"", 4, "ORTM", "a model in onnxruntime's own format", exported},
	{"", 0, "ftrt", "a TensorRT engine", exported},
	{"", 0, "ptrt", "a TensorRT engine", exported},
	{"", 0, "lmgg", "a ggml file from before GGUF, or of whisper.cpp", converted},
	{"", 0, "fmgg", "a ggml file from before GGUF", converted},
	{"", 0, "tjgg", "a ggml file from before GGUF", converted},
	{"", 0, "algg", "a LoRA adapter from before GGUF", converted},
	{"", 0, "7767517\n", "an ncnn model", original},
	{"", 0, "PAR1", "a Parquet file", tables},
	{"", 0, "ARROW1", "an Arrow file", tables},

	{"*.distcp", 0, "", "a shard of a checkpoint of torch.distributed",
		"its directory, which has .metadata"},
	{"data.pkl", 0, "", "the pickle of an unpacked checkpoint, without its data",
		"its directory, with all files of the archive"},
	{"*.mlmodel", 0, "", "a Core ML model", coreML},
	{"*.mlpackage", 0, "", "a Core ML model", coreML},
	{"*.mlmodelc", 0, "", "a compiled Core ML model", original},
	{"*.keras", 0, "", "a Keras model", "unpacking it: model.weights.h5 is read by h5py" + numpy},
	{"*.h5", 0, "", "an HDF5 file", "h5py" + numpy},
	{"*.hdf5", 0, "", "an HDF5 file", "h5py" + numpy},
	{"*.tflite", 0, "", "a TFLite model", litert},
	{"*.litertlm", 0, "", "a LiteRT-LM bundle", original},
	{"*.task", 0, "", "a MediaPipe bundle", original},
	{"*.nemo", 0, "", "a NeMo checkpoint, a tar archive",
		"tar -xf FILE, and model_weights.ckpt in it"},
	{"*.llamafile", 0, "", "a llamafile", "unzip, and the .gguf in it"},
	{"*.mar", 0, "PK\x03\x04", "a TorchServe archive", archive},
	{"*.pdparams", 0, "", "a Paddle checkpoint", "paddle.load" + numpy},
	{"*.msgpack", 0, "", "a Flax checkpoint", "flax.serialization.msgpack_restore" + numpy},
	{"saved_model.pb", 0, "", "a TensorFlow SavedModel", tf},
	{"*.pb", 0, "", "a TensorFlow graph", original},
	{"*.data-?????-of-?????", 0, "", "a TensorFlow checkpoint", tf},
	{"*.mnn", 0, "", "an MNN model", original},

	{"", 0, "\x1f\x8b", "compressed with gzip", "gunzip, or zcat FILE | tensorfile COMMAND -"},
	{"", 0, "\x28\xb5\x2f\xfd", "compressed with Zstandard",
		"unzstd, or zstdcat FILE | tensorfile COMMAND -"},
	{"", 0, "\xfd7zXZ\x00", "compressed with xz", "unxz, or xzcat FILE | tensorfile COMMAND -"},
	{"", 0, "BZh", "compressed with bzip2", "bunzip2, or bzcat FILE | tensorfile COMMAND -"},
	{"", 0, "7z\xbc\xaf\x27\x1c", "a 7z archive", archive},
	{"", 0, "Rar!", "a RAR archive", archive},
	{"", 257, "ustar", "a tar archive", "tar -xf FILE, and the checkpoint in it"},
	{"", 0, "PK\x03\x04", "a zip archive without arrays", archive},
}

// Recognize describes a file or directory of a common kind that is not a tensor file, or
// not by itself, such as a Git LFS pointer, and says what to do about it. Both results
// are "" if it is not known. name may be "". head is the first 512 bytes, or all of a
// shorter file; it is empty for a directory, whose size is -1.
func Recognize(name string, head []byte, size int64) (what, advice string) {
	text := bytes.ToLower(bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))))
	switch {
	case size == 0:
		return "an empty file", "fetching the file again"
	case bytes.HasPrefix(text, []byte("<!doctype html")), bytes.HasPrefix(text, []byte("<html")):
		return "an HTML page", "the address of the file itself, or logging in"
	case bytes.HasPrefix(text, []byte("<?xml")) && bytes.Contains(text, []byte("<net ")):
		return "an OpenVINO model", original
	}
	base := strings.ToLower(filepath.Base(name))
	for _, f := range foreigns {
		ok, _ := path.Match(f.name, base)
		if (ok || f.name == "") && hasAt(head, f.offset, f.mark) {
			if what = f.what; f.mark == "" {
				what += ", by its name"
			}
			return what, f.advice
		}
	}
	switch ext := filepath.Ext(base); {
	case len(head) > 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5:
		return "a Python pickle, which runs code when it is loaded, and not of torch.save", pickled
	case ext == ".pkl", ext == ".pickle", ext == ".joblib":
		return "a Python pickle, by its name", pickled
	case size > 0 && isText(head):
		return "a text file", "reading it: it may be a message in place of the file"
	}
	return "", ""
}

func hasAt(head []byte, offset int, mark string) bool {
	return len(head) >= offset+len(mark) && string(head[offset:offset+len(mark)]) == mark
}

// isText reports whether the start of a file is UTF-8 text. Its last character may be
// cut.
func isText(head []byte) bool {
	for len(head) > 0 {
		r, n := utf8.DecodeRune(head)
		if r == utf8.RuneError && n == 1 {
			return !utf8.FullRune(head)
		}
		if unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' {
			return false
		}
		head = head[n:]
	}
	return true
}
