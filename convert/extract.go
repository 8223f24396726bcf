package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/npy"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/tensor"
)

// ExtractOptions control an [Extractor]; nil is the zero value.
type ExtractOptions struct {
	// Replace replaces files and links that exist; links are not followed. Without it,
	// they make Tensor and Blob fail with fs.ErrExist.
	Replace bool
	// DryRun makes Tensor and Blob return the names of files and write nothing.
	DryRun bool
	// Progress, if not nil, is called with the bytes of all files written so far.
	Progress func(done int64)
}

// An Extractor writes tensors and blobs to files of one directory, and never outside of
// it: their names become safe and unique file names. A file appears whole or not at all.
// An Extractor is for one goroutine at a time.
type Extractor struct {
	ExtractOptions
	dir   string
	names naming.Files
	undo  func()
	added []string // files that were not there before
	done  int64    // bytes of the files that are whole
}

// NewExtractor returns an Extractor for a directory, which it makes if it is absent.
func NewExtractor(dir string, opts *ExtractOptions) (*Extractor, error) {
	x := &Extractor{ExtractOptions: orZero(opts), dir: dir, undo: func() {}}
	if x.DryRun {
		return x, nil
	}
	var err error
	x.undo, err = atomicfile.MakeDir(dir)
	return x, err
}

// Tensor writes a dense tensor as a .npy file, and returns the name of the file. If NumPy
// does not have the dtype, as is the integer dtype in its place, or "bytes" if the file
// has the bytes only; else it is "".
func (x *Extractor) Tensor(ctx context.Context, name string,
	t *tensor.Tensor) (file, as string, err error) {
	d, ok := numpyType(t.DType)
	if !ok {
		file, err = x.create(ctx, name, ".bin", func(w io.Writer) error {
			_, err := t.Data.WriteTo(w)
			return err
		})
		return file, "bytes", err
	}
	if err := t.Check(); err != nil {
		return "", "", err
	}
	if d != t.DType {
		as = d.String()
	}
	file, err = x.create(ctx, name, ".npy", func(w io.Writer) error { return WriteNPY(ctx, w, t) })
	return file, as, err
}

// Blob writes a blob as it is, and returns the name of the file, whose extension follows
// from its first bytes, and is .bin if they are not known.
func (x *Extractor) Blob(ctx context.Context, name string,
	b tensor.Blob) (file string, err error) {
	head := make([]byte, min(max(b.Size(), 0), 16))
	n, _ := b.ReadAt(head, 0)
	_, ext := pte.Recognize(head[:n])
	return x.create(ctx, name, "."+cmp.Or(ext, "bin"), func(w io.Writer) error {
		_, err := b.WriteTo(w)
		return err
	})
}

// Close removes the directories that NewExtractor made and that are empty.
func (x *Extractor) Close() { x.undo() }

// Abort removes the files that were written, and then what Close removes.
func (x *Extractor) Abort() {
	for _, name := range x.added {
		os.Remove(name)
	}
	x.undo()
}

func (x *Extractor) create(ctx context.Context, name, ext string,
	write func(w io.Writer) error) (string, error) {
	file := x.names.New(name, ext)
	full := filepath.Join(x.dir, file)
	_, err := os.Lstat(full)
	isNew := errors.Is(err, fs.ErrNotExist)
	if !isNew && !x.Replace {
		return file, &atomicfile.Error{Name: full, Err: cmp.Or(err, fs.ErrExist)}
	}
	if x.DryRun {
		return file, nil
	}
	f, err := atomicfile.CreateNoFollow(full)
	if err != nil {
		return file, err
	}
	f.NoSync() // there may be many; the system has them on the disk soon
	defer f.Abort()
	size := int64(0)
	if err := write(format.Counted(ctx, f, func(n int64) {
		if size = n; x.Progress != nil {
			x.Progress(x.done + n)
		}
	})); err != nil {
		return file, err
	}
	x.done += size
	if err := f.Close(); err != nil {
		return file, err
	}
	if isNew {
		x.added = append(x.added, full)
	}
	return file, nil
}

// WriteNPY writes a dense tensor as a .npy file, in its order if NumPy has that order. If
// NumPy does not have the dtype, it writes integers of the same bits, or, for integers of
// less than a byte, integers of a byte with the same values. It fails with
// tensor.ErrDType for other dtypes of less than a byte.
func WriteNPY(ctx context.Context, w io.Writer, t *tensor.Tensor) error {
	d, ok := numpyType(t.DType)
	if !ok {
		return fmt.Errorf("convert: %w: NumPy does not support %v", tensor.ErrDType, t.DType)
	}
	x := *t
	if !t.Order.RowMajor() && !slices.Equal(t.Order, tensor.ColumnMajor(len(t.Shape))) {
		sorted, err := tensor.Slice(t)
		if err != nil {
			return err
		}
		x = *sorted
	}
	if t.DType.IsInt() && t.DType.Size() == 0 {
		narrow := x
		wide, err := tensor.As(&narrow, d)
		if err != nil {
			return err
		}
		x = *wide
	}
	x.DType = d
	n := npy.NewWriter(format.Until(ctx, w), nil)
	if err := n.Add(&x); err != nil {
		return err
	}
	return n.Close()
}

// numpyType returns the dtype of which NumPy gets elements of d: its own, or an integer
// of the same bits, or for an integer of less than a byte one of a byte.
func numpyType(d tensor.DType) (as tensor.DType, ok bool) {
	switch {
	case slices.Contains(npy.DTypes(), d):
		return d, true
	case d == tensor.QI8, d == tensor.I4, d == tensor.I2:
		return tensor.I8, true
	case d == tensor.QI32:
		return tensor.I32, true
	case d == tensor.C32:
		return tensor.U32, true
	case d.Bits() == 8, d == tensor.U4, d == tensor.U2:
		return tensor.U8, true
	case d.Bits() == 16:
		return tensor.U16, true
	}
	return tensor.Unknown, false
}
