package command

import (
	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A view is what one format has to say beside what all have: a file each, named
// after the format, makes it from the format's own Reader. Every function may be
// nil.
type view struct {
	// facts is the object of info --json that is named after the format.
	facts func() object
	// attributes are the file's attributes where they are more than text.
	attributes func() object
	// row adds to a tensor's row what only this format has. i is the tensor's
	// place among all of the file; names may repeat.
	row func(i int, t *tensor.Tensor, r *row)
	// metadata are the ranges of the file that hold neither tensors nor blobs,
	// for du. The rest is padding where it is zero, and a hole where it is not.
	metadata func() []span
	// ending is what a file of a blob should end with, without the dot; "" when
	// nothing is known.
	ending func(b tensor.Blob) string
}

// A span is a range of a file, and what it is.
type span struct {
	offset, size int64
	what         string
}

// viewOf asks the format for its view.
func viewOf(f *tensorfile.File) view {
	switch r := f.Sys().(type) {
	case *primitiv.Reader:
		return primitivView(r)
	case *ptd.Reader:
		return ptdView(r)
	case *pte.Reader:
		return pteView(r)
	case *rten.Reader:
		return rtenView(r)
	case *ztensor.Reader:
		return ztensorView(r)
	}
	return view{}
}
