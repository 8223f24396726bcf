package ztensor

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// The sparse formats that the document of version 1 defines.
const (
	schemeCSR = "sparse_csr"
	schemeCOO = "sparse_coo"
)

// CheckSparse reads the indices of a sparse_csr or sparse_coo tensor, of any
// version, and reports what does not fit: rows that do not go from 0 to the number of values,
// indices beyond the shape, lengths that disagree. It does not ask for sorted
// or distinct indices, since the format does not. Index parts may have any
// integer type, and none is uint64.
func CheckSparse(ctx context.Context, t *tensor.Tensor) error {
	s, err := openSparse(ctx, t, "indptr")
	if err != nil {
		return err
	}
	defer s.release()
	return s.walk(ctx, nil)
}

// A visit is told where a value belongs. No place to come is below settled.
type visit func(p place, settled uint64) error

// A sparse is a sparse tensor whose indices are being read. No two of its parts
// are decoded at a time.
type sparse struct {
	tensor.Tensor
	csr  bool
	nnz  int64 // the number of values; -1 where walk has to find it
	held []func()
}

// openSparse looks for the parts of a sparse tensor and counts its values. Those
// of the parts of these roles that have to be decoded from their start it puts into
// memory, or where they are large into a temporary file, until release: several
// readers at different places then take a buffer each, and not a window of zstd.
// Of these the digest is checked here, of the others when walk reads them.
func openSparse(ctx context.Context, t *tensor.Tensor, roles ...string) (*sparse, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	s := &sparse{Tensor: *t}
	wanted := []string{"values", "coords"}
	switch t.Scheme {
	case schemeCSR, layoutCSR:
		s.csr, wanted = true, []string{"values", "indices", "indptr"}
		if len(t.Shape) != 2 {
			return nil, fmt.Errorf("%w: sparse_csr of %d dimensions", tensor.ErrMalformed, len(t.Shape))
		}
	case schemeCOO, layoutCOO:
	default:
		return nil, fmt.Errorf("%w: %s is not a sparse format", errors.ErrUnsupported, tensor.Quote(t.Scheme))
	}
	s.Parts = slices.Clone(t.Parts)
	for _, role := range wanted {
		p := s.Part(role)
		if p == nil {
			return nil, fmt.Errorf("%w: no component %s", tensor.ErrMalformed, role)
		}
		if role == "values" {
			var err error
			if s.nnz, err = valueCount(ctx, p); err != nil {
				return nil, err
			}
			if p.Data.Size() < 0 && s.nnz >= 0 { // is counted once
				p.Data = tensor.BlobFunc(s.nnz*int64(p.DType.Size()), p.Data.Open)
			}
		} else if width, _ := indexWidth(p.DType); width == 0 {
			return nil, fmt.Errorf("%w: %s of %v", tensor.ErrDType, p.Role, p.DType)
		}
	}
	for i := range s.Parts {
		if p := &s.Parts[i]; slices.Contains(roles, p.Role) && streamed(p.Data) {
			if err := s.hold(ctx, p); err != nil {
				s.release()
				return nil, err
			}
		}
	}
	return s, nil
}

// hold takes a part with indices out of its encoding. Of what is longer than it
// can be right walk will see the beginning, and that is enough.
func (s *sparse) hold(ctx context.Context, p *tensor.Part) error {
	entries := s.nnz
	switch {
	case p.Role == "indptr":
		entries = s.Shape[0] + 1 // at most 2^63, and then none
	case p.Role == "coords" && s.nnz >= 0:
		var ok bool
		if entries, ok = align.Mul(s.nnz, int64(len(s.Shape))); !ok {
			entries = -1
		}
	}
	in, err := p.Data.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	var r io.Reader = in
	width, _ := indexWidth(p.DType)
	if most, ok := align.Mul(entries, int64(width)); ok && entries >= 0 && most < math.MaxInt64-int64(width) {
		r = io.LimitReader(in, most+int64(width))
	}
	src, release, err := source.Hold(ctx, r)
	if err != nil {
		return err
	}
	s.held = append(s.held, release)
	all, err := src.Extent(0, src.Size())
	p.Data = tensor.NewBlob(&all)
	return err
}

// counted is t, with the number of its values where that has to be counted.
func (s *sparse) counted(t *tensor.Tensor) *tensor.Tensor {
	as := *t
	as.Parts = slices.Clone(t.Parts)
	*as.Part("values") = *s.Part("values")
	return &as
}

func (s *sparse) release() {
	for _, f := range s.held {
		f()
	}
}

// walk checks the indices, and calls each, if not nil, with the place of every
// value.
func (s *sparse) walk(ctx context.Context, each visit) error {
	if s.csr {
		return s.walkCSR(ctx, each)
	}
	return s.walkCOO(ctx, each)
}

// ascends walks and reports whether every place lies behind the one before it. each
// may be nil.
func (s *sparse) ascends(ctx context.Context, each func(place)) (bool, error) {
	ascending, last := true, uint64(0)
	err := s.walk(ctx, func(p place, _ uint64) error {
		ascending = ascending && (p.value == 0 || p.at > last)
		if last = p.at; each != nil {
			each(p)
		}
		return nil
	})
	return ascending, err
}

// streamed reports whether reading b in the middle means to decode what comes
// before.
func streamed(b tensor.Blob) bool {
	if _, ok := b.Bytes(); ok {
		return false
	}
	switch src := b.Source().(type) {
	case *component:
		return !src.plain()
	case *blob:
		return src.encoded
	case interface{ Open() (io.ReadCloser, error) }:
		return true
	}
	return false
}

// valueCount is the number of elements of the part with the values. Where its
// type is not known the number is given by others, as -1.
func valueCount(ctx context.Context, p *tensor.Part) (int64, error) {
	width := int64(p.DType.Size())
	if width == 0 {
		return -1, nil
	}
	size := p.Data.Size()
	if size < 0 {
		var err error
		if size, err = decodedSize(ctx, p.Data); err != nil {
			return 0, err
		}
	}
	if size%width != 0 {
		return 0, fmt.Errorf("%w: %d bytes of values of %d bytes", tensor.ErrMalformed, size, width)
	}
	return size / width, nil
}

func decodedSize(ctx context.Context, b tensor.Blob) (n int64, err error) {
	r, err := b.Open()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	buf := make([]byte, 256<<10)
	for {
		k, err := r.Read(buf)
		n += int64(k)
		if err == io.EOF {
			return n, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return 0, err
		}
	}
}

func (s *sparse) walkCSR(ctx context.Context, each visit) error {
	rows, cols := uint64(s.Shape[0]), uint64(s.Shape[1])
	indices, err := newIndexReader(ctx, s.Part("indices"))
	if err != nil {
		return err
	}
	defer indices.close()
	indptr, err := newIndexReader(ctx, s.Part("indptr"))
	if err != nil {
		return err
	}
	defer indptr.close()
	var prev, n uint64
	for row := uint64(0); ; row++ {
		end, err := indptr.next()
		if err == io.EOF && row == rows+1 {
			break
		}
		switch {
		case err == io.EOF:
			return fmt.Errorf("%w: indptr has %d entries, %d rows take %d", tensor.ErrMalformed, row, rows, rows+1)
		case err != nil:
			return err
		case row > rows:
			return fmt.Errorf("%w: indptr has more than %d entries", tensor.ErrMalformed, rows+1)
		case row == 0 && end != 0:
			return fmt.Errorf("%w: indptr begins with %d, not 0", tensor.ErrMalformed, end)
		case end < prev:
			return fmt.Errorf("%w: indptr falls from %d to %d at %d", tensor.ErrMalformed, prev, end, row)
		}
		for n < end {
			some, err := indices.some(end - n)
			if err == io.EOF {
				return fmt.Errorf("%w: %d indices, indptr leads to %d", tensor.ErrMalformed, n, end)
			}
			if err != nil {
				return err
			}
			start := (row - 1) * cols // row 0 has end 0
			for _, col := range some {
				if col >= cols {
					return fmt.Errorf("%w: column %d of %d at %d", tensor.ErrMalformed, col, cols, n)
				}
				if each != nil {
					if err := each(place{start + col, int(n)}, start); err != nil {
						return err
					}
				}
				n++
			}
		}
		prev = end
	}
	if _, err := indices.next(); err != io.EOF {
		if err == nil {
			err = fmt.Errorf("%w: indptr ends at %d, there are more indices", tensor.ErrMalformed, prev)
		}
		return err
	}
	if s.nnz >= 0 && uint64(s.nnz) != prev {
		return fmt.Errorf("%w: %d values, indptr ends at %d", tensor.ErrMalformed, s.nnz, prev)
	}
	s.nnz = int64(prev)
	return nil
}

func (s *sparse) walkCOO(ctx context.Context, each visit) error {
	coords := s.Part("coords")
	if s.nnz < 0 {
		size := coords.Data.Size()
		if size < 0 {
			var err error
			if size, err = decodedSize(ctx, coords.Data); err != nil {
				return err
			}
		}
		width, _ := indexWidth(coords.DType)
		s.nnz = size / int64(width) / int64(max(1, len(s.Shape)))
	}
	in, err := newIndexReader(ctx, coords)
	if err != nil {
		return err
	}
	defer in.close()
	// All coordinates of dimension 0 come first, then those of dimension 1, …
	// (§5.3 of the document).
	for d, dim := range s.Shape {
		for i := int64(0); i < s.nnz; {
			some, err := in.some(uint64(s.nnz - i))
			if err == io.EOF {
				return fmt.Errorf("%w: fewer coords than %d values of %d dimensions take", tensor.ErrMalformed, s.nnz, len(s.Shape))
			}
			if err != nil {
				return err
			}
			for _, x := range some {
				if x >= uint64(dim) {
					return fmt.Errorf("%w: coordinate %d of %d in dimension %d at %d", tensor.ErrMalformed, x, dim, d, i)
				}
				i++
			}
		}
	}
	if _, err := in.next(); err != io.EOF {
		if err == nil {
			err = fmt.Errorf("%w: more coords than %d values of %d dimensions take", tensor.ErrMalformed, s.nnz, len(s.Shape))
		}
		return err
	}
	if each == nil {
		return nil
	}
	return s.placesCOO(ctx, each)
}

// placesCOO calls each with the places of coords that were checked. It reads all
// dimensions at once, each by a stream of its own.
func (s *sparse) placesCOO(ctx context.Context, each visit) error {
	coords := s.Part("coords")
	width, _ := indexWidth(coords.DType)
	size := s.nnz * int64(width) // fits: they were read
	streams := make([]*indexReader, len(s.Shape))
	for d := range streams {
		own := *coords
		var err error
		if own.Data, err = coords.Data.Section(int64(d)*size, size); err != nil {
			return err
		}
		if streams[d], err = newIndexReader(ctx, &own); err != nil {
			return err
		}
		defer streams[d].close()
	}
	room := make([]uint64, min(s.nnz, 1<<10))
	for i := int64(0); i < s.nnz; i += int64(len(room)) {
		room = room[:min(int64(len(room)), s.nnz-i)]
		clear(room)
		for d, in := range streams {
			for at := room; len(at) > 0; {
				some, err := in.some(uint64(len(at)))
				if err != nil {
					return err
				}
				for k, x := range some {
					at[k] = at[k]*uint64(s.Shape[d]) + x // below the product of the shape
				}
				at = at[len(some):]
			}
		}
		for k, at := range room {
			if err := each(place{at, int(i) + k}, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// inOrder calls emit for the values, after walk, in the order of their places;
// where width is 0 without the values themselves, which are not read then. It is
// a *repeated if two are at one place. ascending is what ascends said.
func (s *sparse) inOrder(ctx context.Context, width int, ascending bool, emit func(at uint64, value []byte) error) error {
	o := newOrderer(ctx, width, s.nnz, emit)
	defer o.close()
	add := o.add
	if ascending {
		add = func(at, _ uint64, value []byte) error { return o.hand(at, value) }
	}
	each := func(p place, settled uint64) error { return add(p.at, settled, nil) }
	var values io.ReadCloser
	var in *bufio.Reader
	if width > 0 {
		var err error
		if values, err = tensor.BlobFunc(s.nnz*int64(width), s.Part("values").Data.Open).Open(); err != nil {
			return err
		}
		defer func() { values.Close() }()
		in = bufio.NewReaderSize(values, 64<<10)
		each = func(p place, settled uint64) error {
			value, err := in.Peek(width)
			if err == nil {
				err = add(p.at, settled, value)
			}
			if err == nil {
				_, err = in.Discard(width)
			}
			return err
		}
	}
	var err error
	if s.csr {
		err = s.walkCSR(ctx, each)
	} else {
		err = s.placesCOO(ctx, each)
	}
	if err == nil && in != nil {
		_, err = io.Copy(io.Discard, in) // to where a digest is compared
		values.Close()                   // and with it what decoding takes, before the runs are merged
	}
	if err != nil {
		return err
	}
	return o.end()
}

// An indexReader streams the integers of an index part.
type indexReader struct {
	ctx    context.Context
	in     io.ReadCloser
	width  int
	signed bool
	buf    []byte
	room   []uint64 // for what buf has
	have   []uint64 // of room, not yet handed out
}

// indexWidth is the size of an index in bytes; 0 for types that are none. The
// document knows only uint64, and names no type in 1.0.
func indexWidth(d tensor.DType) (width int, signed bool) {
	switch d {
	case tensor.Unknown, tensor.U64:
		return 8, false
	case tensor.U8, tensor.U16, tensor.U32:
		return d.Size(), false
	case tensor.I8, tensor.I16, tensor.I32, tensor.I64:
		return d.Size(), true
	}
	return 0, false
}

func newIndexReader(ctx context.Context, p *tensor.Part) (*indexReader, error) {
	width, signed := indexWidth(p.DType)
	in, err := p.Data.Open()
	if err != nil {
		return nil, err
	}
	n := int64(4 << 10)
	if size := p.Data.Size(); size >= 0 {
		n = max(1, min(n, size/int64(width)))
	}
	return &indexReader{ctx: ctx, in: in, width: width, signed: signed, buf: make([]byte, int(n)*width), room: make([]uint64, n)}, nil
}

func (r *indexReader) close() { r.in.Close() }

func (r *indexReader) next() (uint64, error) {
	one, err := r.some(1)
	if err != nil {
		return 0, err
	}
	return one[0], nil
}

// some returns the next few, at least one and at most so many; io.EOF where there
// are none.
func (r *indexReader) some(most uint64) ([]uint64, error) {
	if len(r.have) == 0 {
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
	n := min(most, uint64(len(r.have)))
	some := r.have[:n]
	r.have = r.have[n:]
	return some, nil
}

func (r *indexReader) fill() error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	n, err := source.ReadPiece(r.in, r.buf)
	if err == io.EOF && n%r.width != 0 {
		return fmt.Errorf("%w: indices that are no multiple of %d bytes", tensor.ErrMalformed, r.width)
	}
	if n == 0 || err != nil && err != io.EOF {
		return err
	}
	b, room := r.buf[:n], r.room[:n/r.width]
	switch r.width {
	case 1:
		for i, x := range b {
			room[i] = uint64(x)
		}
	case 2:
		for i := range room {
			room[i] = uint64(binary.LittleEndian.Uint16(b[2*i:]))
		}
	case 4:
		for i := range room {
			room[i] = uint64(binary.LittleEndian.Uint32(b[4*i:]))
		}
	case 8:
		for i := range room {
			room[i] = binary.LittleEndian.Uint64(b[8*i:])
		}
	}
	if r.signed {
		all := uint64(0)
		for _, x := range room {
			all |= x
		}
		if all>>(8*r.width-1) != 0 {
			return fmt.Errorf("%w: a negative index", tensor.ErrMalformed)
		}
	}
	r.have = room
	return nil
}
