package tensor

import "io"

// A Companion is an io.ReaderAt that can open other files next to its own, such as the
// shards that an index names: the NewReader functions use it where their options have no
// Companion.
type Companion interface {
	// Name returns the file's own name, without a directory: zTensor names shards
	// after it.
	Name() string
	// Companion opens a file and returns its size. name is a path with slashes that
	// does not lead out of the directory. The caller closes an io.Closer.
	Companion(name string) (io.ReaderAt, int64, error)
}
