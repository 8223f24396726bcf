package model

import "github.com/tensorfile/tensorfile"

// Figures count tensors, parameters and bytes, in all and by dtype.
type Figures struct {
	Figure
	// StoredElements counts the elements of stored tensors. Parameters counts the
	// elements of weights, which may be stored as several tensors.
	StoredElements int64             `json:"stored_elements"`
	DTypes         map[string]Figure `json:"dtypes"`
}

// A Figure counts tensors, of all dtypes or of one.
type Figure struct {
	Tensors    int64 `json:"tensors"`
	Parameters int64 `json:"parameters"` // for one dtype, stored elements
	Bytes      int64 `json:"bytes"`
}

// figuresOf returns the figures of a file that has the summary s.
func figuresOf(s tensorfile.Summary, f *tensorfile.File) Figures {
	all := Figures{Figure{s.Tensors, s.Parameters, s.Bytes}, s.Parameters, map[string]Figure{}}
	for d, n := range s.ByDType {
		if d.Known() {
			all.DTypes[d.String()] = Figure(n)
		}
	}
	for t := range f.Tensors() {
		if !t.DType.Known() {
			n, _ := t.Shape.Elements()
			x := all.DTypes[t.DTypeName()]
			all.DTypes[t.DTypeName()] = Figure{x.Tensors + 1, x.Parameters + n,
				x.Bytes + max(t.Size(), 0)}
		}
	}
	return all
}

// A Summary describes the primary set. Tensors of the same name count once. Size is the
// sum of the sizes of all its files, the index included.
type Summary struct {
	tensorfile.Summary
	// Shards counts the files of the set, those that are missing included. An ONNX model
	// and its data are one shard, and so is a program with its .ptd.
	Shards int
	// StoredElements counts the elements of stored tensors. Parameters counts the
	// elements of weights, which may be stored as several tensors.
	StoredElements int64
}

// SummaryOf sums up the shards of a model: Size and Blobs add up, tensors of the same
// name count once, and each of the Attributes is taken from the first file that has it.
// Format and Version are the first file's.
func SummaryOf(files ...*tensorfile.File) tensorfile.Summary {
	return joined(files, nil, 0).Summary()
}

// Summary sums up the primary set, or the sets of all components.
func (m *Model) Summary() Summary {
	s, logical := Summary{Summary: m.File().Summary()}, int64(0)
	for _, set := range m.primary() {
		if set.Format.Caps().Program { // its other files have data
			s.Shards++
		} else {
			s.Shards += max(set.count, len(set.Files))
		}
		n, stored := set.found().Parameters()
		logical, s.StoredElements = logical+n, s.StoredElements+stored
	}
	s.Parameters = logical
	return s
}
