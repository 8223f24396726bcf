package model

import (
	"context"
	"iter"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// A reader is several files as one, for tensorfile.FromReader.
type reader struct {
	*tensorfile.File // their tensors
	files            []*tensorfile.File
	names            []string // of the files
	from             []int32  // the file of each tensor
	index            int64    // the size of the index, or of several, which name the files
}

// joined returns the tensors and attributes of all files, which have names, as one, the
// first of each name.
func joined(files []*tensorfile.File, fileNames []string, index int64) *tensorfile.File {
	var all []*tensor.Tensor
	var from []int32
	for i, f := range files {
		for t := range f.Tensors() {
			all, from = append(all, t), append(from, int32(i))
		}
	}
	table, _ := naming.Build(len(all), func(i int) string { return all[i].Name })
	n := 0
	for i, t := range all {
		if table.Lookup(t.Name) == i {
			all[n], from[n] = t, from[i]
			n++
		}
	}
	return asFile(all[:n], &reader{files: files, names: fileNames, from: from[:n], index: index})
}

// asFile returns tensors, each from one of the files of r, as one file.
func asFile(ts []*tensor.Tensor, r *reader) *tensorfile.File {
	r.File = tensorfile.FromTensors(ts, nil)
	return tensorfile.FromReader(r)
}

// Attributes yields the first value of each key, without what shards say about their
// number.
func (r *reader) Attributes() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		seen := map[string]struct{}{}
		for _, f := range r.files {
			isShard := f.Format() == tensorfile.GGUF && len(r.files) > 1
			for k, v := range f.Attributes() {
				_, taken := seen[k]
				if taken || isShard && strings.HasPrefix(k, "split.") {
					continue
				}
				if seen[k] = struct{}{}; !yield(k, v) {
					return
				}
			}
		}
	}
}

// Files returns the files, whose own packages know the types of attributes.
func (r *reader) Files() []*tensorfile.File { return r.files }

// Names returns the names of the files, relative to the directory.
func (r *reader) Names() []string { return r.names }

// FileOf returns the name of the file that has a tensor, by its place among all.
func (r *reader) FileOf(i int) string { return r.names[r.from[i]] }

// File returns the primary set as one file, for the packages that take one. It is valid
// until the Model is closed; its own Close does nothing.
func (m *Model) File() *tensorfile.File {
	primary := m.primary()
	if len(primary) == 1 && primary[0].part == "." {
		return primary[0].file
	}
	var all []*tensor.Tensor
	r := &reader{}
	for _, s := range primary {
		within := s.file.Sys().(*reader)
		i := 0
		for t := range s.file.Tensors() {
			named := *t
			named.Name = s.part + "/" + t.Name
			all = append(all, &named)
			r.from = append(r.from, int32(len(r.files))+within.from[i])
			i++
		}
		r.files, r.names = append(r.files, within.files...), append(r.names, within.names...)
		r.index += within.index
	}
	return asFile(all, r)
}

// Format and Version are the first file's.
func (r *reader) Format() tensorfile.Format {
	if len(r.files) == 0 {
		return 0
	}
	return r.files[0].Format()
}

func (r *reader) Version() string {
	if len(r.files) == 0 {
		return ""
	}
	return r.files[0].Version()
}

// IndexSize returns the size of the index that names the files, 0 if there is none.
func (r *reader) IndexSize() int64 { return r.index }

// Size returns the sum of the sizes of all files.
func (r *reader) Size() int64 {
	n := r.index
	for _, f := range r.files {
		n += f.Size()
	}
	return n
}

// TotalSize is Size with the shards that the files name.
func (r *reader) TotalSize() int64 {
	n := r.index
	for _, f := range r.files {
		n += f.TotalSize()
	}
	return n
}

func (r *reader) Blobs() iter.Seq2[string, tensor.Blob] {
	return func(yield func(string, tensor.Blob) bool) {
		for _, f := range r.files {
			for name, b := range f.Blobs() {
				if !yield(name, b) {
					return
				}
			}
		}
	}
}

func (r *reader) Warnings() (all []error) {
	for i, f := range r.files {
		for _, w := range f.Warnings() {
			all = append(all, format.Errors(f.Format().String()).InFile(r.names[i], w))
		}
	}
	return all
}

// Verify verifies one file after the other.
func (r *reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	var o tensor.VerifyOptions
	if opts != nil {
		o = *opts
	}
	all, before := &tensor.Report{Findings: []tensor.Finding{}}, int64(0)
	progress, total := o.Progress, r.Size()
	for i, f := range r.files {
		if progress != nil {
			o.Progress = func(done, _ int64) { progress(min(before+done, total), total) }
		}
		one, _ := f.Verify(ctx, &o) // its error is of the findings
		for _, x := range one.Findings {
			x.Err = format.Errors(f.Format().String()).InFile(r.names[i], x.Err)
			x.File = tensor.FindingOf(x.Err).File
			all.Findings = append(all.Findings, x)
		}
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
		before += f.Size()
	}
	return all, all.Err()
}
