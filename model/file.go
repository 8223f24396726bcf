package model

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/bridge/safetensors"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// A file is a weights file of a set, by itself.
type file struct {
	*entry
	open     *tensorfile.File // nil: missing, damaged, or a pickle that is not read
	mapped   int64            // how many tensors an index has in it
	findings findings
}

// damaged reports whether there is a file, and it cannot be read.
func (f *file) damaged() bool {
	return f.open == nil && f.regular && f.findings.n[tensor.SeverityError] > 0
}

// headSize is how much of a file tells what it is.
const headSize = 4 << 10

// read opens a file that is there and notes what is wrong with it. Nothing but its metadata
// is read.
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
	refusal := Finding{Code: Pickle}
	if err != nil {
		refusal = d.refusal(f, err)
	}
	if isPickle(f.name) && refusal.Code != WrongFormat && refusal.Code != PointerFile {
		note(finding(Pickle, f.name, "", "loading a pickle in Python may run code"))
	}
	if err != nil {
		if refusal.Code != Pickle {
			note(refusal)
		}
		return
	}
	f.open = open
	for _, w := range open.Warnings() {
		if isTrailing(w) {
			note(findingOf(TrailingBytes, f.name, w))
		}
	}
	for t := range open.Tensors() {
		if word, ok := unknownDType(t); ok {
			f.findings.add(finding(UnknownDType, f.name, t.Name, "the dtype %s", quote.Name(word)))
		}
	}
}

// refusal says why a file could not be opened.
func (d *directory) refusal(f *file, err error) Finding {
	if errors.Is(err, tensor.ErrLimit) {
		return findingOf(Limit, f.name, unnamed(err))
	}
	if errors.Is(err, fs.ErrNotExist) { // what the file refers to
		return findingOf(MissingShard, f.name, unnamed(err))
	}
	if tensor.ClassOf(err) == tensor.ClassIO {
		return findingOf(Unreadable, f.name, unnamed(err))
	}
	what, sniffErr := d.sniff(f)
	switch {
	case sniffErr != nil:
		return findingOf(Unreadable, f.name, sniffErr)
	case what.code != "":
		return finding(what.code, f.name, "", "%s", what.text)
	case isPickle(f.name) && (errors.Is(err, tensorfile.ErrUnknownFormat) || errors.Is(err, errors.ErrUnsupported)):
		return Finding{Code: Pickle} // of another library, or older than what is read
	case errors.Is(err, io.ErrUnexpectedEOF):
		return findingOf(Truncated, f.name, unnamed(err))
	case isTrailing(err):
		return findingOf(TrailingBytes, f.name, unnamed(err))
	}
	return findingOf(Malformed, f.name, unnamed(err))
}

// unnamed returns an error without the name of the file, which a Finding has.
func unnamed(err error) error {
	var named *tensorfile.FileError
	if errors.As(err, &named) {
		return named.Err
	}
	return err
}

// isTrailing reports whether the error of a reader is of bytes after the last tensor.
func isTrailing(err error) bool {
	var fe *tensor.FormatError
	return errors.As(err, &fe) && fe.Field == "data" && !errors.Is(err, io.ErrUnexpectedEOF)
}

// unknownDType returns the file's word for a dtype that has no name here.
func unknownDType(t *tensor.Tensor) (word string, ok bool) {
	if t.DType.Known() || len(t.Parts) > 0 {
		return "", false
	}
	stored, _ := t.Data.Stored()
	return stored.Type, true
}

// content is what a file is, where that is not what its name says.
type content struct {
	code Code
	text string
}

// sniff looks at the start of a file whose format's reader refused it, or that has none.
func (d *directory) sniff(f *file) (content, error) {
	in, err := d.fsys.Open(d.path(f.name))
	if err != nil {
		return content{}, err
	}
	defer in.Close()
	head := make([]byte, min(headSize, f.size))
	n, err := io.ReadFull(in, head)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return content{}, err
	}
	return whatIs(head[:n], f), nil
}

func whatIs(head []byte, f *file) content {
	wrong := func(what string) content { return content{WrongFormat, what + " under this name"} }
	text := bytes.TrimLeft(head, " \t\r\n\ufeff")
	switch {
	case isPointer(head):
		return content{PointerFile, pointer(f.name).Err.Error()}
	case path.Ext(f.name) == safetensorsExt && len(head) > 8 && head[8] == '{':
		return content{} // its length may begin with any byte
	case len(text) > 0 && text[0] == '<':
		return wrong("HTML or XML")
	case len(text) > 0 && (text[0] == '{' || text[0] == '['):
		return wrong("JSON")
	}
	// Only the start is looked at, whatever the format.
	got, err := tensorfile.Detect(prefix{bytes.NewReader(head)}, f.size)
	switch want := formatOf(f.name); {
	case err == nil && got != want && !(isPickle(f.name) && got == tensorfile.Torch):
		return wrong(got.Title())
	case want == 0 || err == nil:
		return content{}
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return wrong("a zip archive")
	case len(head) > 1 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5:
		return wrong("a pickle")
	}
	return content{}
}

// isPointer reports whether a file is what Git has of one that is in LFS.
func isPointer(b []byte) bool { return bytes.HasPrefix(b, []byte("version https://git-lfs")) }

func pointer(name string) Finding {
	return finding(PointerFile, name, "", "a pointer of Git LFS: the file itself was not fetched")
}

// A prefix is the start of a longer file; what comes after it cannot be read.
type prefix struct{ *bytes.Reader }

func (p prefix) ReadAt(b []byte, off int64) (int, error) {
	n, err := p.Reader.ReadAt(b, off)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// companions opens what a root of zTensor 2 refers to.
func (d *directory) companions(root string, noMap bool) func(string) (io.ReaderAt, int64, error) {
	return func(shard string) (io.ReaderAt, int64, error) {
		if err := safetensors.CheckShardName(shard); err != nil {
			return nil, 0, err
		}
		for _, name := range companionNames(root, shard) {
			if e := d.look(name); e.regular {
				return openReaderAt(d.fsys, d.path(name), e.size, noMap)
			}
		}
		return nil, 0, fs.ErrNotExist
	}
}

// companionNames are the names that a shard may have: after that of its root, or its own.
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
