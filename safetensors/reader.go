package safetensors

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/jsonheader"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

const formatName = "safetensors"

// DTypes returns the dtypes that a file can hold.
func DTypes() []tensor.DType { return jsonheader.DTypes() }

// ReaderOptions control how a file is read. nil is the zero value.
type ReaderOptions struct {
	// Strict refuses what the README of safetensors does not allow, though the
	// reference reads it: see Warnings.
	Strict bool
	// Limits bound what a file may ask for; zero fields mean the defaults.
	Limits tensor.Limits
	// NoMap makes Open read the file instead of mapping it.
	NoMap bool
	// Companion opens the shards that an index names. Open sets it to the
	// directory of the file, NewReader to that of a source that is a
	// tensor.Companion; where it stays nil, an index is refused.
	Companion func(name string) (io.ReaderAt, int64, error)
	// NoLinks makes Open refuse shards that are links out of the directory, as they
	// are in Hugging Face's cache. The names of an index never leave it.
	NoLinks bool
}

// A Reader is an open file, or an index and its shards. It is safe for
// concurrent use. See package tensor for how long what it hands out is valid.
type Reader struct {
	src      *source.Source
	tensors  []tensor.Tensor
	metadata [][2]string
	warnings []error
	dataAt   int64
	shards   []*Reader // of an index, in the order of their names
	closers  []io.Closer
	files    []string // of an index: the shards' names
	setID    string

	once  sync.Once
	table *naming.Table
}

// Detect reports whether a file begins like one of this format, or like the
// index of a sharded model, also where it ends within its header. It reads 10 bytes, or
// 64 KiB of what may be an index.
func Detect(r io.ReaderAt, size int64) bool {
	return detectFile(r, size) || detectIndex(r, size)
}

func detectFile(r io.ReaderAt, size int64) bool {
	var b [jsonheader.Start + 2]byte
	if size < int64(len(b)) {
		return false
	}
	if n, _ := r.ReadAt(b[:], 0); n < len(b) {
		return false
	}
	if n := binary.LittleEndian.Uint64(b[:]); n < 2 || n > jsonheader.Max || b[8] != '{' {
		return false
	}
	switch b[9] {
	case '"', '}', ' ', '\n', '\r', '\t':
		return true
	}
	return false
}

// Open maps the file and reads its header. An index opens its shards, which
// must be in its directory. If [WriteShards] was interrupted while it replaced the set,
// an error is tensor.ErrUnfinished, and an index that opens has a warning.
func Open(name string, opts *ReaderOptions) (*Reader, error) {
	o := options(opts)
	if o.Companion == nil {
		o.Companion = source.Companions(name, o.NoMap, o.NoLinks)
	}
	unfinished := func() error { return atomicfile.Unfinished(name) }
	for n := 1; ; n++ {
		before, statErr := os.Stat(name)
		r, err := source.OpenAs(name, o.NoMap, func(src *source.Source) (*Reader, error) {
			return newReader(src, o, unfinished)
		})
		if err != nil {
			return nil, atomicfile.Explain(formatName, unfinished(), err)
		}
		if len(r.files) == 0 {
			return r, nil
		}
		after, err := os.Stat(name)
		if statErr == nil && err == nil && os.SameFile(before, after) {
			return r, nil
		}
		r.Close()
		if n == 3 {
			return nil, fmt.Errorf("safetensors: %s was replaced while its shards were opened",
				name)
		}
	}
}

// OpenBytes reads a file that is in memory. It keeps b, which must not change.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return newReader(source.OfBytes(b), options(opts), nil)
}

// NewReader reads the first size bytes of r, which stays the caller's. A file
// is opened with two reads.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	src, err := source.OfReaderAt(r, size)
	if err != nil {
		return nil, err
	}
	o := options(opts)
	if c, ok := r.(tensor.Companion); ok && o.Companion == nil {
		o.Companion = c.Companion
	}
	return newReader(src, o, atomicfile.UnfinishedOf(r))
}

func options(opts *ReaderOptions) ReaderOptions {
	if opts == nil {
		return ReaderOptions{}
	}
	return *opts
}

// newReader reads a file or an index. unfinished returns why the shards may be of two
// sets; nil if that is not known.
func newReader(src *source.Source, o ReaderOptions, unfinished func() error) (*Reader, error) {
	r, err := o.read(src)
	if unfinished == nil || err == nil && len(r.files) == 0 {
		return r, err
	}
	pending := unfinished()
	if err != nil || pending == nil {
		return r, atomicfile.Explain(formatName, pending, err)
	}
	w := &tensor.FormatError{Format: formatName, Offset: -1, Field: weightMap, Err: pending}
	if o.Strict {
		r.Close()
		return nil, w
	}
	r.warnings = append(r.warnings, w)
	return r, nil
}

func (o ReaderOptions) read(src *source.Source) (*Reader, error) {
	limits, err := format.CompleteLimits(o.Limits)
	if err != nil {
		return nil, err
	}
	o.Limits = limits
	var first [jsonheader.Start + 1]byte
	head := first[:min(int64(len(first)), src.Size())]
	if _, err := src.ReadAt(head, 0); err != nil {
		return nil, readError("header", 0, err)
	}
	// A size of 2^56 and more is the beginning of a text.
	if len(head) > 1 && (len(head) < jsonheader.Start || head[jsonheader.Start-1] != 0) &&
		(head[0] == '{' || detectIndex(src, src.Size())) {
		return openIndex(src, o)
	}
	h, err := jsonheader.Read(formatName, src, 0, src.Size(), head, limits)
	if err != nil {
		return nil, err
	}
	if o.Strict && len(h.Warnings) > 0 {
		return nil, h.Warnings[0]
	}
	r := &Reader{src: src, metadata: h.Metadata, warnings: h.Warnings, dataAt: h.DataAt,
		setID: setID(h.Metadata)}
	if r.tensors, err = h.Tensors(src); err != nil {
		return nil, err
	}
	return r, nil
}

func malformed(off int64, field, format string, args ...any) error {
	return &tensor.FormatError{Format: formatName, Offset: off, Field: field,
		Err: fmt.Errorf("%w: "+format, append([]any{tensor.ErrMalformed}, args...)...)}
}

func limitError(off int64, field, format string, args ...any) error {
	return &tensor.FormatError{Format: formatName, Offset: off, Field: field,
		Err: fmt.Errorf("%w: "+format, append([]any{tensor.ErrLimit}, args...)...)}
}

func readError(field string, off int64, err error) error {
	return &tensor.FormatError{Format: formatName, Offset: off, Field: field, Err: err}
}

// Close releases the file, and the shards of an index. It may be called twice.
func (r *Reader) Close() error {
	err := r.src.Close()
	for _, s := range r.shards {
		err = errors.Join(err, s.Close())
	}
	for _, c := range r.closers {
		err = errors.Join(err, c.Close())
	}
	return err
}

// Version is empty: the format has none.
func (r *Reader) Version() string { return "" }

// Size returns the size of the file in bytes.
func (r *Reader) Size() int64 { return r.src.Size() }

// Len is the number of tensors.
func (r *Reader) Len() int { return len(r.tensors) }

// Tensors yields the tensors in the order of their offsets; those of an index
// shard by shard.
func (r *Reader) Tensors() iter.Seq[*tensor.Tensor] {
	return func(yield func(*tensor.Tensor) bool) {
		for i := range r.tensors {
			if !yield(&r.tensors[i]) {
				return
			}
		}
	}
}

// Tensor returns the tensor of that name, or nil. The first call builds a table
// of all names; later ones allocate nothing.
func (r *Reader) Tensor(name string) *tensor.Tensor {
	r.once.Do(func() {
		r.table, _ = naming.Build(len(r.tensors), func(i int) string { return r.tensors[i].Name })
	})
	if i := r.table.Lookup(name); i >= 0 {
		return &r.tensors[i]
	}
	return nil
}

// Blobs yields nothing: every byte belongs to a tensor.
func (r *Reader) Blobs() iter.Seq2[string, tensor.Blob] {
	return func(func(string, tensor.Blob) bool) {}
}

// Attributes yields __metadata__ in the order of the file; of an index what it
// says itself, then what its shards add, of which the first counts.
func (r *Reader) Attributes() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, kv := range r.metadata {
			if !yield(kv[0], kv[1]) {
				return
			}
		}
	}
}

// Warnings lists departures from the README that did not prevent reading.
func (r *Reader) Warnings() []error { return r.warnings }

// Shards yields the names of the files that an index refers to; nothing for a
// plain file.
func (r *Reader) Shards() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, name := range r.files {
			if !yield(name) {
				return
			}
		}
	}
}

// Verify reads every byte. The format has no digests: what can be found in addition
// to what opening found are bytes that cannot be read, and bools that are neither
// 0 nor 1. A dtype that the reference does not know is an error here, though the
// tensor is listed. opts may be nil.
func (r *Reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	l := format.NewFindings(opts)
	return l.End(r.verify(ctx, l))
}

func (r *Reader) verify(ctx context.Context, l *format.Findings) error {
	for _, w := range r.warnings {
		if jsonheader.IsUnknownDType(w) {
			l.Error(w)
		} else {
			l.Warn(w)
		}
	}
	if l.Options.Depth <= tensor.VerifyStructure {
		return nil
	}
	var total, done int64
	for i := range r.tensors {
		total += r.tensors[i].Data.Size()
	}
	buf := make([]byte, 1<<20)
	for i := range r.tensors {
		t := &r.tensors[i]
		st, _ := t.Data.Stored()
		field := fmt.Sprintf("data[%s]", naming.Quote(t.Name))
		fail := func(err error) {
			if st.File != "" {
				err = format.InFile(formatName, st.File, err)
			}
			l.Error(err)
		}
		for off := int64(0); off < st.Size && !l.Full(); off += int64(len(buf)) {
			if err := ctx.Err(); err != nil {
				return err
			}
			p := buf[:min(int64(len(buf)), st.Size-off)]
			if _, err := t.Data.ReadAt(p, off); err != nil {
				fail(readError(field, st.Offset+off, err))
				break
			}
			if t.DType == tensor.Bool {
				if k := le.NotBool(p); k >= 0 {
					fail(malformed(st.Offset+off+int64(k), field,
						"element %d is the bool %#02x", off+int64(k), p[k]))
					break
				}
			}
			done += int64(len(p))
			if l.Options.Progress != nil {
				l.Options.Progress(done, total)
			}
		}
	}
	return nil
}
