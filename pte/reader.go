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

// ReaderOptions change how a program is opened; nil is the zero value. Strict refuses
// what [Reader.Verify] would report, warnings included. Companion is not used: a program
// names external tensors, but not the .ptd; see tensor.VerifyOptions.External and
// [Edit.Internalize].
type ReaderOptions = tensor.ReadOptions

// A Reader is an open program, with the methods of every Reader: Close, Size, Len,
// Tensors and Tensor. All of its structure was checked when it was opened, so that
// walking it cannot fail. [Reader.Verify] checks whether the methods can run. A Reader is
// safe for concurrent use.
//
// Tensors are the constants, the mutable state that has a name or initial values, and the
// external tensors, which are in a .ptd, in the order of methods and values; a constant
// that two values use is there twice. A tensor that the file names has that name, any
// other is named METHOD/VALUE, after its method and its index in the method's values. A
// tensor whose bytes are not where they should be is there too: reading it fails. The
// bytes of a tensor follow its Order. The shape of a dynamic tensor is its upper bound.
type Reader struct {
	format.Base
	in      *format.Input
	at, end int64 // where the program begins in the file, and where it ends
	header  Header
	buf     []byte // the flatbuffer: of files a copy, so that what was verified cannot change
	root    *ptefb.Program
	bundle  *Bundle
	tensors []valueID        // that Tensors yields
	checked *format.Findings // what is wrong or odd, from the time when the program was opened

	segments            []segment
	constants, initials subsegments

	entries func() []Entry       // of tensors; the first call makes them
	byKey   func() *naming.Table // of the named data
}

const errs = format.Errors("pte")

// valueID is a value of a method.
type valueID struct{ method, value int32 }

// Detect reports whether r begins like a program or a bundled program, of this generation
// or another one, which Open then refuses as unsupported. It reads 8 bytes.
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

// Open opens a file, mapping it where the system can. Close the Reader.
func Open(name string, opts *ReaderOptions) (*Reader, error) {
	return format.Open(name, opts, read)
}

// OpenBytes reads a program in memory. It keeps b, metadata included, which must not
// change while the Reader is in use.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return format.OpenBytes(b, opts, read)
}

// NewReader reads a program of size bytes from r, which the caller closes. Opening takes
// two reads, of 64 bytes and of the flatbuffer, however large the file is; a .bpte, whose
// flatbuffer is the whole file, is read as a whole.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	return format.NewReader(r, size, opts, read)
}

func read(in *format.Input) (r *Reader, err error) {
	defer func() { // a net: everything is verified before it is walked
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
	if r.root.MutableDataSegmentsLength() > 0 { // flatc's accessor does not look
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

// head reads the first bytes of the program, and whether it is a bundle.
func (r *Reader) head() (head []byte, bundle bool, err error) {
	if head, err = r.in.Metadata(r.at, min(headBytes, r.end-r.at)); err != nil {
		return nil, false, errs.Wrap(-1, "", err)
	}
	bundle, err = identify(head, r.at)
	return head, bundle, err
}

// readProgram reads the flatbuffer and verifies it, so that no accessor can leave it.
func (r *Reader) readProgram() (fb.Summary, error) {
	var none fb.Summary
	n := r.header.ProgramSize
	if n > r.in.Options.Limits.MaxMetadata {
		return none, errs.At(r.at, "", tensor.ErrLimit,
			"a flatbuffer of %d bytes is above the limit of %d", n,
			r.in.Options.Limits.MaxMetadata)
	}
	buf, ok := r.in.Bytes(r.at, n)
	if !ok || r.in.Memory == nil { // the caller's bytes were promised not to change
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

// Header returns the extended header. Its Length is 0 when the program has none;
// ProgramSize is then the size of the file.
func (r *Reader) Header() Header { return r.header }

// Range returns where the program, header, flatbuffer and segments together, is in the
// file: all of it, or in a .bpte the place inside the bundle.
func (r *Reader) Range() (off, size int64) { return r.at, r.end - r.at }

// Bundle returns the test cases of a .bpte, nil for a .pte.
func (r *Reader) Bundle() *Bundle { return r.bundle }

// Raw returns the program's root table with the accessors that flatc generates, for
// callers that need every field. The buffer was verified and must not be changed.
func (r *Reader) Raw() *ptefb.Program {
	return ptefb.GetRootAsProgram(r.buf, 0)
}

// Program returns a view of the methods and data of the file.
func (r *Reader) Program() *Program { return (*Program)(r) }

// Warnings lists deviations that did not prevent reading: all that [Reader.Verify] finds
// without payloads or external tensors.
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

// value returns the value at a place.
func (r *Reader) value(p valueID) Value {
	return r.Program().method(int(p.method)).Value(int(p.value))
}

// Entries yields the tensors with the place of each in the program.
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

// Attributes yields the program's constant getters, methods without inputs and
// instructions that exporters use for metadata such as get_vocab_size, as text; several
// outputs are written [1, 2]. Getters that return tensors are left out;
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
