//go:build unix

package model

import (
	"io/fs"
	"syscall"
)

// hardLinks returns how many names a file has.
func hardLinks(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}
