package onnx

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// A dataFile is a file with elements of tensors, next to the model. It is opened when it
// is first needed.
type dataFile struct {
	name string // a path with slashes
	r    *Reader

	mu     sync.Mutex
	opened bool
	src    *source.Source
	closer io.Closer
	err    error
}

// open returns the file, or why it cannot be read.
func (d *dataFile) open() (*source.Source, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.r.closed.Load() {
		return nil, fs.ErrClosed
	}
	if d.opened {
		return d.src, d.err
	}
	d.opened = true
	in, size, err := d.r.companion(d.name)
	if err != nil {
		d.err = err
		return nil, err
	}
	d.closer, _ = in.(io.Closer)
	d.src, d.err = source.OfReaderAt(in, size)
	return d.src, d.err
}

// close closes the file, if it was opened.
func (d *dataFile) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	if d.src != nil {
		err = d.src.Close()
	}
	if d.closer != nil {
		err, d.closer = d.closer.Close(), nil
	}
	return err
}

// DataAlignment is what the format recommends offsets in other files to be multiples of.
const DataAlignment = 4096

// A DataFile is a file with elements of tensors, below the directory of the model.
type DataFile struct {
	Name    string
	Size    int64 // -1 where it cannot be opened
	Err     error // why not
	Tensors int   // that have elements there, parts of sparse ones counted by themselves
	Bytes   int64 // that are theirs; shared ones count once
	End     int64 // of the last of them
	// Alignment is the largest power of two, up to DataAlignment, that all offsets are
	// multiples of.
	Alignment int64
}

// DataFiles returns the files that tensors refer to, by name. It opens them.
func (r *Reader) DataFiles() []DataFile {
	var all []DataFile
	index := map[*dataFile]int{}
	for _, d := range r.dataFiles() {
		index[d] = len(all)
		x := DataFile{Name: d.name, Size: -1, Alignment: DataAlignment}
		if src, err := d.open(); err != nil {
			x.Err = err
		} else {
			x.Size = src.Size()
		}
		all = append(all, x)
	}
	end := int64(0) // of what was counted, in the file of the tensor before
	var before *dataFile
	for _, x := range r.externals() {
		d := &all[index[x.file]]
		if x.file != before {
			end, before = 0, x.file
		}
		d.Tensors++
		d.End = max(d.End, x.off+x.size)
		d.Bytes += max(0, x.off+x.size-max(end, x.off))
		end = max(end, x.off+x.size)
		for x.off%d.Alignment != 0 {
			d.Alignment /= 2
		}
	}
	return all
}

// externals are the tensors and parts that have elements in other files, which end before
// 2^63, by file and place.
func (r *Reader) externals() (all []*external) {
	add := func(b tensor.Blob) {
		if x, ok := b.Source().(*external); ok && x.size > 0 && x.off <= math.MaxInt64-x.size {
			all = append(all, x)
		}
	}
	for _, e := range r.entries {
		add(e.tensor.Data)
		for _, p := range e.tensor.Parts {
			add(p.Data)
		}
	}
	slices.SortStableFunc(all, func(a, b *external) int {
		return cmp.Or(cmp.Compare(a.file.name, b.file.name), cmp.Compare(a.off, b.off),
			cmp.Compare(a.size, b.size))
	})
	return all
}

// external is elements in another file. It is the source of a Blob.
type external struct {
	file    *dataFile
	tensor  *tensor.Tensor
	off     int64
	size    int64
	at      int64    // of the tensor in the model
	sum     string   // SHA-1 of the whole file
	unknown []string // keys that have no meaning
}

// field names the tensor in errors.
func (x *external) field() string { return "external_data of " + naming.Quote(x.tensor.Name) }

// external is the data of a tensor in another file, size bytes.
func (p *parser) external(e *entry, x *proto, size int64) tensor.Blob {
	s := &p.externals.Take(1)[0]
	*s = external{tensor: e.named(), size: size, at: x.at}
	p.charge(128)
	location, length, at := "", int64(-1), x.at
	for _, kv := range x.pairs {
		var err error
		switch kv.key {
		case "location":
			location, at = kv.value, kv.at
		case "offset":
			s.off, err = decimal(kv.value)
		case "length":
			length, err = decimal(kv.value)
		case "checksum":
			s.sum = kv.value
		case "basepath":
		default:
			p.charge(32 + len(kv.key))
			s.unknown = append(s.unknown, kv.key)
		}
		if err != nil {
			return p.refuse(kv.at, size, "external_data", "%s: %v", kv.key, err)
		}
	}
	name, err := "", error(nil)
	if s.file = p.file; s.file == nil || location != p.location {
		name, err = localName(location)
	}
	switch {
	case err != nil:
		p.charge(256)
		return tensor.NewBlob(&unreadable{size: size, err: &tensor.FormatError{
			Format: formatName, Offset: at, Field: p.fieldPath("external_data"),
			Code: tensor.CodeUnsafePath,
			Err: fmt.Errorf("%w: the location %s: %w", tensor.ErrMalformed, naming.Quote(location),
				err)}})
	case length >= 0 && length != size:
		return p.refuse(x.at, size, "external_data", "length %d where %v of %v takes %d", length,
			e.tensor.Shape, e.tensor.DType, size)
	}
	if name != "" {
		if s.file = p.r.files[name]; s.file == nil {
			p.charge(256 + len(name))
			s.file = &dataFile{name: name, r: p.r}
			p.r.files[name] = s.file
		}
		p.location, p.file = location, s.file // most often the file of the next tensor too
	}
	return tensor.NewBlob(s)
}

// decimal reads a number below 2^63 that is digits alone.
func decimal(s string) (int64, error) {
	n := int64(0)
	for i := range len(s) {
		digit := int64(s[i]) - '0'
		if digit < 0 || digit > 9 {
			return 0, fmt.Errorf("%s is no number", naming.Quote(s))
		}
		if n > (math.MaxInt64-digit)/10 {
			return 0, fmt.Errorf("%s is beyond every file", naming.Quote(s))
		}
		n = 10*n + digit
	}
	if s == "" {
		return 0, errors.New("no number")
	}
	return n, nil
}

// localName returns the path of a file below the directory of the model, in its shortest
// form. Names that mean the same on every system are accepted alone.
func localName(location string) (string, error) {
	isDrive := len(location) > 1 && location[1] == ':'
	switch name := path.Clean(location); {
	case location == "":
		return "", fmt.Errorf("no file is named")
	case strings.ContainsAny(location, "\\\x00"), isDrive:
		return "", fmt.Errorf("a backslash, a drive or a NUL")
	case path.IsAbs(location), strings.Contains("/"+location+"/", "/../"):
		return "", fmt.Errorf("it leads out of the directory")
	case name == "." || strings.HasSuffix(location, "/"):
		return "", fmt.Errorf("a directory")
	default:
		return name, nil
	}
}

// open returns where the elements are.
func (x *external) open() (source.Extent, error) {
	failed := &tensor.FormatError{Format: formatName, Offset: x.at, Field: x.field()}
	src, err := x.file.open()
	if err != nil {
		if failed.Err = err; errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
			failed.Code = tensor.CodeMissingShard
			failed.Err = fmt.Errorf("%w: %w", tensor.ErrMalformed, err)
		}
		return source.Extent{}, failed
	}
	e, err := src.Extent(x.off, x.size)
	if err != nil {
		failed.Code = tensor.CodeTruncated
		failed.Err = fmt.Errorf("%w: %d bytes at %d of %s, which has %d", io.ErrUnexpectedEOF,
			x.size, x.off, naming.Quote(x.file.name), src.Size())
		return e, failed
	}
	return e, nil
}

func (x *external) Size() int64 { return x.size }

func (x *external) Bytes() ([]byte, bool) {
	e, err := x.open()
	if err != nil {
		return nil, false
	}
	return e.Bytes()
}

// Memory is for Blob.
func (x *external) Memory() ([]byte, bool) {
	e, err := x.open()
	if err != nil {
		return nil, false
	}
	return e.Memory()
}

func (x *external) ReadAt(p []byte, off int64) (int, error) {
	e, err := x.open()
	if err != nil {
		return 0, err
	}
	return e.ReadAt(p, off)
}

// Stored is for Blob. A tensor without its file has no size: reading allocates nothing
// for it.
func (x *external) Stored() (tensor.Stored, bool) {
	st := tensor.Stored{Offset: x.off, Encoding: "raw", File: x.file.name}
	if _, err := x.open(); err == nil {
		st.Size = x.size
	}
	return st, true
}

// ReadInto is for Blob.
func (x *external) ReadInto(p []byte) error { return tensor.ReadFull(x, p) }

// Seekable is for Blob.
func (x *external) Seekable() bool { return true }

// Open is for Blob.
func (x *external) Open() (io.ReadCloser, error) {
	e, err := x.open()
	if err != nil {
		return nil, err
	}
	return tensor.NewBlob(&e).Open()
}

// Identity is for Blob: tensors that share elements are the same.
func (x *external) Identity() any {
	type place struct {
		file   *dataFile
		off, n int64
	}
	if x.size == 0 {
		return nil
	}
	return place{x.file, x.off, x.size}
}
