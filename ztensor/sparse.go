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
	_, err := walkSparse(ctx, t, nil)
	return err
}

// A place is where a value belongs in the dense tensor.
type place struct {
	at    uint64 // element, row-major
	value int    // in values
}

// walkSparse checks a sparse tensor, and calls each, if not nil, with the place
// of every value. It returns the number of values.
func walkSparse(ctx context.Context, t *tensor.Tensor, each func(place)) (nnz int64, err error) {
	if err := t.Check(); err != nil {
		return 0, err
	}
	var roles []string
	switch t.Scheme {
	case schemeCSR, layoutCSR:
		roles = []string{"values", "indices", "indptr"}
		if len(t.Shape) != 2 {
			return 0, fmt.Errorf("%w: sparse_csr of %d dimensions", tensor.ErrMalformed, len(t.Shape))
		}
	case schemeCOO, layoutCOO:
		roles = []string{"values", "coords"}
	default:
		return 0, fmt.Errorf("%w: %s is not a sparse format", errors.ErrUnsupported, tensor.Quote(t.Scheme))
	}
	for _, role := range roles {
		if t.Part(role) == nil {
			return 0, fmt.Errorf("%w: no component %s", tensor.ErrMalformed, role)
		}
	}
	if t.Scheme == schemeCSR || t.Scheme == layoutCSR {
		return walkCSR(ctx, t, each)
	}
	return walkCOO(ctx, t, each)
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

func walkCSR(ctx context.Context, t *tensor.Tensor, each func(place)) (int64, error) {
	nnz, err := valueCount(ctx, t.Part("values"))
	if err != nil {
		return 0, err
	}
	rows, cols := uint64(t.Shape[0]), uint64(t.Shape[1])
	indices, err := newIndexReader(ctx, t.Part("indices"))
	if err != nil {
		return 0, err
	}
	defer indices.close()
	indptr, err := newIndexReader(ctx, t.Part("indptr"))
	if err != nil {
		return 0, err
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
			return 0, fmt.Errorf("%w: indptr has %d entries, %d rows take %d", tensor.ErrMalformed, row, rows, rows+1)
		case err != nil:
			return 0, err
		case row > rows:
			return 0, fmt.Errorf("%w: indptr has more than %d entries", tensor.ErrMalformed, rows+1)
		case row == 0 && end != 0:
			return 0, fmt.Errorf("%w: indptr begins with %d, not 0", tensor.ErrMalformed, end)
		case end < prev:
			return 0, fmt.Errorf("%w: indptr falls from %d to %d at %d", tensor.ErrMalformed, prev, end, row)
		}
		for ; n < end; n++ {
			col, err := indices.next()
			switch {
			case err == io.EOF:
				return 0, fmt.Errorf("%w: %d indices, indptr leads to %d", tensor.ErrMalformed, n, end)
			case err != nil:
				return 0, err
			case col >= cols:
				return 0, fmt.Errorf("%w: column %d of %d at %d", tensor.ErrMalformed, col, cols, n)
			}
			if each != nil {
				each(place{(row-1)*cols + col, int(n)}) // row 0 has end 0
			}
		}
		prev = end
	}
	if _, err := indices.next(); err != io.EOF {
		if err == nil {
			err = fmt.Errorf("%w: indptr ends at %d, there are more indices", tensor.ErrMalformed, prev)
		}
		return 0, err
	}
	if nnz >= 0 && uint64(nnz) != prev {
		return 0, fmt.Errorf("%w: %d values, indptr ends at %d", tensor.ErrMalformed, nnz, prev)
	}
	return int64(prev), nil
}

func walkCOO(ctx context.Context, t *tensor.Tensor, each func(place)) (int64, error) {
	coords := t.Part("coords")
	in, err := newIndexReader(ctx, coords)
	if err != nil {
		return 0, err
	}
	defer in.close()
	nnz, err := valueCount(ctx, t.Part("values"))
	if err != nil {
		return 0, err
	}
	if nnz < 0 {
		size := coords.Data.Size()
		if size < 0 {
			if size, err = decodedSize(ctx, coords.Data); err != nil {
				return 0, err
			}
		}
		nnz = size / int64(in.width) / int64(max(1, len(t.Shape)))
	}
	// All coordinates of dimension 0 come first, then those of dimension 1, …
	// (§5.3 of the document).
	for d, dim := range t.Shape {
		for i := range nnz {
			x, err := in.next()
			switch {
			case err == io.EOF:
				return 0, fmt.Errorf("%w: fewer coords than %d values of %d dimensions take", tensor.ErrMalformed, nnz, len(t.Shape))
			case err != nil:
				return 0, err
			case x >= uint64(dim):
				return 0, fmt.Errorf("%w: coordinate %d of %d in dimension %d at %d", tensor.ErrMalformed, x, dim, d, i)
			}
		}
	}
	if _, err := in.next(); err != io.EOF {
		if err == nil {
			err = fmt.Errorf("%w: more coords than %d values of %d dimensions take", tensor.ErrMalformed, nnz, len(t.Shape))
		}
		return 0, err
	}
	if each != nil {
		err = placesCOO(ctx, t, nnz, each)
	}
	return nnz, err
}

// placesCOO calls each with the places of coords that were checked. It reads all
// dimensions at once, each by a stream of its own.
func placesCOO(ctx context.Context, t *tensor.Tensor, nnz int64, each func(place)) error {
	coords := t.Part("coords")
	streams := make([]*indexReader, len(t.Shape))
	for d := range streams {
		in, err := newIndexReader(ctx, coords)
		if err != nil {
			return err
		}
		defer in.close()
		if _, err := io.CopyN(io.Discard, in.in, int64(d)*nnz*int64(in.width)); err != nil {
			return err
		}
		streams[d] = in
	}
	for i := range nnz {
		at := uint64(0)
		for d, in := range streams {
			x, err := in.next()
			if err != nil {
				return err
			}
			at = at*uint64(t.Shape[d]) + x // below the product of the shape
		}
		each(place{at, int(i)})
	}
	return nil
}

// An indexReader streams the integers of an index part.
type indexReader struct {
	ctx    context.Context
	in     io.ReadCloser
	width  int
	signed bool
	buf    []byte
	have   []byte // of buf, not yet handed out
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
	if width == 0 {
		return nil, fmt.Errorf("%w: %s of %v", tensor.ErrDType, p.Role, p.DType)
	}
	in, err := p.Data.Open()
	if err != nil {
		return nil, err
	}
	return &indexReader{ctx: ctx, in: in, width: width, signed: signed, buf: make([]byte, 64<<10)}, nil
}

func (r *indexReader) close() { r.in.Close() }

func (r *indexReader) next() (uint64, error) {
	if len(r.have) < r.width {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	b := r.have
	r.have = b[r.width:]
	var v uint64
	switch r.width {
	case 1:
		v = uint64(b[0])
	case 2:
		v = uint64(binary.LittleEndian.Uint16(b))
	case 4:
		v = uint64(binary.LittleEndian.Uint32(b))
	case 8:
		v = binary.LittleEndian.Uint64(b)
	}
	if r.signed && v>>(8*r.width-1) != 0 {
		return 0, fmt.Errorf("%w: a negative index", tensor.ErrMalformed)
	}
	return v, nil
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
	r.have = r.buf[:n]
	return nil
}

// Densify returns the dense tensor that a sparse_csr or sparse_coo tensor, of any
// version, stands for. It reads the indices once and checks them as [CheckSparse]
// does; the dense bytes are made each time that they are read, in a stream,
// so that a shape without bounds costs nothing. Where the indices are in
// ascending order, as most writers leave them, the stream of a tensor of more than
// 32,768 values reads the parts of t beside it and holds nothing; otherwise Densify
// keeps the values and 16 bytes for each. Two values at one place are
// errors.ErrUnsupported: the format does not say what they mean.
func Densify(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
	if t == nil {
		return nil, errNil
	}
	const few = 32 << 10 // are held in any case, which saves a second walk
	var all []place
	ascending, last := true, place{value: -1}
	if _, err := walkSparse(ctx, t, func(p place) {
		ascending = ascending && (p.value == 0 || p.at > last.at)
		if last = p; p.value < few {
			all = append(all, p)
		} else {
			all = nil
		}
	}); err != nil {
		return nil, sparseError(t, err)
	}
	part := t.Part("values")
	width := int64(part.DType.Size())
	if width == 0 {
		return nil, sparseError(t, fmt.Errorf("%w: values of %v", tensor.ErrDType, part.DType))
	}
	elements, _ := t.Shape.Elements()
	size, ok := align.Mul(elements, width)
	if !ok {
		return nil, sparseError(t, fmt.Errorf("%w: %d elements of %v", tensor.ErrLimit, elements, part.DType))
	}
	out := &tensor.Tensor{Name: t.Name, DType: part.DType, Shape: t.Shape}
	if ascending && len(all) <= last.value {
		sparse := *t
		out.Data = tensor.BlobFunc(size, piped(func(ctx context.Context, w *bufio.Writer) error {
			return streamDense(ctx, w, &sparse, width, size)
		}))
		return out, nil
	}
	if len(all) <= last.value {
		all = slices.Grow(all[:0], last.value+1)
		if _, err := walkSparse(ctx, t, func(p place) { all = append(all, p) }); err != nil {
			return nil, sparseError(t, err)
		}
	}
	values, err := readChecked(part.Data, int64(len(all))*width)
	if err != nil {
		return nil, sparseError(t, err)
	}
	if !ascending {
		slices.SortStableFunc(all, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	}
	for i := 1; i < len(all); i++ {
		if all[i-1].at == all[i].at {
			return nil, sparseError(t, fmt.Errorf("%w: two values for element %d", errors.ErrUnsupported, all[i].at))
		}
	}
	out.Data = tensor.BlobFunc(size, func() (io.ReadCloser, error) {
		return &dense{places: all, values: values, width: width, size: size}, nil
	})
	return out, nil
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

// piped opens streams of what produce writes, on a goroutine that ends when the
// stream is closed.
func piped(produce func(ctx context.Context, w *bufio.Writer) error) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		ctx, cancel := context.WithCancel(context.Background())
		pr, pw := io.Pipe()
		go func() {
			w := bufio.NewWriterSize(pw, 256<<10)
			err := produce(ctx, w)
			if err == nil {
				err = w.Flush()
			}
			pw.CloseWithError(err)
		}()
		return &pipe{pr, cancel}, nil
	}
}

type pipe struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (p *pipe) Close() error {
	p.cancel()
	return p.PipeReader.Close()
}

// streamDense writes the dense form of t, whose places ascend.
func streamDense(ctx context.Context, w *bufio.Writer, t *tensor.Tensor, width, size int64) error {
	values, err := t.Part("values").Data.Open()
	if err != nil {
		return err
	}
	defer values.Close()
	in := bufio.NewReaderSize(values, 64<<10)
	at := int64(0) // bytes written
	var failed error
	_, err = walkSparse(ctx, t, func(p place) {
		if failed != nil {
			return
		}
		to := int64(p.at) * width // fits: below size
		if to < at || to >= size {
			failed = fmt.Errorf("%w: the indices were in order before", tensor.ErrMalformed)
		} else if failed = zeros(w, to-at); failed == nil {
			var value []byte
			if value, failed = in.Peek(int(width)); failed == nil {
				_, failed = w.Write(value)
				in.Discard(int(width))
			}
		}
		at = to + width
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return sparseError(t, err)
	}
	if err := zeros(w, size-at); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in) // to where a digest is compared
	return err
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
		data := tensor.BlobFunc(size, piped(produce))
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
