package page

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/model"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Content is a file without a path, such as a file that was dropped on the page.
type Content struct {
	io.ReaderAt
	Name string
	Size int64
}

// OpenContents opens a file, or the files of a model as one. If the files have a .pte or
// are not a model, it opens the first .pte, or else the first file; external tensors are
// then looked up in the other files.
func OpenContents(files ...Content) (Source, error) {
	if len(files) == 0 {
		return Source{}, errors.New("page: no file")
	}
	if len(files) > 1 {
		m, err := model.OpenFS(directory(files), ".", nil)
		if err != nil {
			return Source{}, err
		}
		set, err := m.Whole()
		isProgram := set != nil && set.Format == tensorfile.PTE
		if err == nil && !isProgram {
			name := "model_index.json" // of a set for each component
			if set != nil {
				name = cmp.Or(set.Index, set.Files[0])
			}
			return Source{Name: name, File: m.File(), Model: m,
				Config: m.Quantization()}, nil
		}
		m.Close()
		if err != nil && !errors.Is(err, model.ErrNoModel) {
			return Source{}, err
		}
	}
	var opened []Source
	for _, c := range files {
		f, err := open(c)
		if errors.Is(err, tensorfile.ErrUnknownFormat) && len(files) > 1 {
			continue // a file next to the weights, such as a README
		}
		if err != nil {
			return Source{}, &tensorfile.FileError{Name: c.Name, Err: err}
		}
		opened = append(opened, Source{Name: c.Name, File: f})
	}
	if len(opened) == 0 {
		return Source{}, fmt.Errorf("page: none of the %d files: %w", len(files),
			tensorfile.ErrUnknownFormat)
	}
	first := max(slices.IndexFunc(opened, func(s Source) bool {
		return s.File.Format() == tensorfile.PTE
	}), 0)
	out := opened[first]
	out.External = func(name string) *tensor.Tensor {
		for i, s := range opened {
			if t := s.File.Tensor(name); i != first && t != nil {
				return t
			}
		}
		return nil
	}
	return out, nil
}

// open opens one file. A damaged .rten of version 1 is recognised by its name only.
func open(c Content) (*tensorfile.File, error) {
	f, err := tensorfile.NewReader(c, c.Size, nil)
	if errors.Is(err, tensorfile.ErrUnknownFormat) &&
		tensorfile.ByName(c.Name) == tensorfile.RTen {
		return tensorfile.NewReader(c, c.Size, &tensorfile.Options{Format: tensorfile.RTen})
	}
	return f, err
}

// A directory is a file system with one directory.
type directory []Content

// Open implements fs.FS.
func (d directory) Open(name string) (fs.File, error) {
	if name == "." {
		return &openFile{info: info{name: "."}}, nil
	}
	for _, c := range d {
		if c.Name == name {
			return &openFile{info{name, c.Size}, io.NewSectionReader(c, 0, c.Size)}, nil
		}
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// ReadDir implements fs.ReadDirFS.
func (d directory) ReadDir(name string) ([]fs.DirEntry, error) {
	if name != "." {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	var all []fs.DirEntry
	for _, c := range d {
		all = append(all, fs.FileInfoToDirEntry(info{c.Name, c.Size}))
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return all, nil
}

// An openFile is an fs.File with ReadAt. SectionReader is nil for the directory.
type openFile struct {
	info info
	*io.SectionReader
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *openFile) Close() error               { return nil }

func (f *openFile) Read(p []byte) (int, error) {
	if f.SectionReader == nil {
		return 0, &fs.PathError{Op: "read", Path: ".", Err: fs.ErrInvalid}
	}
	return f.SectionReader.Read(p)
}

type info struct {
	name string
	size int64
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.name == "." }
func (i info) Sys() any           { return nil }

func (i info) Mode() fs.FileMode {
	if i.IsDir() {
		return fs.ModeDir | 0o555
	}
	return 0o444
}
