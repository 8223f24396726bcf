package model

import (
	"context"
	"iter"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// A reader is several files as one, for tensorfile.FromReader.
type reader struct {
	*tensorfile.File // their tensors
	files            []*tensorfile.File
	names            []string // of the files
}

// joined returns the tensors and attributes of all files, which have names, as one, the
// first of each name.
func joined(files []*tensorfile.File, fileNames []string) *tensorfile.File {
	var all []*tensor.Tensor
	for _, f := range files {
		for t := range f.Tensors() {
			all = append(all, t)
		}
	}
	table, _ := naming.Build(len(all), func(i int) string { return all[i].Name })
	first := make([]*tensor.Tensor, 0, len(all))
	for i, t := range all {
		if table.Lookup(t.Name) == i {
			first = append(first, t)
		}
	}
	return asFile(first, files, fileNames)
}

// asFile returns tensors of files as one file.
func asFile(ts []*tensor.Tensor, files []*tensorfile.File, names []string) *tensorfile.File {
	return tensorfile.FromReader(&reader{tensorfile.FromTensors(ts, nil), files, names})
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

// File returns the primary set as one file, for the packages that take one. It is valid
// until Close of the Model; its own does nothing.
func (m *Model) File() *tensorfile.File {
	primary := m.primary()
	if len(primary) == 1 && primary[0].part == "." {
		return primary[0].file
	}
	var all []*tensor.Tensor
	var files []*tensorfile.File
	var fileNames []string
	for _, s := range primary {
		for t := range s.file.Tensors() {
			named := *t
			named.Name = s.part + "/" + t.Name
			all = append(all, &named)
		}
		of, names := s.files()
		files, fileNames = append(files, of...), append(fileNames, names...)
	}
	return asFile(all, files, fileNames)
}

// Format and Version are those of the first file.
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

func (r *reader) Size() (n int64) {
	for _, f := range r.files {
		n += f.Size()
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
	for _, f := range r.files {
		all = append(all, f.Warnings()...)
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
	for _, f := range r.files {
		if progress != nil {
			o.Progress = func(done, _ int64) { progress(min(before+done, total), total) }
		}
		report, _ := f.Verify(ctx, &o) // its error is of the findings
		all.Findings = append(all.Findings, report.Findings...)
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
		before += f.Size()
	}
	return all, all.Err()
}
