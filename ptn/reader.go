package ptn

import (
	"archive/zip"
	"bytes"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/zipfile"
	"github.com/tensorfile/tensorfile/schema/ptnfb"
	"github.com/tensorfile/tensorfile/tensor"
)

const errs = format.Errors("ptn")

// ReaderOptions control how a file is read. nil is the zero value. With Strict, each of
// Warnings is an error.
type ReaderOptions = tensor.ReadOptions

// A Reader is an open file, with the methods of every Reader: Close, Size, Len, Tensors,
// Tensor, Blobs, Attributes and Warnings. Tensors are the weights in the order of the
// file, then the aliases, which have the Data of other tensors; the weights of a .ptg are
// external, with the dtypes and shapes that the program says. There are no Blobs.
// Attributes are __metadata__ of the weights, which ExecuTorch does not write. It is safe
// for concurrent use. See package tensor for how long borrowed slices are valid.
type Reader struct {
	format.Base
	limits    tensor.Limits
	root      *ptnfb.Program
	programAt int64            // where root is in the file
	archive   *zipfile.Archive // nil: a .ptg
	owners    []tensor.Tensor  // stored or, of a .ptg, external
	aliases   []alias
	metadata  [][2]string
	tensors   func() []tensor.Tensor // owners and aliases; the first call makes them
}

// An alias is another name of a stored tensor.
type alias struct {
	name  string
	owner int // index in Reader.owners
}

// Detect reports whether a file is a program, or an archive that has one. The first
// member of an archive decides, or its directory, if that has no pickle of a
// checkpoint.
func Detect(r io.ReaderAt, size int64) bool {
	const first = "PK\x03\x04"
	const nameAt = 30 // in the header of a member
	head := make([]byte, min(size, nameAt+int64(len(programMember))))
	n, _ := r.ReadAt(head, 0)
	if isProgram(head[:n]) {
		return true
	}
	if n < nameAt || !bytes.HasPrefix(head, []byte(first)) {
		return false
	}
	z, err := zip.NewReader(r, size)
	if err != nil { // it may be cut
		return string(head[nameAt:n]) == programMember
	}
	found := false
	for _, f := range z.File {
		found = found || f.Name == programMember
		if strings.HasSuffix(f.Name, "/data.pkl") {
			return false
		}
	}
	return found
}

func isProgram(head []byte) bool {
	return len(head) >= 8 && string(head[4:8]) == ptnfb.ProgramIdentifier
}

// Open maps the named file and reads its program and the headers of its weights.
func Open(name string, opts *ReaderOptions) (*Reader, error) {
	return format.Open(name, opts, read)
}

// OpenBytes reads a file that is in memory. It keeps b, which must not change.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return format.OpenBytes(b, opts, read)
}

// NewReader reads the first size bytes of r, which the caller closes.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	return format.NewReader(r, size, opts, read)
}

func read(in *format.Input) (*Reader, error) {
	r := &Reader{limits: in.Options.Limits}
	format.InitBase(&r.Base, errs, in)
	head := make([]byte, min(in.Size(), 8))
	_, err := in.ReadAt(head, 0)
	switch {
	case err != nil:
		return nil, errs.Wrap(0, "", err)
	case bytes.HasPrefix(head, []byte("PK")):
		err = r.openArchive(in.Source)
	default:
		if err = r.readProgram(in.Source, 0, in.Size()); err == nil {
			err = r.listExternal()
		}
	}
	if err != nil {
		return nil, err
	}
	r.tensors = sync.OnceValue(func() []tensor.Tensor {
		all := slices.Grow(slices.Clip(r.owners), len(r.aliases))
		for _, a := range r.aliases {
			t := r.owners[a.owner]
			t.Name = a.name
			all = append(all, t)
		}
		return all
	})
	format.SetTensors(&r.Base, len(r.owners)+len(r.aliases),
		func(i int) *tensor.Tensor { return &r.tensors()[i] }, nil)
	format.SetAttributes(&r.Base, r.metadata)
	return r, nil
}

// Version returns the version of the program, "1" in all that ExecuTorch writes.
func (r *Reader) Version() string { return string(r.root.Version()) }

// Owner returns the name under which the tensor of an alias is stored, and whether name
// is an alias.
func (r *Reader) Owner(name string) (owner string, ok bool) {
	i := format.Index(&r.Base, name) - len(r.owners)
	if i < 0 {
		return "", false
	}
	return r.owners[r.aliases[i].owner].Name, true
}

// Spans yields the role of every byte of the file, in the order of offsets. Members of
// the archive that ExecuTorch ignores are unused, with their names.
func (r *Reader) Spans() iter.Seq[tensor.Span] {
	if r.archive == nil {
		return format.SpansOf(r, format.MetadataSpan(0, r.Size()))
	}
	frame := r.archive.Spans()
	for i := range r.archive.Members {
		if m := &r.archive.Members[i]; !isMember(m.File.Name) {
			frame = format.AppendSpan(frame, tensor.SpanBlob, m.File.Name, m.Blob(0, ""))
		}
	}
	return func(yield func(tensor.Span) bool) {
		for s := range format.SpansOf(r, frame...) {
			if s.Kind == tensor.SpanBlob {
				s.Kind = tensor.SpanUnused
			}
			if !yield(s) {
				return
			}
		}
	}
}
