package pte

import (
	"errors"
	"io"
	"iter"
	"strconv"
	"sync"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// ReaderOptions change how a program is opened; nil means the zero value. With Strict,
// Open fails if [Reader.Warnings] would not be empty. Companion is not used: a program
// names external tensors, but not their .ptd; see tensor.VerifyOptions.External and
// [Edit.Internalize].
type ReaderOptions = tensor.ReadOptions

// A Reader is an open program, with the methods of every Reader: Close, Size, Len,
// Tensors and Tensor. Its structure was checked when it was opened, so iteration cannot
// fail. [Reader.Verify] checks whether the methods can run. A Reader is safe for
// concurrent use.
//
// Tensors yields the constants, the state that has a name or an initial value, and the
// external tensors, whose bytes are in a .ptd, in the order of methods and values. A
// constant that two values use is yielded twice. A tensor without a name in the file is
// named METHOD/VALUE, after its method and its index in the method's values. If the bytes
// of a tensor are not where the program says, reading it fails. The bytes of a tensor
// follow its Order. The shape of a dynamic tensor is its upper bound.
type Reader struct {
	format.Base
	in      *format.Input
	at, end int64 // where the program begins in the file, and where it ends
	header  Header
	buf     []byte // the flatbuffer; a copy if it is from a file, which might change
	root    *ptefb.Program
	bundle  *Bundle
	tensors []valueID        // that Tensors yields
	checked *format.Findings // from the checks when the program was opened

	segments            []segment
	constants, initials subsegments

	entries func() []Entry       // of tensors; made by the first call
	byKey   func() *naming.Table // indices of the named data; made by the first call
}

const errs = format.Errors("pte")

// A valueID names a value of the program, by the indices of its method and of the value.
type valueID struct{ method, value int32 }

// Detect reports whether r begins like a .pte or a .bpte, also of a generation of the
// format that Open refuses with errors.ErrUnsupported. It reads 8 bytes.
func Detect(r io.ReaderAt, size int64) bool {
	var head [8]byte
	if size < int64(len(head)) {
		return false
	}
	if n, err := r.ReadAt(head[:], 0); n < len(head) && err != nil {
		return false
	}
	_, err := identify(head[:], 0)
	return err == nil || errors.Is(err, errors.ErrUnsupported)
}

// Open opens a file, mapping it where the system can. The caller must close the Reader.
// Open fails with tensor.ErrMalformed, io.ErrUnexpectedEOF, tensor.ErrLimit or
// errors.ErrUnsupported if the program cannot be read.
func Open(name string, opts *ReaderOptions) (*Reader, error) {
	return format.Open(name, opts, read)
}

// OpenBytes opens a program in memory. It does not copy b, which must not change while
// the Reader is in use.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return format.OpenBytes(b, opts, read)
}

// NewReader opens a program of size bytes in r, which the caller closes. It makes two
// reads: 64 bytes, and the flatbuffer. A .bpte is one flatbuffer, and is read whole.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	return format.NewReader(r, size, opts, read)
}

func read(in *format.Input) (r *Reader, err error) {
	defer func() { // a safety net: everything is verified before it is used
		if p := recover(); p != nil {
			r, err = nil, errs.Malformed(-1, "", "a bug in tensorfile: %v", p)
		}
	}()
	r = &Reader{in: in, end: in.Size(), checked: format.NewFindings(nil)}
	format.InitBase(&r.Base, errs, in)
	head, bundle, err := r.head()
	if err == nil && bundle {
		if err = r.unwrap(); err == nil {
			head, bundle, err = r.head()
		}
		if err == nil && bundle {
			err = errs.Malformed(r.at, "program", "a bundle inside a bundle")
		}
	}
	if err != nil {
		return nil, err
	}
	if r.header, err = parseHeader(head, r.at, r.end-r.at); err != nil {
		return nil, err
	}
	seen, err := r.readProgram()
	if err != nil {
		return nil, err
	}
	if r.end-r.at < headBytes {
		r.checked.Warn(errs.Malformed(r.at, "",
			"a program of less than %d bytes: the runtime refuses to load it", headBytes))
	}
	if err := r.readSegments(); err != nil {
		return nil, err
	}
	r.constants = r.subsegments(r.root.ConstantSegment(nil), "constant_segment", 0)
	if r.root.MutableDataSegmentsLength() > 0 { // flatc's accessor does not check the length
		var first ptefb.SubsegmentOffsets
		r.root.MutableDataSegments(&first, 0)
		r.initials = r.subsegments(&first, "mutable_data_segments[%d]", 0)
	}
	if r.tensors, err = r.check(seen); err != nil {
		return nil, err
	}
	r.entries = sync.OnceValue(r.makeEntries)
	r.byKey = sync.OnceValue(r.namedKeys)
	format.SetTensors(&r.Base, len(r.tensors),
		func(i int) *tensor.Tensor { return r.entries()[i].Tensor },
		func(i int) string { return r.value(r.tensors[i]).name() })
	return r, nil
}

// head reads the first bytes of the program, and reports whether it is a bundle.
func (r *Reader) head() (head []byte, bundle bool, err error) {
	if head, err = r.in.Metadata(r.at, min(headBytes, r.end-r.at)); err != nil {
		return nil, false, errs.Wrap(-1, "", err)
	}
	bundle, err = identify(head, r.at)
	return head, bundle, err
}

// readProgram reads the flatbuffer and verifies it, so that no accessor reads outside it.
func (r *Reader) readProgram() (fb.Summary, error) {
	var none fb.Summary
	n := r.header.ProgramSize
	if n > r.in.Options.Limits.MaxMetadata {
		return none, errs.At(r.at, "", tensor.ErrLimit,
			"a flatbuffer of %d bytes is above the limit of %d", n,
			r.in.Options.Limits.MaxMetadata)
	}
	buf, ok := r.in.Bytes(r.at, n)
	if !ok || r.in.Memory == nil { // only memory of OpenBytes is used without a copy
		var err error
		if buf, err = r.in.Metadata(r.at, n); err != nil {
			return none, errs.Wrap(-1, "", err)
		}
	}
	if len(buf) < 8 {
		return none, errs.At(r.at, "", io.ErrUnexpectedEOF,
			"%d bytes are too few for a program", len(buf))
	}
	buf = buf[:len(buf):len(buf)]
	if err := checkRoot(buf, r.header, r.at); err != nil {
		return none, err
	}
	seen, err := verify(buf, ptefb.TableProgram, r.at)
	if err != nil {
		return none, err
	}
	r.buf, r.root = buf, ptefb.GetRootAsProgram(buf, 0)
	return seen, nil
}

// verify verifies a flatbuffer that begins at byte at of the file.
func verify(buf []byte, root int, at int64) (fb.Summary, error) {
	seen, err := fb.VerifySummary(buf, &ptefb.Schema, root, fb.Limits{})
	return seen, executorch.Unverified("pte", err, at)
}

// Version returns the schema version that the program declares, "0" in all programs so
// far.
func (r *Reader) Version() string {
	return strconv.FormatUint(uint64(r.root.Version()), 10)
}

// Header returns the extended header. If the program has none, Length is 0 and
// ProgramSize is the size of the program.
func (r *Reader) Header() Header { return r.header }

// Range returns the byte range of the program in the file: all of a .pte, and a part of a
// .bpte.
func (r *Reader) Range() (off, size int64) { return r.at, r.end - r.at }

// Bundle returns the test cases of a .bpte, nil for a .pte.
func (r *Reader) Bundle() *Bundle { return r.bundle }

// Raw returns the program's root table with the accessors that flatc generates, for
// callers that need every field. The buffer was verified; the caller must not change it.
func (r *Reader) Raw() *ptefb.Program {
	return ptefb.GetRootAsProgram(r.buf, 0)
}

// Program returns a view of the methods and data of the file.
func (r *Reader) Program() *Program { return (*Program)(r) }

// Warnings returns the errors and warnings that did not prevent opening: all that
// [Reader.Verify] finds without reading payloads or external tensors.
func (r *Reader) Warnings() []error {
	var all []error
	for _, f := range r.checked.All() {
		all = append(all, f.Err)
	}
	return all
}

func (r *Reader) namedKeys() *naming.Table {
	table, _ := naming.Build(r.root.NamedDataLength(), func(i int) string {
		var t ptefb.NamedData
		r.root.NamedData(&t, i)
		return string(t.Key())
	})
	return table
}

// value returns the value with that ID.
func (r *Reader) value(id valueID) Value {
	return r.Program().method(int(id.method)).Value(int(id.value))
}

// Entries yields the tensors of the Reader, each with its method, value and role.
func (r *Reader) Entries() iter.Seq[*Entry] {
	return format.Each(len(r.tensors), func(i int) *Entry { return &r.entries()[i] })
}

func (r *Reader) makeEntries() []Entry {
	all, tensors := make([]Entry, len(r.tensors)), make([]tensor.Tensor, len(r.tensors))
	for i, p := range r.tensors {
		all[i].Tensor = &tensors[i]
		r.value(p).fillEntry(&all[i])
	}
	return all
}

// Blobs yields the payloads of delegates as delegate/METHOD/INDEX and the named data as
// named/KEY. Several may share their bytes.
func (r *Reader) Blobs() iter.Seq2[string, tensor.Blob] {
	return func(yield func(string, tensor.Blob) bool) {
		for m := range r.Program().Methods() {
			for _, d := range m.Delegates() {
				if !yield(delegateName(m.Name(), d.Index), d.Payload) {
					return
				}
			}
		}
		for d := range r.Program().NamedData() {
			if !yield(blobPrefix+d.Key, d.Data) {
				return
			}
		}
	}
}

// Attributes yields the name and result of each constant getter, as text: methods that
// only return stored values, which exporters use for metadata such as get_vocab_size.
// Several outputs are written [1, 2]. Getters that return tensors are left out.
// [Program.Metadata] has the values with their types.
func (r *Reader) Attributes() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for name, v := range r.Program().Metadata() {
			if text, ok := metadataText(v); ok && !yield(name, text) {
				return
			}
		}
	}
}
