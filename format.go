package tensorfile

import (
	"fmt"
	"slices"

	"github.com/tensorfile/tensorfile/internal/naming"
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

// formats is indexed by Format. Versions are in the words of Reader.Version.
var formats = [numFormats]struct {
	name, ext, title string
	reads, writes    []string
}{
	ZTensor: {name: "ztensor", ext: ".zt", title: "zTensor",
		reads:  []string{"0.1", "1.0", "1.1", "1.2", "2"},
		writes: []string{"2", "1.2", "1.1", "1.0"}},
	PTD: {name: "ptd", ext: ".ptd", title: "ExecuTorch tensor data", reads: []string{"0"},
		writes: []string{"0"}},
	PTE: {name: "pte", ext: ".pte", title: "ExecuTorch program", reads: []string{"0"},
		writes: []string{"0"}},
	RTen: {name: "rten", ext: ".rten", title: "RTen model", reads: []string{"1", "2"},
		writes: []string{"2", "1"}},
	Primitiv: {name: "primitiv", ext: ".primitiv", title: "primitiv", reads: []string{"0.1"},
		writes: []string{"0.1"}},
	Safetensors: {name: "safetensors", ext: ".safetensors", title: "safetensors",
		reads: []string{""}, writes: []string{""}},
	NPY: {name: "npy", ext: ".npy", title: "NumPy array",
		reads: []string{"1.0", "2.0", "3.0"}, writes: []string{"1.0"}},
	NPZ: {name: "npz", ext: ".npz", title: "NumPy archive", reads: []string{""},
		writes: []string{""}},
	GGUF: {name: "gguf", ext: ".gguf", title: "GGUF", reads: []string{"1", "2", "3"},
		writes: []string{"3"}},
	Torch: {name: "torch", ext: ".pt", title: "PyTorch checkpoint",
		reads: []string{"zip", "torchscript", "legacy", "dcp"}},
	PTN: {name: "ptn", ext: ".ptn", title: "ExecuTorch package", reads: []string{"1"}},
	ONNX: {name: "onnx", ext: ".onnx", title: "ONNX model",
		reads: []string{"3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14"}},
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

// Ext is the usual extension of a file's name, with its dot; "" for the zero value.
// It is for naming new files: [Detect] ignores names.
func (f Format) Ext() string {
	if f >= numFormats {
		return ""
	}
	return formats[f].ext
}

// Title is the name of the format for people.
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
