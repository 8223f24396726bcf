package safetensors

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"iter"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/jsonheader"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

const errs = format.Errors("safetensors")

// DTypes returns the dtypes that a file can hold.
func DTypes() []tensor.DType { return jsonheader.DTypes() }

// ReaderOptions control how a file is read. nil is the zero value. Strict refuses files
// that the README of safetensors does not allow, although the reference reads them.
type ReaderOptions = tensor.ReadOptions

// A Reader is an open file, or an index and its shards, with the methods of every Reader:
// Close, Size, Len, Tensors, Tensor, Blobs, Attributes and Warnings. Tensors are in the
// order of their offsets, in an index shard by shard. Attributes are __metadata__, for an
// index its "metadata", then the keys that only shards have. There are no Blobs. A Reader
// is safe for concurrent use. See package tensor for how long borrowed slices are valid.
type Reader struct {
	format.Base
	tensors  []tensor.Tensor
	metadata [][2]string
	setID    string
	dataAt   int64       // offset of the data; 0 for an index
	files    []string    // names of the shards of an index, sorted
	shards   []*Reader   // by files
	closers  []io.Closer // sources of the shards
}

// Detect reports whether a file begins as a safetensors file does, or as the index of a
// sharded model does. The file may end within its header. Detect reads 10 bytes, or 64
// KiB if they are not the beginning of a safetensors file.
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

// Open maps the file and reads its header. An index opens its shards, which must be in
// its directory. If [WriteShards] was interrupted while it replaced the set, Open fails
// with tensor.ErrUnfinished, or, if the set still opens, adds a warning.
func Open(name string, opts *ReaderOptions) (*Reader, error) {
	return format.Open(name, opts, read)
}

// OpenBytes reads a file that is in memory. It keeps b, which must not change.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return format.OpenBytes(b, opts, read)
}

// NewReader reads the first size bytes of r, which the caller closes. Opening a file
// takes two reads.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	return format.NewReader(r, size, opts, read)
}

// read reads a file or an index.
func read(in *format.Input) (*Reader, error) {
	r := new(Reader)
	format.InitBase(&r.Base, errs, in)
	var first [jsonheader.Start + 1]byte
	head := first[:min(int64(len(first)), in.Size())]
	if _, err := in.ReadAt(head, 0); err != nil {
		return nil, errs.Wrap(0, "header", err)
	}
	if isIndex(head, in, in.Size()) {
		if err := r.readIndex(in); err != nil {
			r.closeShards()
			return nil, err
		}
	} else {
		h, err := jsonheader.Read(string(errs), in.Source, 0, in.Size(), head, in.Options.Limits)
		if err != nil {
			return nil, err
		}
		r.metadata, r.dataAt, r.setID = h.Metadata, h.DataAt, setID(h.Metadata)
		for _, w := range h.Warnings {
			format.Warn(&r.Base, w)
		}
		if r.tensors, err = h.Tensors(in.Source); err != nil {
			return nil, err
		}
	}
	format.SetList(&r.Base, r.tensors)
	format.SetAttributes(&r.Base, r.metadata)
	return r, nil
}

// Close releases the file, and the shards of an index. It may be called twice.
func (r *Reader) Close() error { return errors.Join(r.Base.Close(), r.closeShards()) }

func (r *Reader) closeShards() error {
	var err error
	for _, s := range r.shards {
		err = errors.Join(err, s.Close())
	}
	for _, c := range r.closers {
		err = errors.Join(err, c.Close())
	}
	return err
}

// Version returns "": the format has no versions.
func (r *Reader) Version() string { return "" }

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

// Verify reads every byte. The format has no digests: in addition to the warnings of
// Open, it finds bytes that cannot be read, and bools that are neither 0 nor 1. A dtype
// that the reference does not know is an error here, and a warning of Open. opts may be
// nil.
func (r *Reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	l := format.NewFindings(opts)
	return l.End(r.verify(ctx, l))
}

func (r *Reader) verify(ctx context.Context, l *format.Findings) error {
	for _, w := range r.Warnings() {
		if jsonheader.IsUnknownDType(w) {
			l.Error(w)
		} else {
			l.Warn(w)
		}
	}
	if l.Options.Depth <= tensor.VerifyStructure {
		return nil
	}
	v := verifier{ctx: ctx, list: l, buf: make([]byte, 1<<20)}
	for i := range r.tensors {
		v.total += r.tensors[i].Data.Size()
	}
	for i := 0; i < len(r.tensors) && !l.Full(); i++ {
		if err := v.tensor(&r.tensors[i]); err != nil {
			return err
		}
	}
	return nil
}

type verifier struct {
	ctx         context.Context
	list        *format.Findings
	buf         []byte
	done, total int64
}

// tensor reads the data of a tensor up to the first finding. The error is the error of
// the context.
func (v *verifier) tensor(t *tensor.Tensor) error {
	at, err := format.ReadBlob(v.ctx, t.Data, t.DType, v.buf, func(n int64) {
		v.done += n
		if v.list.Options.Progress != nil {
			v.list.Options.Progress(v.done, v.total)
		}
	})
	if err := v.ctx.Err(); err != nil {
		return err
	}
	if err != nil {
		st, _ := t.Data.Stored()
		err = errs.Wrap(st.Offset+at, "data["+naming.Quote(t.Name)+"]", err)
		if st.File != "" {
			err = errs.InFile(st.File, err)
		}
		v.list.Error(err)
	}
	return nil
}
