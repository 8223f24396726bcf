package remote

import (
	"context"
	"io"
	"iter"
	"time"
)

// An Opener opens and lists objects of an object store by their addresses. Its methods
// are safe for concurrent use. The nested module cloud has openers of s3://, gs:// and
// az://.
type Opener interface {
	// Open opens an object and returns its size. The result is safe for concurrent
	// use, and an io.Closer where that releases something. Reads fail when ctx is done.
	Open(ctx context.Context, address string) (io.ReaderAt, int64, error)
	// List lists the objects whose addresses begin with prefix. It ends with the first
	// error.
	List(ctx context.Context, prefix string) iter.Seq2[Entry, error]
}

// An Entry is a file of a listing. Fields that the listing does not have are zero.
type Entry struct {
	Address  string
	Size     int64
	ETag     string    // of the version of the file, as servers name it
	SHA256   string    // of the content, in hexadecimal
	GitSHA   string    // git's SHA-1 of the content, over "blob SIZE\x00" and it
	Modified time.Time // of the last change
}
