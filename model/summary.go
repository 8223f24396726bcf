package model

import (
	"maps"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/names"
	"github.com/tensorfile/tensorfile/tensor"
)

// Figures count tensors.
type Figures struct {
	Figure
	DTypes map[string]Figure `json:"dtypes"`
}

// A Figure counts tensors, all or those of one dtype.
type Figure struct {
	Tensors    int64 `json:"tensors"`
	Parameters int64 `json:"parameters"` // elements as they are stored
	Bytes      int64 `json:"bytes"`
}

func figuresOf(s tensorfile.Summary) Figures {
	f := Figures{Figure{s.Tensors, s.Parameters, s.Bytes}, map[string]Figure{}}
	for d, n := range s.ByDType {
		f.DTypes[d.String()] = Figure(n)
	}
	return f
}

// A Summary is about the primary set: tensors of the same name count once, and Size is
// that of all its files.
type Summary struct {
	tensorfile.Summary
	Shards int // how many files the set has, those that are missing included
	// Logical is how many parameters the model has, where packed ones are stored as elements
	// of another dtype; else Parameters. See docs/check.md for the packings that are known.
	Logical int64
}

// SummaryOf sums up the shards of a model: Size and Blobs add up, tensors of the same name
// count once, and each of the Attributes is that of the first file that has it. Format and
// Version are those of the first file.
func SummaryOf(files ...*tensorfile.File) tensorfile.Summary {
	return sumUp(joined(files), files)
}

// sumUp returns the summary of files that were joined.
func sumUp(all *tensorfile.File, files []*tensorfile.File) tensorfile.Summary {
	s := all.Summary()
	for i, f := range files {
		if i == 0 {
			s.Format, s.Version = f.Format(), f.Version()
		}
		s.Size += f.Size()
		for range f.Blobs() {
			s.Blobs++
		}
	}
	return s
}

// joined returns the tensors and attributes of all files as one, the first of each name.
func joined(files []*tensorfile.File) *tensorfile.File {
	var all []*tensor.Tensor
	attributes := map[string]string{}
	for _, f := range files {
		for t := range f.Tensors() {
			all = append(all, t)
		}
		for k, v := range f.Attributes() {
			if _, taken := attributes[k]; !taken {
				attributes[k] = v
			}
		}
	}
	table, _ := names.Build(len(all), func(i int) string { return all[i].Name })
	first := make([]*tensor.Tensor, 0, len(all))
	for i, t := range all {
		if table.Lookup(t.Name) == i {
			first = append(first, t)
		}
	}
	return tensorfile.FromTensors(first, attributes)
}

// Summary sums up the primary set.
func (m *Model) Summary() Summary {
	var s Summary
	for _, set := range m.sets {
		if !set.Primary {
			continue
		}
		part := set.summary
		s.Shards += max(set.count, len(set.Files))
		s.Logical += m.configs[set.part].logical(set.file)
		if s.ByDType == nil {
			s.Summary = part
			s.ByDType, s.Attributes = maps.Clone(part.ByDType), maps.Clone(part.Attributes)
			continue
		}
		s.Size += part.Size
		s.Tensors += part.Tensors
		s.Parameters += part.Parameters
		s.Bytes += part.Bytes
		s.Blobs += part.Blobs
		for d, n := range part.ByDType {
			sum := s.ByDType[d]
			s.ByDType[d] = tensorfile.Total{Tensors: sum.Tensors + n.Tensors,
				Parameters: sum.Parameters + n.Parameters, Bytes: sum.Bytes + n.Bytes}
		}
		for k, v := range part.Attributes {
			if _, taken := s.Attributes[k]; !taken {
				s.Attributes[k] = v
			}
		}
	}
	return s
}

// File returns the primary set as one file, for the packages that take one. It is valid
// until Close of the Model; its own does nothing.
func (m *Model) File() *tensorfile.File {
	primary := m.primary()
	if len(primary) == 1 && primary[0].part == "." {
		return primary[0].file
	}
	var all []*tensor.Tensor
	attributes := map[string]string{}
	for _, s := range primary {
		for t := range s.file.Tensors() {
			named := *t
			named.Name = s.part + "/" + t.Name
			all = append(all, &named)
		}
		add := maps.Collect(s.file.Attributes())
		maps.Copy(add, attributes)
		attributes = add
	}
	return tensorfile.FromTensors(all, attributes)
}
