package batch

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Identify returns the size of a file on disk and what identifies its content: its time
// of change; of a directory the sizes together, and a digest of its listing.
func Identify(name string) (size int64, etag string, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return -1, "", err
	}
	if !info.IsDir() {
		return info.Size(), version(info), nil
	}
	var files []string
	err = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := os.Stat(path)
		if err != nil { // a link to nothing
			files = append(files, path)
			return nil
		}
		size += info.Size()
		files = append(files, fmt.Sprint(path, " ", info.Size(), " ", version(info)))
		return nil
	})
	if err != nil {
		return -1, "", err
	}
	return size, "listing:" + Digest(files), nil
}

func version(info fs.FileInfo) string { return fmt.Sprintf("mtime:%d", info.ModTime().UnixNano()) }

// Digest returns the SHA-256 of words, in hexadecimal.
func Digest(words []string) string {
	h := sha256.New()
	for _, w := range words {
		fmt.Fprintf(h, "%q\n", w)
	}
	return hex.EncodeToString(h.Sum(nil))
}
