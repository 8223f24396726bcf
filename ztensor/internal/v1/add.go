package v1

import (
	"bytes"
	"context"
	"io"
	"iter"
	"slices"
	"sort"

	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// maxPrepared is the size of the largest component that is read or compressed in memory
// before it is written; others are streamed.
const maxPrepared = 8 << 20

func (l *Layout) Add(ctx context.Context, w *core.Writer, ts iter.Seq2[*tensor.Tensor, error],
	all bool) error {
	return w.Pipe(ctx, ts, all)
}

// Plan checks a tensor, lists its components in file order, and takes its name.
func (l *Layout) Plan(ctx context.Context, w *core.Writer,
	t *tensor.Tensor) (*tensor.Tensor, []core.Piece, error) {
	if err := w.CheckTensor(t); err != nil {
		return nil, nil, err
	}
	var all []core.Piece
	if t.Dense() {
		all = append(all, core.Piece{Role: "data", DType: t.DType, Data: t.Data})
	}
	indexed := isSparse(t.Scheme)
	if indexed {
		if err := sparse.Check(ctx, t, nil); err != nil {
			return nil, nil, core.SparseError(t, err)
		}
	}
	for _, p := range t.Parts {
		if indexed && slices.Contains(core.IndexRoles, p.Role) {
			p = sparse.Widen(ctx, p)
		}
		all = append(all, core.Piece{Role: p.Role, DType: p.DType, Data: p.Data})
	}
	if indexed {
		sort.SliceStable(all,
			func(i, j int) bool { return fileOrder(all[i].Role) < fileOrder(all[j].Role) })
	}
	for i := range all {
		p := &all[i]
		size := p.Data.Size()
		if _, ok := p.Data.Memory(); ok && l.level == 0 {
			p.Early = w.Digest != core.NoDigest
		} else if size >= 0 && size <= maxPrepared {
			p.Early, p.Cost = true, 2*size
		}
	}
	w.Names[t.Name] = true
	return t, all, nil
}

// fileOrder is the order in which upstream writes the components of sparse tensors.
func fileOrder(role string) int {
	if role == "values" {
		return -1
	}
	if i := slices.Index(core.IndexRoles, role); i >= 0 {
		return i
	}
	return len(core.IndexRoles)
}

// Prepare compresses and hashes a component in memory.
func (l *Layout) Prepare(ctx context.Context, w *core.Writer, p *core.Piece) error {
	var read bytes.Buffer
	f := core.Feed{Out: &read, Dtype: p.DType}
	all, inMemory := p.Data.Memory()
	if inMemory {
		f.Out = io.Discard
	} else {
		read.Grow(int(p.Data.Size()))
	}
	buf := make([]byte, min(max(p.Data.Size(), 1), 256<<10))
	if err := f.From(ctx, p.Data, &buf); err != nil {
		return err
	}
	if p.Size = f.N; !inMemory {
		all = read.Bytes()
	}
	if l.level > 0 {
		all = l.frames.EncodeAll(all, make([]byte, 0, len(all)))
	}
	h := core.NewHash(w.Digest)
	if h != nil {
		h.Write(all)
	}
	p.Stored, p.Digest = all, core.DigestText(w.Digest, h)
	return nil
}

// Store writes one component.
func (l *Layout) Store(ctx context.Context, w *core.Writer, p *core.Piece,
	written func() error) error {
	if err := w.Pad(alignment); err != nil {
		return err
	}
	p.Offset = w.Off
	if p.Early {
		w.WritePieces(p.Stored)
	} else {
		s := w.Sink(w.Digest)
		f := core.Feed{Out: s, Zstd: l.encoder, Dtype: p.DType}
		if err := f.From(ctx, p.Data, &w.Buf); err != nil {
			return err
		}
		p.Size, p.Digest = f.N, core.DigestText(w.Digest, s.Hash)
	}
	if p.Length = w.Off - p.Offset; w.Err != nil {
		return w.Err
	}
	return written()
}

// Create begins a dense tensor that comes piece by piece.
func (l *Layout) Create(w *core.Writer, t *tensor.Tensor) (*core.Part, error) {
	if err := w.Pad(alignment); err != nil {
		return nil, err
	}
	w.Names[t.Name] = true
	c := core.Piece{Role: "data", DType: t.DType, Size: t.Data.Size(), Offset: w.Off}
	s := w.Sink(w.Digest)
	return &core.Part{Feed: core.Feed{Out: s, Zstd: l.encoder, Dtype: t.DType},
		Finish: func() error {
			c.Length, c.Digest = s.Size, core.DigestText(w.Digest, s.Hash)
			l.Enter(t, []core.Piece{c})
			return nil
		}}, nil
}
