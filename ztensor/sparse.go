package ztensor

import (
	"bufio"
	"cmp"
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
	n, err := io.ReadFull(r.in, r.buf)
	if n > 0 && n%r.width != 0 {
		return fmt.Errorf("%w: indices that are no multiple of %d bytes", tensor.ErrMalformed, r.width)
	}
	if n == 0 || err != nil && err != io.ErrUnexpectedEOF {
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

// Densify returns the dense tensor that a sparse_csr or sparse_coo tensor, of any
// version, stands for. It reads the indices and checks them as [CheckSparse]
// does; the dense bytes are made each time that they are read, in a stream,
// so that a shape without bounds costs nothing. Of up to 32,768 values it keeps
// them and their places. Of more the stream of [OpenDense] reads the parts of t
// anew. Two values at one place are errors.ErrUnsupported: the format does not say
// what they mean.
func Densify(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
	if t == nil {
		return nil, errNil
	}
	const few = 32 << 10
	s, err := openSparse(ctx, t, indexRoles...)
	if err != nil {
		return nil, sparseError(t, err)
	}
	defer s.release()
	var all []place
	ascending, err := s.ascends(ctx, func(p place) {
		if p.value < few {
			all = append(all, p)
		} else {
			all = nil
		}
	})
	if err != nil {
		return nil, sparseError(t, err)
	}
	width, size, err := denseSize(t)
	if err != nil {
		return nil, sparseError(t, err)
	}
	out := &tensor.Tensor{Name: t.Name, DType: t.Part("values").DType, Shape: t.Shape}
	if int64(len(all)) == s.nnz {
		values, err := readChecked(s.Part("values").Data, s.nnz*width)
		if err != nil {
			return nil, sparseError(t, err)
		}
		if !ascending {
			slices.SortStableFunc(all, func(a, b place) int { return cmp.Compare(a.at, b.at) })
		}
		for i := 1; i < len(all); i++ {
			if all[i-1].at == all[i].at {
				return nil, sparseError(t, &repeated{all[i].at})
			}
		}
		out.Data = tensor.BlobFunc(size, func() (io.ReadCloser, error) {
			return &dense{places: all, values: values, width: width, size: size}, nil
		})
		return out, nil
	}
	if !ascending {
		if err := s.inOrder(ctx, 0, false, func(uint64, []byte) error { return nil }); err != nil {
			return nil, sparseError(t, err)
		}
	}
	whole := s.counted(t)
	out.Data = tensor.BlobFunc(size, func() (io.ReadCloser, error) { return OpenDense(context.Background(), whole) })
	return out, nil
}

// denseSize is how many bytes a value and the dense tensor have.
func denseSize(t *tensor.Tensor) (width, size int64, err error) {
	d := t.Part("values").DType
	if width = int64(d.Size()); width == 0 {
		return 0, 0, fmt.Errorf("%w: values of %v", tensor.ErrDType, d)
	}
	elements, _ := t.Shape.Elements()
	size, ok := align.Mul(elements, width)
	if !ok {
		return 0, 0, fmt.Errorf("%w: %d elements of %v", tensor.ErrLimit, elements, d)
	}
	return width, size, nil
}

// OpenDense streams the bytes of the tensor that [Densify] returns, as long as
// ctx. Before the first it checks the indices. It holds some MiB, and of the parts
// that are compressed one window: what else it needs, which is indices of which
// two parts are compressed, and values whose indices are not in order, lies in a
// temporary file until the stream is closed. Digests are checked on the way.
func OpenDense(ctx context.Context, t *tensor.Tensor) (io.ReadCloser, error) {
	if t == nil {
		return nil, errNil
	}
	elements, _ := t.Shape.Elements()
	return piped(ctx, elements, func(ctx context.Context, w *bufio.Writer) error {
		if err := streamDense(ctx, w, t); err != nil {
			return sparseError(t, err)
		}
		return nil
	}), nil
}

// readChecked reads n bytes, all that b has, through the stream, which checks a
// digest.
func readChecked(b tensor.Blob, n int64) ([]byte, error) {
	in, err := b.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	p := make([]byte, n)
	if _, err := io.ReadFull(in, p); err != nil {
		return nil, err
	}
	more, err := io.Copy(io.Discard, in)
	if err == nil && more > 0 {
		err = fmt.Errorf("%w: %d bytes of values, not %d", tensor.ErrMalformed, n+more, n)
	}
	return p, err
}

// piped streams what produce writes, some size bytes, on a goroutine that has ended
// when the stream is closed.
func piped(ctx context.Context, size int64, produce func(ctx context.Context, w *bufio.Writer) error) io.ReadCloser {
	ctx, cancel := context.WithCancel(ctx)
	pr, pw := io.Pipe()
	p := &pipe{PipeReader: pr, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		w := bufio.NewWriterSize(pw, int(min(max(size, 1<<10), 256<<10)))
		err := p.caught.during(func() error { return produce(ctx, w) })
		if err == nil {
			err = w.Flush()
		}
		pw.CloseWithError(err)
	}()
	return p
}

type pipe struct {
	*io.PipeReader
	cancel context.CancelFunc
	ended  chan struct{}
	caught caught
}

func (p *pipe) Read(b []byte) (int, error) {
	n, err := p.PipeReader.Read(b)
	if err != nil && err != io.ErrClosedPipe { // which Close says, while the other goroutine runs
		p.caught.rethrow()
	}
	return n, err
}

func (p *pipe) Close() error {
	p.cancel()
	err := p.PipeReader.Close()
	<-p.ended
	return err
}

// streamDense writes the dense form of t.
func streamDense(ctx context.Context, w *bufio.Writer, t *tensor.Tensor) error {
	s, err := openSparse(ctx, t, indexRoles...)
	if err != nil {
		return err
	}
	defer s.release()
	ascending, err := s.ascends(ctx, nil)
	if err != nil {
		return err
	}
	width, size, err := denseSize(t)
	if err != nil {
		return err
	}
	end := int64(0) // of what is written
	if err := s.inOrder(ctx, int(width), ascending, func(at uint64, value []byte) error {
		to := int64(at) * width // fits: below size
		if to >= size {
			return fmt.Errorf("%w: the indices were in the shape before", tensor.ErrMalformed)
		}
		if err := zeros(w, to-end); err != nil {
			return err
		}
		end = to + width
		_, err := w.Write(value)
		return err
	}); err != nil {
		return err
	}
	return zeros(w, size-end)
}

var noBytes [4 << 10]byte

// zeros writes n zeros.
func zeros(w *bufio.Writer, n int64) error {
	for n > 0 {
		k, err := w.Write(noBytes[:min(n, int64(len(noBytes)))])
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}

func sparseError(t *tensor.Tensor, err error) error {
	return fmt.Errorf("ztensor: tensor %s: %w", tensor.Quote(t.Name), err)
}

// dense streams zeros with values in between.
type dense struct {
	places []place // still to come
	values []byte
	width  int64
	off    int64
	size   int64
}

func (d *dense) Read(p []byte) (int, error) {
	p = p[:min(int64(len(p)), d.size-d.off)]
	if len(p) == 0 {
		return 0, io.EOF
	}
	clear(p)
	end := d.off + int64(len(p))
	for len(d.places) > 0 {
		from := int64(d.places[0].at) * d.width // fits: below size
		if from >= end {
			break
		}
		v := d.values[int64(d.places[0].value)*d.width:][:d.width]
		if from < d.off { // the beginning went before
			copy(p, v[d.off-from:])
		} else {
			copy(p[from-d.off:], v)
		}
		if from+d.width > end {
			break // the rest comes with the next read
		}
		d.places = d.places[1:]
	}
	d.off = end
	return len(p), nil
}

func (d *dense) Close() error { return nil }

// Sparsify returns a sparse tensor of the elements of t that are not zero, in
// row-major order. scheme is "sparse_csr", for two dimensions, or "sparse_coo".
// Zero is what has no bit set: -0 stays. t must be dense, row-major and of whole
// bytes an element. A result of up to 2 MiB is in memory, and t is read once;
// of a larger one each part reads t again whenever it is read, coords once for
// every dimension.
func Sparsify(ctx context.Context, t *tensor.Tensor, scheme string) (*tensor.Tensor, error) {
	if t == nil {
		return nil, errNil
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	width := t.DType.Size()
	switch {
	case scheme != schemeCSR && scheme != schemeCOO:
		return nil, fmt.Errorf("ztensor: %w: %s is not a sparse format", errors.ErrUnsupported, tensor.Quote(scheme))
	case !t.Dense() || t.External || !t.Order.RowMajor():
		return nil, fmt.Errorf("ztensor: %w: tensor %s is not dense and row-major", errors.ErrUnsupported, tensor.Quote(t.Name))
	case width == 0:
		return nil, fmt.Errorf("ztensor: %w: tensor %s is %v", tensor.ErrDType, tensor.Quote(t.Name), t.DType)
	case scheme == schemeCSR && len(t.Shape) != 2:
		return nil, fmt.Errorf("ztensor: %w: tensor %s has %d dimensions, sparse_csr two", errors.ErrUnsupported, tensor.Quote(t.Name), len(t.Shape))
	}
	elements, _ := t.Shape.Elements()
	rank := len(t.Shape)
	if scheme == schemeCSR {
		rank = 1 // of indices
		if rows := t.Shape[0]; rows > max(elements, math.MaxInt32/8) {
			return nil, fmt.Errorf("ztensor: %w: tensor %s has %d rows of nothing", tensor.ErrLimit, tensor.Quote(t.Name), rows)
		}
	}
	const inMemory = 2 << 20
	var values []byte
	var at []uint64 // elements with a value
	nnz := int64(0)
	if err := eachElement(ctx, t.Data, elements, width, func(i uint64, v []byte) {
		if nnz++; nnz*int64(width+8*rank) > inMemory {
			values, at = nil, nil
			return
		}
		values = append(values, v...)
		at = append(at, i)
	}); err != nil {
		return nil, err
	}
	if _, ok := align.Mul(nnz, 8*int64(rank)); !ok {
		return nil, fmt.Errorf("ztensor: %w: tensor %s has %d values of %d coordinates", tensor.ErrLimit, tensor.Quote(t.Name), nnz, rank)
	}
	// each calls f with the elements that have a value, in order.
	each := func(_ context.Context, f func(i uint64, v []byte)) error {
		for k, i := range at {
			f(i, values[k*width:][:width])
		}
		return nil
	}
	held := int64(len(at)) == nnz
	if !held {
		dense := t.Data
		each = func(ctx context.Context, f func(i uint64, v []byte)) error {
			return eachElement(ctx, dense, elements, width, f)
		}
	}

	out := &tensor.Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape, Scheme: scheme}
	var failed error
	add := func(role string, d tensor.DType, size int64, produce func(ctx context.Context, w *bufio.Writer) error) {
		data := tensor.BlobFunc(size, func() (io.ReadCloser, error) { return piped(context.Background(), size, produce), nil })
		if held && size <= inMemory && failed == nil {
			var b []byte
			b, failed = data.ReadAll()
			data = tensor.BlobOf(b)
		}
		out.Parts = append(out.Parts, tensor.Part{Role: role, DType: d, Data: data})
	}
	number := func(w *bufio.Writer, v uint64) error {
		_, err := w.Write(binary.LittleEndian.AppendUint64(w.AvailableBuffer(), v))
		return err
	}
	// of writes what f makes of each element with a value.
	of := func(f func(w *bufio.Writer, i uint64, v []byte) error) func(context.Context, *bufio.Writer) error {
		return func(ctx context.Context, w *bufio.Writer) error {
			var failed error
			err := each(ctx, func(i uint64, v []byte) {
				if failed == nil {
					failed = f(w, i, v)
				}
			})
			return cmp.Or(err, failed)
		}
	}
	add("values", t.DType, nnz*int64(width), of(func(w *bufio.Writer, _ uint64, v []byte) error {
		_, err := w.Write(v)
		return err
	}))
	if scheme == schemeCOO {
		add("coords", tensor.U64, 8*nnz*int64(rank), func(ctx context.Context, w *bufio.Writer) error {
			for d := range t.Shape {
				slower := uint64(1) // elements for each coordinate of dimension d
				for _, dim := range t.Shape[d+1:] {
					slower *= uint64(dim)
				}
				if err := of(func(w *bufio.Writer, i uint64, _ []byte) error {
					return number(w, i/slower%uint64(t.Shape[d]))
				})(ctx, w); err != nil {
					return err
				}
			}
			return nil
		})
		return out, failed
	}
	rows, cols := uint64(t.Shape[0]), uint64(t.Shape[1])
	add("indices", tensor.U64, 8*nnz, of(func(w *bufio.Writer, i uint64, _ []byte) error { return number(w, i%cols) }))
	add("indptr", tensor.U64, 8*(t.Shape[0]+1), func(ctx context.Context, w *bufio.Writer) error {
		row, n := uint64(0), uint64(0) // the row whose beginning comes next, and values before it
		err := of(func(w *bufio.Writer, i uint64, _ []byte) error {
			for ; row <= i/cols; row++ {
				if err := number(w, n); err != nil {
					return err
				}
			}
			n++
			return nil
		})(ctx, w)
		for ; err == nil && row <= rows; row++ {
			err = number(w, n)
		}
		return err
	})
	return out, failed
}

// eachElement calls f with every one of n elements that has a bit set. A blob of
// unknown size shows only here whether it has as many.
func eachElement(ctx context.Context, b tensor.Blob, n int64, width int, f func(i uint64, v []byte)) error {
	in, err := b.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	buf := make([]byte, (64<<10)/width*width)
	for i, have := uint64(0), int64(0); ; {
		k, err := io.ReadFull(in, buf)
		have += int64(k)
		last := err == io.EOF || err == io.ErrUnexpectedEOF
		if have > n*int64(width) || last && have != n*int64(width) {
			return fmt.Errorf("%w: %d bytes where %d elements of %d bytes are declared", tensor.ErrMalformed, have, n, width)
		}
		for p := buf[:k]; len(p) > 0; p = p[width:] {
			v := p[:width]
			for _, x := range v {
				if x != 0 {
					f(i, v)
					break
				}
			}
			i++
		}
		if last {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}
