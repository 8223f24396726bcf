package quant

import (
	"context"
	"io"
	"sync"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/tensor"
)

// values is a tensor.Source of the numbers of a matrix, which are computed as they are
// read: little-endian float32, in row-major order of the weight.
type values struct {
	tensor.Computed
	matrix     *matrix
	transposed bool // rows of the file are columns of the weight
	scheme     string
	prepare    func() error // reads what is needed for every element; called once
	scratch    sync.Pool    // of *scratch
	wrapped    float32      // zero point of GPTQ whose stored bits are all set; 0 if none
}

// A scratch is the memory that a ReadAt needs.
type scratch struct {
	panel panel
	out   []float32
	tile  tile
}

// A rect is a rectangle of one matrix of the batch, by rows and columns of the weight.
type rect struct{ batch, r0, r1, c0, c1 int64 }

func (r rect) elements() int64 { return (r.r1 - r.r0) * (r.c1 - r.c0) }

const (
	// pieceElements is the number of elements that a job decodes, at least a row.
	pieceElements = 64 << 10
	// transposedElements is pieceElements for transposed matrices: with more rows of the
	// weight, longer parts of each row of the file are decoded at once.
	transposedElements = 1 << 20
	// panelBytes bounds the codes that are read at once. A panel of a transposed matrix
	// needs a part of every row of the file; larger panels need fewer reads.
	panelBytes, transposedPanelBytes = 512 << 10, 8 << 20
	// pipelineBytes bounds the decoded pieces in memory.
	pipelineBytes = 16 << 20
	// A tile of tileRows rows and tileCols columns of the file is decoded, then
	// transposed.
	tileRows, tileCols = 16, 256
)

type tile [tileRows][tileCols]float32

func newValues(m *matrix, transposed bool, scheme string, prepare func() error) *values {
	if prepare == nil {
		prepare = func() error { return nil }
	}
	return &values{matrix: m, transposed: transposed, scheme: scheme,
		prepare: sync.OnceValue(prepare)}
}

// transpose writes the first n columns of the first k rows as rows of dst, width elements
// apart.
func (t *tile) transpose(dst []float32, n, k, width int) {
	for i := 0; i < k; i += 16 {
		if k-i < 16 {
			for j := range n {
				for l := i; l < k; l++ {
					dst[j*width+l] = t[l][j]
				}
			}
			break
		}
		rows := (*[16][tileCols]float32)(t[i:])
		for j := range n {
			line := (*[16]float32)(dst[j*width+i:])
			j %= tileCols
			line[0], line[1], line[2], line[3] = rows[0][j], rows[1][j], rows[2][j], rows[3][j]
			line[4], line[5], line[6], line[7] = rows[4][j], rows[5][j], rows[6][j], rows[7][j]
			line[8], line[9], line[10], line[11] = rows[8][j], rows[9][j], rows[10][j],
				rows[11][j]
			line[12], line[13], line[14], line[15] = rows[12][j], rows[13][j], rows[14][j],
				rows[15][j]
		}
	}
}

// dims returns the rows and columns of one matrix of the weight.
func (v *values) dims() (rows, cols int64) {
	if v.transposed {
		return v.matrix.cols, v.matrix.rows
	}
	return v.matrix.rows, v.matrix.cols
}

func (v *values) elements() int64 { return v.matrix.batch * v.matrix.rows * v.matrix.cols }

// stored returns the number of bytes of all parts.
func (v *values) stored() (n int64) {
	v.matrix.inputs(func(in *input) { n += max(0, in.data.Size()) })
	return n
}

// next returns a rectangle that begins with element at and does not reach element end. It
// has at most limit elements, or is one row.
func (v *values) next(at, end, limit int64) rect {
	rows, cols := v.dims()
	batch, in := at/(rows*cols), at%(rows*cols)
	r, c := in/cols, in%cols
	left := min(end-at, max(limit, 1))
	if c != 0 || left < cols {
		return rect{batch, r, r + 1, c, min(c+left, cols)}
	}
	return rect{batch, r, min(r+left/cols, rows), 0, cols}
}

// area returns a rectangle by rows and columns of the file.
func (v *values) area(r rect) area {
	if v.transposed {
		return area{r.batch, r.c0, r.c1, r.r0, r.r1}
	}
	return area(r)
}

// decode sets dst to the elements of r, which are in the area of p.
func (v *values) decode(dst []float32, p *panel, r rect, t *tile) {
	width := int(r.c1 - r.c0)
	if !v.transposed {
		for row := r.r0; row < r.r1; row++ {
			v.matrix.decode(dst[:width], p, row, r.c0)
			dst = dst[width:]
		}
		return
	}
	for row := r.r0; row < r.r1; row += tileCols {
		n := int(min(tileCols, r.r1-row))
		for c := r.c0; c < r.c1; c += tileRows {
			k := int(min(tileRows, r.c1-c))
			for i := range k {
				v.matrix.decode(t[i][:n], p, c+int64(i), row)
			}
			t.transpose(dst[int(row-r.r0)*width+int(c-r.c0):], n, k, width)
		}
	}
}

// Size returns the number of bytes of all numbers.
func (v *values) Size() int64 { return 4 * v.elements() }

// Stored returns the number of bytes of all parts, without an offset.
func (v *values) Stored() (tensor.Stored, bool) {
	return tensor.Stored{Offset: -1, Size: v.stored(), Encoding: v.scheme}, true
}

// Seekable reports that ReadAt costs no more than it reads.
func (v *values) Seekable() bool { return true }

// limit returns the number of elements of a panel; of a transposed matrix, of whole rows.
func (v *values) limit() int64 {
	var codes int64
	for _, in := range v.matrix.codes.inputs() {
		codes += max(1, in.data.Size())
	}
	bytes := int64(panelBytes)
	if v.transposed {
		bytes = transposedPanelBytes
	}
	if codes <= bytes {
		return v.elements()
	}
	limit := int64(float64(v.elements()) / float64(codes) * float64(bytes))
	if _, cols := v.dims(); v.transposed {
		return max(limit, tileCols*cols)
	}
	return max(limit, pieceElements)
}

// ReadAt computes the bytes from off on. It reads the codes and scales that they need.
func (v *values) ReadAt(p []byte, off int64) (int, error) {
	if err := v.prepare(); err != nil {
		return 0, err
	}
	s, _ := v.scratch.Get().(*scratch)
	if s == nil {
		s = new(scratch)
	}
	defer v.scratch.Put(s)
	limit := min(v.limit(), 4*pieceElements)
	if v.transposed {
		limit = v.limit()
	}
	done := 0
	for done < len(p) {
		at := off + int64(done)
		r := v.next(at/4, min((off+int64(len(p))+3)/4, v.elements()), limit)
		n := r.elements()
		if n <= 0 {
			return done, io.EOF
		}
		if err := v.matrix.load(&s.panel, v.area(r), nil); err != nil {
			return done, err
		}
		out, ok := le.Cast[float32](p[done:][:min(int64(len(p)-done), 4*n)&^3])
		inPlace := ok && at%4 == 0 && int64(len(out)) == n
		if !inPlace {
			if int64(cap(s.out)) < n {
				s.out = make([]float32, n)
			}
			out = s.out[:n]
		}
		v.decode(out, &s.panel, r, &s.tile)
		b := le.Bytes(out)
		le.ToHost(b, 4)
		if inPlace {
			done += len(b)
		} else {
			done += copy(p[done:], b[at%4:])
		}
	}
	return done, nil
}

// A pipeline reads codes in order, by one goroutine, and decodes them on all cores.
type pipeline struct {
	v         *values
	line      *parallel.Line[*piece]
	read      partReader
	limit     int64 // elements of a panel
	at, end   int64 // elements that no panel has yet
	panel     *sharedPanel
	pieces    []rect // of panel, that are not jobs yet
	free      []*sharedPanel
	freeTiles []*tile
}

// A sharedPanel is read once for several pieces.
type sharedPanel struct {
	panel
	pieces int // that are not decoded yet
}

// A piece is one job.
type piece struct {
	rect  rect
	panel *sharedPanel
	tile  *tile
	out   []float32
}

func newPipeline(v *values, use func(*piece) error) (*pipeline, error) {
	if err := v.prepare(); err != nil {
		return nil, err
	}
	p := &pipeline{v: v, limit: v.limit(), end: v.elements(), read: partReader{}}
	var err error
	v.matrix.inputs(func(in *input) {
		if _, ok := p.read[in]; ok || in.data.Seekable() || err != nil {
			return
		}
		var b []byte
		b, err = in.data.ReadAll()
		p.read[in] = tensor.BlobOf(b)
	})
	if err != nil {
		return nil, err
	}
	work := func(_ context.Context, j *piece) error {
		v.decode(j.out, &j.panel.panel, j.rect, j.tile)
		le.ToHost(le.Bytes(j.out), 4)
		return nil
	}
	p.line = parallel.New(context.Background(), pipelineBytes, work, func(j *piece) error {
		if j.tile != nil {
			p.freeTiles = append(p.freeTiles, j.tile)
		}
		if j.panel.pieces--; j.panel.pieces == 0 {
			p.free = append(p.free, j.panel)
		}
		return use(j)
	})
	return p, nil
}

// next returns the next piece, or nil at the end. The caller sets its memory, out. next
// reads the panel of the piece.
func (p *pipeline) next() (*piece, error) {
	if len(p.pieces) == 0 {
		if p.at == p.end {
			return nil, nil
		}
		r := p.v.next(p.at, p.end, p.limit)
		p.panel = new(sharedPanel)
		if k := len(p.free); k > 0 {
			p.panel, p.free = p.free[k-1], p.free[:k-1]
		}
		if err := p.v.matrix.load(&p.panel.panel, p.v.area(r), p.read); err != nil {
			return nil, err
		}
		p.at += r.elements()
		p.pieces = p.v.split(r)
		p.panel.pieces = len(p.pieces)
	}
	j := &piece{rect: p.pieces[0], panel: p.panel}
	p.pieces = p.pieces[1:]
	if p.v.transposed {
		j.tile = new(tile)
		if k := len(p.freeTiles); k > 0 {
			j.tile, p.freeTiles = p.freeTiles[k-1], p.freeTiles[:k-1]
		}
	}
	return j, nil
}

// put starts the job of a piece.
func (p *pipeline) put(j *piece) error { return p.line.Put(j, 4*j.rect.elements()) }

// split divides a rectangle into pieces: rows, or parts of its only row.
func (v *values) split(r rect) (pieces []rect) {
	if width := r.c1 - r.c0; r.r1-r.r0 == 1 {
		for c := r.c0; c < r.c1; c += pieceElements {
			pieces = append(pieces, rect{r.batch, r.r0, r.r1, c, min(c+pieceElements, r.c1)})
		}
	} else {
		rows := max(1, pieceElements/width)
		if v.transposed {
			rows = max(min(transposedElements/width, tileCols), tileCols/8)
		}
		for row := r.r0; row < r.r1; row += rows {
			pieces = append(pieces, rect{r.batch, row, min(row+rows, r.r1), r.c0, r.c1})
		}
	}
	return pieces
}

// ReadInto decodes all numbers into p on all cores.
func (v *values) ReadInto(p []byte) error {
	out, ok := le.Cast[float32](p)
	if !ok {
		return readAll(v, p)
	}
	line, err := newPipeline(v, func(*piece) error { return nil })
	if err != nil {
		return err
	}
	defer line.line.Close()
	for {
		j, err := line.next()
		if err != nil {
			return err
		}
		if j == nil {
			return line.line.Flush()
		}
		n := j.rect.elements()
		j.out, out = out[:n], out[n:]
		if err := line.put(j); err != nil {
			return err
		}
	}
}

func readAll(v *values, p []byte) error {
	r, err := v.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.ReadFull(r, p)
	return err
}

// Open streams the numbers, decoded on all cores.
func (v *values) Open() (io.ReadCloser, error) {
	s := new(stream)
	var err error
	s.pipeline, err = newPipeline(v, func(j *piece) error {
		s.ready = append(s.ready, j)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// A stream reads what a pipeline decodes.
type stream struct {
	*pipeline
	ready   []*piece    // decoded, in order
	buffers [][]float32 // memory for further pieces
	out     []byte      // bytes of the current piece that are not read yet
	err     error       // of Read when ready is empty
}

func (s *stream) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		switch {
		case len(p) == 0:
			return 0, nil
		case len(s.ready) > 0:
			j := s.ready[0]
			s.ready = s.ready[1:]
			s.out = le.Bytes(j.out)
			s.buffers = append(s.buffers, j.out) // is read before the next piece is made
		case s.err != nil:
			return 0, s.err
		default:
			s.err = s.advance()
		}
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// advance starts one job. If there is none left, it waits for all jobs, and returns
// io.EOF.
func (s *stream) advance() error {
	j, err := s.next()
	if err != nil {
		return err
	}
	if j == nil {
		if err := s.line.Flush(); err != nil {
			return err
		}
		return io.EOF
	}
	n := int(j.rect.elements())
	if k := len(s.buffers); k > 0 && cap(s.buffers[k-1]) >= n {
		j.out = s.buffers[k-1][:n]
		s.buffers = s.buffers[:k-1]
	} else {
		j.out = make([]float32, n)
	}
	return s.put(j)
}

func (s *stream) Close() error {
	s.line.Close()
	return nil
}
