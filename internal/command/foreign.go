package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/model"
)

// explain adds to an error for a file or directory of no known format what it is, and
// what to try.
func (a *app) explain(in *input, err error) error {
	isUnknown := errors.Is(err, tensorfile.ErrUnknownFormat)
	isShard := strings.EqualFold(filepath.Ext(in.name), ".distcp") && !isSystemError(err)
	isAdvised := errors.As(err, new(advised))
	if isAdvised || !isUnknown && !isShard && !errors.Is(err, model.ErrNoModel) {
		return err
	}
	name, head, size := in.name, make([]byte, 512), int64(1)
	if info, e := os.Stat(in.path); e == nil && info.IsDir() {
		head, size = nil, -1
		if _, e := os.Stat(filepath.Join(in.path, "saved_model.pb")); e == nil {
			name = "saved_model.pb"
		}
		if _, e := os.Stat(filepath.Join(in.path, "__0_0.distcp")); e == nil {
			return advise("fetching .metadata too, which lists the tensors", err)
		}
	} else {
		if e == nil {
			size = info.Size()
		}
		isOpen := in.raw != nil
		n, e := in.readAt(head, 0)
		if head = head[:n]; e == io.EOF && n == 0 {
			size = 0
		}
		if f, ok := in.raw.(io.Closer); ok && !isOpen {
			f.Close()
			in.raw = nil
		}
	}
	if what, advice := tensorfile.Recognize(name, head, size); what != "" {
		return advise(advice, fmt.Errorf("%w: it is %s", err, what))
	}
	return err
}
