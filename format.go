package tensorfile

import (
	"fmt"
	"io"
	"slices"

	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/npy"
	"github.com/tensorfile/tensorfile/npz"
	"github.com/tensorfile/tensorfile/onnx"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/ptn"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/torch"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A Format is one of the file formats that this library knows. The zero value is
// none of them.
type Format uint8

// The formats, in the order in which [Detect] asks for them, but for RTen, which comes
// last.
const (
	ZTensor Format = iota + 1
	PTD
	PTE
	RTen
	Primitiv
	Safetensors
	NPY
	NPZ
	GGUF
	Torch
	PTN
	ONNX
	numFormats
)

// A formatRow is what this package knows of a format.
type formatRow struct {
	name, ext, title string
	reads, writes    []string // versions, in the words of Reader.Version
	detect           func(r io.ReaderAt, size int64) bool
	open             func(in *format.Input) (Reader, error)
	is               func(r Reader) bool // r is the Reader of the format
	// write is nil where files are not made of tensors.
	write func(w io.Writer, o *WriterOptions) (Writer, error)
}

// formats is indexed by Format.
var formats = [numFormats]formatRow{
	ZTensor: reads(ztensor.NewReader, ztensor.Detect, writes(ztensor.NewWriter, completeZTensor,
		formatRow{name: "ztensor", ext: ".zt", title: "zTensor",
			reads:  []string{"0.1", "1.0", "1.1", "1.2", "2"},
			writes: []string{"2", "1.0"}})),
	PTD: reads(ptd.NewReader, ptd.Detect, writes(ptd.NewWriter, nil,
		formatRow{name: "ptd", ext: ".ptd", title: "ExecuTorch tensor data",
			reads: []string{"0"}, writes: []string{"0"}})),
	PTE: reads(pte.NewReader, pte.Detect,
		formatRow{name: "pte", ext: ".pte", title: "ExecuTorch program",
			reads: []string{"0"}, writes: []string{"0"}}),
	RTen: reads(rten.NewReader, rten.Detect, writes(rten.NewWriter, completeRTen,
		formatRow{name: "rten", ext: ".rten", title: "RTen model",
			reads: []string{"1", "2"}, writes: []string{"2", "1"}})),
	Primitiv: reads(primitiv.NewReader, primitiv.Detect, writes(primitiv.NewWriter, nil,
		formatRow{name: "primitiv", ext: ".primitiv", title: "primitiv",
			reads: []string{"0.1"}, writes: []string{"0.1"}})),
	Safetensors: reads(safetensors.NewReader, safetensors.Detect,
		writes(safetensors.NewWriter, completeSafetensors,
			formatRow{name: "safetensors", ext: ".safetensors", title: "safetensors",
				reads: []string{""}, writes: []string{""}})),
	NPY: reads(npy.NewReader, npy.Detect, writes(npy.NewWriter, nil,
		formatRow{name: "npy", ext: ".npy", title: "NumPy array",
			reads: []string{"1.0", "2.0", "3.0"}, writes: []string{"1.0"}})),
	NPZ: reads(npz.NewReader, npz.Detect, writes(npz.NewWriter, nil,
		formatRow{name: "npz", ext: ".npz", title: "NumPy archive",
			reads: []string{""}, writes: []string{""}})),
	GGUF: reads(gguf.NewReader, gguf.Detect, writes(gguf.NewWriter, completeGGUF,
		formatRow{name: "gguf", ext: ".gguf", title: "GGUF",
			reads: []string{"1", "2", "3"}, writes: []string{"3"}})),
	Torch: reads(torch.NewReader, torch.Detect,
		formatRow{name: "torch", ext: ".pt", title: "PyTorch checkpoint",
			reads: []string{"zip", "torchscript", "legacy", "pt2", "dcp"}}),
	PTN: reads(ptn.NewReader, ptn.Detect,
		formatRow{name: "ptn", ext: ".ptn", title: "ExecuTorch package", reads: []string{"1"}}),
	ONNX: reads(onnx.NewReader, onnx.Detect,
		formatRow{name: "onnx", ext: ".onnx", title: "ONNX model", reads: []string{"3", "4", "5",
			"6", "7", "8", "9", "10", "11", "12", "13", "14"}}),
}

// reads completes the row of a format that a package reads.
func reads[R Reader](newReader func(io.ReaderAt, int64, *tensor.ReadOptions) (R, error),
	detect func(io.ReaderAt, int64) bool, row formatRow) formatRow {
	row.detect = detect
	row.is = func(r Reader) bool { _, ok := r.(R); return ok }
	row.open = func(in *format.Input) (Reader, error) {
		r, err := newReader(in, in.Size(), &in.Options)
		if err != nil {
			return nil, err // not r: a nil pointer in an interface is not nil
		}
		return r, nil
	}
	return row
}

// Formats returns all formats, in the order of their constants.
func Formats() []Format {
	all := make([]Format, 0, numFormats-1)
	for f := ZTensor; f < numFormats; f++ {
		all = append(all, f)
	}
	return all
}

// String returns the word for the format in JSON and on the command line, such
// as "ztensor"; "unknown" for the zero value.
func (f Format) String() string {
	switch {
	case f == 0:
		return "unknown"
	case f >= numFormats:
		return fmt.Sprintf("Format(%d)", uint8(f))
	}
	return formats[f].name
}

// Ext returns the usual extension of a file's name, with its dot; "" for the zero value.
// It is for naming new files: [Detect] ignores names.
func (f Format) Ext() string {
	if f >= numFormats {
		return ""
	}
	return formats[f].ext
}

// Title returns the name of the format for people.
func (f Format) Title() string {
	if f >= numFormats {
		return f.String()
	}
	return formats[f].title
}

// Reads lists the versions of the format that this library reads, in the words
// of [File.Version]; nil when it reads none.
func (f Format) Reads() []string {
	if f >= numFormats {
		return nil
	}
	return slices.Clone(formats[f].reads)
}

// Writes lists the versions of the format that this library writes.
func (f Format) Writes() []string {
	if f >= numFormats {
		return nil
	}
	return slices.Clone(formats[f].writes)
}

// ParseFormat reads a name as [Format.String] writes it; zt and zTensor also name
// [ZTensor].
func ParseFormat(s string) (Format, error) {
	if s == "zt" || s == "zTensor" {
		return ZTensor, nil
	}
	for f := ZTensor; f < numFormats; f++ {
		if s == formats[f].name {
			return f, nil
		}
	}
	return 0, fmt.Errorf("tensorfile: no format is named %s", naming.Quote(s))
}

// MarshalText writes the name. The zero value and values that are not constants
// fail.
func (f Format) MarshalText() ([]byte, error) {
	if f == 0 || f >= numFormats {
		return nil, fmt.Errorf("tensorfile: %v has no name", f)
	}
	return []byte(f.String()), nil
}

// UnmarshalText accepts what [ParseFormat] accepts.
func (f *Format) UnmarshalText(text []byte) error {
	v, err := ParseFormat(string(text))
	if err == nil {
		*f = v
	}
	return err
}
