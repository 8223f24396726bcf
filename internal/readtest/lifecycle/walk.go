package lifecycle

import (
	"context"
	"errors"
	"strings"

	"github.com/tensorfile/tensorfile/internal/readtest"
)

// maxWalked is the size of the largest data that a walk reads.
const maxWalked = 1 << 20

// Walker returns a function that takes what opening a file returned, reads all that the
// Reader has, and returns the first error. It fails if describe shows readtest.Canary,
// and panics if a tensor contradicts itself.
func Walker[R Reader](describe func(R) string) func(r R, err error) error {
	return func(r R, err error) error {
		if err != nil {
			return err
		}
		defer r.Close()
		if strings.Contains(describe(r), readtest.Canary) {
			return errors.New("a byte after the end of the file was read")
		}
		for t := range r.Tensors() {
			if t.DType.Known() || !t.Dense() {
				if err := t.Check(); err != nil {
					panic(err)
				}
			}
			if t.Data.Size() <= maxWalked {
				if _, err := t.Data.ReadAll(); err != nil {
					return err
				}
			}
		}
		for _, b := range r.Blobs() {
			if b.Size() <= maxWalked {
				if _, err := b.ReadAll(); err != nil {
					return err
				}
			}
		}
		_, err = r.Verify(context.Background(), nil)
		return err
	}
}
