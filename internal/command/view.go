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

// A view is what only one format has: a file each, named after the format, makes it
// from the format's own Reader. Every function may be nil.
type view struct {
	// facts is the object of info --json that is named after the format: a struct.
	facts func() any
	// row adds to a tensor's row what only this format has. i is the tensor's
	// place among all of the file; names may repeat.
	row func(i int, t *tensor.Tensor, r *row)
	// extension is that of a file of a blob, without the dot; "" when nothing is known.
	extension func(b tensor.Blob) string
}

// viewOf returns the view of the format.
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
