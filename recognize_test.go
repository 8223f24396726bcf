package tensorfile_test

import (
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
)

func TestRecognize(t *testing.T) {
	for head, want := range map[string]string{
		"": "an empty file",
		"version https://git-lfs.github.com/spec/v1\noid": "a Git LFS pointer",
		"\xef\xbb\xbf \n<!DOCTYPE html><p>":               "an HTML page",
		"<html>":                                          "an HTML page",
		"\x1f\x8b\x08":                                    "gzip",
		"\x89HDF\r\n\x1a\n":                               "an HDF5 file",
		"\x1c\x00\x00\x00TFL3":                            "a TFLite model",
		"\x80\x02}q":                                      "a Python pickle",
		strings.Repeat("\x00", 257) + "ustar":             "a tar archive",
		"\x18\x00\x00\x00ORTM":                            "a model in onnxruntime's own format",
		"PK\x03\x04":                                      "a zip archive",
		"nothing":                                         "", "\x80": "",
	} {
		what, advice := tensorfile.Recognize([]byte(head), int64(len(head)))
		if !strings.Contains(what, want) || (what == "") != (want == "") ||
			(advice == "") != (want == "") {
			t.Errorf("%q is %q: %q", head, what, advice)
		}
	}
}
