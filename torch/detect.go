package torch

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

const zipMagic = "PK\x03\x04"

// Detect reports whether a file is an archive with a data.pkl in its first directory, or
// begins as a legacy stream or the metadata of a distributed checkpoint does. It reads
// 512 bytes, and the directory of an archive that does not begin with data.pkl.
func Detect(r io.ReaderAt, size int64) bool {
	b := make([]byte, min(size, 512))
	n, _ := r.ReadAt(b, 0)
	head := string(b[:n])
	if !strings.HasPrefix(head, zipMagic) {
		return isLegacy(head) || isMetadata(head) || isTar(head)
	}
	first := firstMember(head)
	return first == "data.pkl" || hasPickle(r, size, first)
}

// firstMember returns the name of the first member of an archive within its directory.
func firstMember(head string) string {
	if len(head) < 30 {
		return ""
	}
	n := int(binary.LittleEndian.Uint16([]byte(head[26:28])))
	if n > len(head)-30 {
		return ""
	}
	_, name, _ := strings.Cut(head[30:30+n], "/")
	return name
}

// hasPickle reports whether the directory of an archive has data.pkl, or is the directory
// of a program of torch.export. If the directory is missing, the first member decides.
func hasPickle(r io.ReaderAt, size int64, first string) bool {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return first == "version" || strings.HasPrefix(first, "data/")
	}
	if len(z.File) == 0 {
		return false
	}
	root, _, ok := strings.Cut(z.File[0].Name, "/")
	return slices.ContainsFunc(z.File, func(f *zip.File) bool {
		return ok && (f.Name == root+"/data.pkl" || f.Name == root+"/archive_format") ||
			f.Name == oldProgram
	})
}

// isMetadata reports whether a file begins as the pickle of a distributed checkpoint
// does: with the name of its class, in the form of protocol 2 or 3, or of a later
// protocol.
func isMetadata(head string) bool {
	_, rest, ok := strings.Cut(head[:min(len(head), 96)], metadataModule)
	if !ok || head[0] != 0x80 {
		return false
	}
	for _, name := range []string{"\nMetadata\n", "\x94\x8c\x08Metadata", "\x8c\x08Metadata"} {
		if strings.HasPrefix(rest, name) {
			return true
		}
	}
	return false
}

// isPickle reports whether a file begins as a pickle of protocol 2 to 5 does.
func isPickle(head string) bool {
	return len(head) > 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5 &&
		strings.IndexByte("]})(cXN\x8c\x95", head[2]) >= 0
}

// isTar reports whether a file is a checkpoint of torch before 0.1.10.
func isTar(head string) bool {
	if len(head) < 512 || head[257:262] != "ustar" {
		return false
	}
	name, _, _ := strings.Cut(head[:100], "\x00")
	return name == "sys_info" || name == "storages" || name == "tensors" || name == "pickle"
}

// unknown returns the error for a file that is not a checkpoint. It names some files that
// users often have in place of one.
func unknown(head string) error {
	text := strings.ToLower(strings.TrimSpace(head))
	switch {
	case isTar(head):
		return errs.At(0, "", errors.ErrUnsupported,
			"a tar file of torch before 0.1.10: load and save it with torch 0.4 or later")
	case strings.HasPrefix(text, "version https://git-lfs"):
		return errs.At(0, "", tensor.ErrMalformed,
			"a pointer of Git LFS, not the file: fetch it with git lfs pull")
	case strings.HasPrefix(text, "<!doctype html"), strings.HasPrefix(text, "<html"):
		return errs.At(0, "", tensor.ErrMalformed, "an HTML page, not a checkpoint")
	}
	return errs.At(0, "", tensor.ErrMalformed, "not a checkpoint")
}
