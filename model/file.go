package model

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

// A file is a weights file of a set, by itself.
type file struct {
	*entry
	open     *tensorfile.File // nil: missing, damaged, or a pickle that is not read
	mapped   int64            // how many tensors an index or a model has in it
	data     bool             // elements of tensors of an ONNX model, and nothing else
	findings findings
}

// read opens a file that is there and notes what is wrong with it. Nothing but its
// metadata is read.
func (d *directory) read(f *file, opts *Options) {
	note := func(x Finding) {
		x.Tensors = f.mapped
		f.findings.add(x)
	}
	if f.size == 0 {
		note(finding(EmptyFile, f.name, "", "0 bytes"))
		return
	}
	open, err := tensorfile.OpenFS(d.fsys, d.path(f.name), &tensorfile.Options{
		Format: formatOf(f.name), Limits: opts.Limits, NoMap: opts.NoMap,
		Companion: d.companions(f.name, opts.NoMap)})
	if err == nil && isPickle(f.name) && open.Format() != tensorfile.Torch {
		open.Close()
		err = tensorfile.ErrUnknownFormat
	}
	var refusal *Finding
	if err != nil {
		refusal = d.refusal(f, err)
	}
	if isPickle(f.name) && !refusal.isOther() {
		note(finding(Pickle, f.name, "", "loading a pickle in Python may run code"))
	}
	if refusal != nil {
		note(*refusal)
	}
	if err != nil {
		return
	}
	f.open = open
	for _, w := range open.Warnings() {
		var fe *tensor.FormatError
		switch {
		case isTrailing(w):
			note(findingOf(TrailingBytes, f.name, w))
		case errors.As(w, &fe) && fe.Code != "":
			f.findings.add(findingOf(Code(fe.Code), f.name, w))
		}
	}
	for t := range open.Tensors() {
		if name, ok := unknownDType(t); ok {
			f.findings.add(finding(UnknownDType, f.name, t.Name, "the dtype %s",
				naming.Quote(name)))
		}
	}
}

// refusal returns why a file could not be opened; nil of a pickle of another library,
// or one older than what is read.
func (d *directory) refusal(f *file, err error) *Finding {
	code := Malformed
	class := tensor.ClassOf(err)
	switch {
	case class == tensor.ClassLimit:
		code = Limit
	case errors.Is(err, fs.ErrNotExist): // what the file refers to
		code = MissingShard
	case class == tensor.ClassIO:
		code = Unreadable
	default:
		other, sniffErr := d.sniff(f)
		switch {
		case sniffErr != nil:
			code, err = Unreadable, sniffErr
		case other != nil:
			return other
		case isPickle(f.name) && (class == tensor.ClassUnsupported ||
			errors.Is(err, tensorfile.ErrUnknownFormat)):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			code = Truncated
		case isTrailing(err):
			code = TrailingBytes
		}
	}
	var named *tensorfile.FileError // a Finding has the name
	if errors.As(err, &named) {
		err = named.Err
	}
	x := findingOf(code, f.name, err)
	if code == MissingShard && x.File != f.name {
		x = finding(code, x.File, "", "named by %s", f.name)
	}
	return &x
}

// isOther reports whether a file is something else than its name says; false of nil.
func (f *Finding) isOther() bool {
	return f != nil && (f.Code == WrongFormat || f.Code == PointerFile)
}

// isTrailing reports whether the error of a reader is of bytes after the last tensor.
func isTrailing(err error) bool {
	var fe *tensor.FormatError
	return errors.As(err, &fe) && fe.Field == "data" && !errors.Is(err, io.ErrUnexpectedEOF)
}

// unknownDType returns the file's word for a dtype that has no name here.
func unknownDType(t *tensor.Tensor) (name string, ok bool) {
	switch {
	case t.DType.Known():
		return "", false
	case t.Scheme != "" || len(t.Parts) > 0: // a layout, of which GGUF has unknown ones
		return t.Scheme, strings.HasPrefix(t.Scheme, "ggml_type ")
	}
	stored, _ := t.Data.Stored()
	return stored.Type, true
}

// companions opens what a root of zTensor 2, or an ONNX model, refers to.
func (d *directory) companions(root string, noMap bool) func(string) (io.ReaderAt, int64, error) {
	return func(shard string) (io.ReaderAt, int64, error) {
		names := []string{path.Join(path.Dir(root), shard)}
		if formatOf(root) != tensorfile.ONNX {
			if err := safetensors.CheckShardName(shard); err != nil {
				return nil, 0, err
			}
			names = companionNames(root, shard)
		}
		for _, name := range names {
			if e := d.look(name); e.regular {
				return openReaderAt(d.fsys, d.path(name), e.size, noMap)
			}
		}
		return nil, 0, fs.ErrNotExist
	}
}

// companionNames are the names that a shard may have: after the name of its root, or its
// own.
func companionNames(root, shard string) []string {
	dir, base := path.Split(root)
	own := path.Join(dir, shard)
	if strings.Contains(shard, "/") {
		return []string{own}
	}
	return []string{dir + strings.TrimSuffix(base, path.Ext(base)) + "-" + shard, own}
}

func openReaderAt(fsys fs.FS, name string, size int64, noMap bool) (io.ReaderAt, int64, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, 0, err
	}
	if local, ok := f.(*os.File); ok {
		src, err := source.OfFile(local, noMap)
		if err != nil {
			return nil, 0, err
		}
		return src, src.Size(), nil
	}
	r, ok := f.(interface {
		io.ReaderAt
		io.Closer
	})
	if !ok {
		f.Close()
		return nil, 0, fmt.Errorf("%w: files without ReadAt", errors.ErrUnsupported)
	}
	return r, size, nil
}
