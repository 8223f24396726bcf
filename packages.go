package tensorfile

import (
	"errors"
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/npy"
	"github.com/tensorfile/tensorfile/npz"
	"github.com/tensorfile/tensorfile/onnx"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/ptn"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/torch"
	"github.com/tensorfile/tensorfile/ztensor"
)

// This file joins the packages of the formats, and is the only one that changes
// when another one comes: a case in detect, and a case in openFormat.

func detect(f Format, r io.ReaderAt, size int64) bool {
	switch f {
	case PTD:
		return ptd.Detect(r, size)
	case ZTensor:
		return ztensor.Detect(r, size)
	case PTE:
		return pte.Detect(r, size)
	case RTen:
		return rten.Detect(r, size)
	case Primitiv:
		return primitiv.Detect(r, size)
	case Safetensors:
		return safetensors.Detect(r, size)
	case NPY:
		return npy.Detect(r, size)
	case NPZ:
		return npz.Detect(r, size)
	case GGUF:
		return gguf.Detect(r, size)
	case Torch:
		return torch.Detect(r, size)
	case PTN:
		return ptn.Detect(r, size)
	case ONNX:
		return onnx.Detect(r, size)
	}
	return false
}

func openFormat(o Options, in input) (Reader, error) {
	switch o.Format {
	case PTD:
		return through(in, &ptd.ReaderOptions{Strict: o.Strict, Limits: o.Limits, NoMap: o.NoMap,
			Companion: o.Companion},
			ptd.Open, ptd.OpenBytes, ptd.NewReader)
	case ZTensor:
		return through(in, &ztensor.ReaderOptions{Strict: o.Strict, Limits: o.Limits,
			NoMap: o.NoMap, Companion: o.Companion, NoLinks: o.NoLinks},
			ztensor.Open, ztensor.OpenBytes, ztensor.NewReader)
	case PTE:
		return through(in, &pte.ReaderOptions{Strict: o.Strict, Limits: o.Limits, NoMap: o.NoMap,
			Companion: o.Companion},
			pte.Open, pte.OpenBytes, pte.NewReader)
	case RTen:
		return through(in, &rten.ReaderOptions{Strict: o.Strict, Limits: o.Limits, NoMap: o.NoMap,
			Companion: o.Companion},
			rten.Open, rten.OpenBytes, rten.NewReader)
	case Primitiv:
		return through(in, &primitiv.ReaderOptions{Strict: o.Strict, Limits: o.Limits,
			NoMap: o.NoMap, Companion: o.Companion},
			primitiv.Open, primitiv.OpenBytes, primitiv.NewReader)
	case Safetensors:
		return through(in, &safetensors.ReaderOptions{Strict: o.Strict, Limits: o.Limits,
			NoMap: o.NoMap, Companion: o.Companion, NoLinks: o.NoLinks},
			safetensors.Open, safetensors.OpenBytes, safetensors.NewReader)
	case NPY:
		return through(in, &npy.ReaderOptions{Strict: o.Strict, Limits: o.Limits, NoMap: o.NoMap,
			Companion: o.Companion},
			npy.Open, npy.OpenBytes, npy.NewReader)
	case NPZ:
		return through(in, &npz.ReaderOptions{Strict: o.Strict, Limits: o.Limits, NoMap: o.NoMap,
			Companion: o.Companion},
			npz.Open, npz.OpenBytes, npz.NewReader)
	case GGUF:
		return through(in, &gguf.ReaderOptions{Strict: o.Strict, Limits: o.Limits, NoMap: o.NoMap,
			Companion: o.Companion},
			gguf.Open, gguf.OpenBytes, gguf.NewReader)
	case Torch:
		return through(in, &torch.ReaderOptions{Strict: o.Strict, Limits: o.Limits, NoMap: o.NoMap,
			Companion: o.Companion, NoLinks: o.NoLinks},
			torch.Open, torch.OpenBytes, torch.NewReader)
	case PTN:
		return through(in, &ptn.ReaderOptions{Strict: o.Strict, Limits: o.Limits, NoMap: o.NoMap,
			Companion: o.Companion},
			ptn.Open, ptn.OpenBytes, ptn.NewReader)
	case ONNX:
		return through(in, &onnx.ReaderOptions{Strict: o.Strict, Limits: o.Limits, NoMap: o.NoMap,
			Companion: o.Companion, NoLinks: o.NoLinks},
			onnx.Open, onnx.OpenBytes, onnx.NewReader)
	}
	return nil, fmt.Errorf("tensorfile: %w: %v is not read by this version", errors.ErrUnsupported,
		o.Format)
}

// through calls whichever of a package's three constructors takes the input.
func through[R Reader, O any](in input, opts *O,
	open func(string, *O) (R, error),
	openBytes func([]byte, *O) (R, error),
	newReader func(io.ReaderAt, int64, *O) (R, error),
) (Reader, error) {
	var r R
	var err error
	switch {
	case in.r == nil:
		r, err = open(in.name, opts)
	case in.inMemory:
		r, err = openBytes(in.b, opts)
	default:
		r, err = newReader(in.r, in.size, opts)
	}
	if err != nil {
		return nil, err // not r: a nil pointer in an interface is not nil
	}
	return r, nil
}
