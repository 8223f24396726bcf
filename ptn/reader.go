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
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/internal/zipfile"
	"github.com/tensorfile/tensorfile/schema/ptnfb"
	"github.com/tensorfile/tensorfile/tensor"
)

const errs = format.Errors("ptn")

// ReaderOptions control how a file is read. nil is the zero value.
type ReaderOptions struct {
	// Strict refuses what Warnings lists.
	Strict bool
	// Limits bound what a file may ask for; zero fields mean the defaults.
	Limits tensor.Limits
	// NoMap makes Open read the file instead of mapping it.
	NoMap bool
	// Companion is not used: a file does not say where its weights are.
	Companion func(name string) (io.ReaderAt, int64, error)
}

// A Reader is an open file. It is safe for concurrent use. See package tensor for how
// long what it returns is valid.
type Reader struct {
	src      *source.Source
	limits   tensor.Limits
	root     *ptnfb.Program
	archive  *zipfile.Archive // nil: a .ptg
	owners   []tensor.Tensor  // stored or, of a .ptg, external
	aliases  []alias
	metadata [][2]string
	warnings format.Warnings

	programAt int64                  // where root is in the file
	tensors   func() []tensor.Tensor // owners and aliases; the first call makes them
	lookup    func() *naming.Table
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
	o := options(opts)
	return source.OpenAs(name, o.NoMap, o.newReader)
}

// OpenBytes reads a file that is in memory. It keeps b, which must not change.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return options(opts).newReader(source.OfBytes(b))
}

// NewReader reads the first size bytes of r, which stays the caller's.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	src, err := source.OfReaderAt(r, size)
	if err != nil {
		return nil, err
	}
	return options(opts).newReader(src)
}

func options(opts *ReaderOptions) ReaderOptions {
	if opts == nil {
		return ReaderOptions{}
	}
	return *opts
}

func (o ReaderOptions) newReader(src *source.Source) (*Reader, error) {
	limits, err := format.CompleteLimits(o.Limits)
	if err != nil {
		return nil, err
	}
	r := &Reader{src: src, limits: limits,
		warnings: format.Warnings{Strict: o.Strict, Format: string(errs)}}
	head := make([]byte, min(src.Size(), 8))
	if _, err := src.ReadAt(head, 0); err != nil {
		return nil, &tensor.FormatError{Format: string(errs), Offset: 0, Err: err}
	}
	if bytes.HasPrefix(head, []byte("PK")) {
		err = r.openArchive()
	} else if err = r.readProgram(0, src.Size()); err == nil {
		err = r.listExternal()
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
	r.lookup = sync.OnceValue(func() *naming.Table {
		t, _ := naming.Build(r.Len(), func(i int) string { return r.tensors()[i].Name })
		return t
	})
	return r, nil
}

// Close releases the file. It may be called twice.
func (r *Reader) Close() error { return r.src.Close() }

// Version returns the version of the program, "1" in all that ExecuTorch writes.
func (r *Reader) Version() string { return string(r.root.Version()) }

// Size is the size of the file in bytes.
func (r *Reader) Size() int64 { return r.src.Size() }

// Len is the number of names, aliases included.
func (r *Reader) Len() int { return len(r.owners) + len(r.aliases) }

// Tensors yields the weights in the order of the file, then the aliases, which have the
// Data of other tensors. The weights of a .ptg are external, with the dtypes and shapes
// that the program says.
func (r *Reader) Tensors() iter.Seq[*tensor.Tensor] {
	return format.Each(r.Len(), func(i int) *tensor.Tensor { return &r.tensors()[i] })
}

// Tensor returns the tensor of that name, or nil.
func (r *Reader) Tensor(name string) *tensor.Tensor {
	if i := r.lookup().Lookup(name); i >= 0 {
		return &r.tensors()[i]
	}
	return nil
}

// Owner returns the name under which the tensor of an alias is stored, and whether name
// is an alias.
func (r *Reader) Owner(name string) (owner string, ok bool) {
	i := r.lookup().Lookup(name) - len(r.owners)
	if i < 0 {
		return "", false
	}
	return r.owners[r.aliases[i].owner].Name, true
}

// Blobs yields nothing: all data belong to tensors.
func (r *Reader) Blobs() iter.Seq2[string, tensor.Blob] {
	return func(func(string, tensor.Blob) bool) {}
}

// Attributes yields __metadata__ of the weights, which ExecuTorch does not write.
func (r *Reader) Attributes() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, kv := range r.metadata {
			if !yield(kv[0], kv[1]) {
				return
			}
		}
	}
}

// Warnings lists departures that did not prevent reading.
func (r *Reader) Warnings() []error { return r.warnings.All() }

// Spans yields what every byte of the file is for, in the order of offsets. Members of
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
