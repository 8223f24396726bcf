package command

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tensorfile/tensorfile"
)

// explain returns what a file is that has no known format.
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
	if what, advice := tensorfile.Recognize(head[:n], size); what != "" {
		return advise(advice, fmt.Errorf("%w: it is %s", err, what))
	}
	return err
}
