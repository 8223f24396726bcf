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

// A dataFile is a file with elements of tensors, in or below the directory of the model.
// It is opened when it is first needed.
type dataFile struct {
	name string // a path with slashes
	r    *Reader

	mu     sync.Mutex
	opened bool
	src    *source.Source
	closer io.Closer
	err    error
}

// open opens the file at the first call, and returns the same result later. It fails with
// fs.ErrClosed after Close of the Reader.
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

// DataAlignment is the alignment in bytes that the format recommends for offsets in data
// files.
const DataAlignment = 4096

// A DataFile is a file with elements of tensors, in or below the directory of the model.
type DataFile struct {
	Name    string // relative to the directory of the model, with slashes
	Size    int64  // in bytes, -1 if the file cannot be opened
	Err     error  // why the file cannot be opened
	Tensors int    // with elements in the file; each part of a sparse tensor counts as one
	Bytes   int64  // of elements; bytes that tensors share count once
	End     int64  // offset after the last element
	// Alignment is the largest power of two, up to DataAlignment, that divides all
	// offsets.
	Alignment int64
}

// DataFiles returns the data files that tensors refer to, sorted by name. It opens them.
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
	end := int64(0) // of the bytes that were counted in the file before
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

// externals returns the data in data files, sorted by file and offset. It leaves out data
// that would end beyond 2^63.
func (r *Reader) externals() (all []*externalData) {
	add := func(b tensor.Blob) {
		if x, ok := b.Source().(*externalData); ok && x.size > 0 && x.off <= math.MaxInt64-x.size {
			all = append(all, x)
		}
	}
	for _, e := range r.entries {
		add(e.tensor.Data)
		for _, p := range e.tensor.Parts {
			add(p.Data)
		}
	}
	slices.SortStableFunc(all, func(a, b *externalData) int {
		return cmp.Or(cmp.Compare(a.file.name, b.file.name), cmp.Compare(a.off, b.off),
			cmp.Compare(a.size, b.size))
	})
	return all
}

// externalData is elements in a data file. It is the source of a Blob.
type externalData struct {
	file    *dataFile
	tensor  *tensor.Tensor
	off     int64
	size    int64
	at      int64    // offset of the tensor's field in the model
	sum     string   // SHA-1 of the whole data file
	unknown []string // unknown keys in external_data
}

// field returns the field for errors.
func (x *externalData) field() string { return "external_data of " + naming.Quote(x.tensor.Name) }

// externalBlob returns the data of a tensor in a data file, size bytes.
func (p *parser) externalBlob(e *entry, x *proto, size int64) tensor.Blob {
	s := &p.externals.Take(1)[0]
	*s = externalData{tensor: e.namedTensor(), size: size, at: x.at}
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
			return p.unreadableBlob(kv.at, size, "external_data", "%s: %v", kv.key, err)
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
		return p.unreadableBlob(x.at, size, "external_data", "length %d where %v of %v takes %d",
			length,
			e.tensor.Shape, e.tensor.DType, size)
	}
	if name != "" {
		if s.file = p.r.files[name]; s.file == nil {
			p.charge(256 + len(name))
			s.file = &dataFile{name: name, r: p.r}
			p.r.files[name] = s.file
		}
		p.location, p.file = location, s.file // the next tensor is often in the same file
	}
	return tensor.NewBlob(s)
}

// decimal parses a number below 2^63 that consists of digits.
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

// localName returns the shortest path of a data file, relative to the directory of the
// model. It fails if the file is outside the directory, or if systems read the name
// differently.
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

// open returns the elements, and opens the data file if it is not open.
func (x *externalData) open() (source.Extent, error) {
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

func (x *externalData) Size() int64 { return x.size }

func (x *externalData) Bytes() ([]byte, bool) {
	e, err := x.open()
	if err != nil {
		return nil, false
	}
	return e.Bytes()
}

// Memory serves Blob, as do the methods below.
func (x *externalData) Memory() ([]byte, bool) {
	e, err := x.open()
	if err != nil {
		return nil, false
	}
	return e.Memory()
}

func (x *externalData) ReadAt(p []byte, off int64) (int, error) {
	e, err := x.open()
	if err != nil {
		return 0, err
	}
	return e.ReadAt(p, off)
}

// Stored reports no bytes if the data file cannot be opened, so that nobody allocates the
// size that the model declares.
func (x *externalData) Stored() (tensor.Stored, bool) {
	st := tensor.Stored{Offset: x.off, Encoding: "raw", File: x.file.name}
	if _, err := x.open(); err == nil {
		st.Size = x.size
	}
	return st, true
}

func (x *externalData) ReadInto(p []byte) error { return tensor.ReadFull(x, p) }

func (x *externalData) Seekable() bool { return true }

func (x *externalData) Open() (io.ReadCloser, error) {
	e, err := x.open()
	if err != nil {
		return nil, err
	}
	return tensor.NewBlob(&e).Open()
}

// Identity returns equal values for tensors that share all their elements.
func (x *externalData) Identity() any {
	type place struct {
		file   *dataFile
		off, n int64
	}
	if x.size == 0 {
		return nil
	}
	return place{x.file, x.off, x.size}
}
