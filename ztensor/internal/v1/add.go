package v1

import (
	"cmp"
	"context"
	"io"
	"iter"
	"slices"
	"sort"

	"github.com/klauspost/compress/zstd"

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
			return nil, nil, core.OfTensor(t.Name, err)
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
		all[i].Plan(l.level > 0, maxPrepared)
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
	all, err := p.Load(ctx)
	if err != nil {
		return err
	}
	if l.level > 0 {
		all = l.frames.EncodeAll(all, make([]byte, 0, len(all)))
	}
	p.Stored, p.Digest = all, core.DigestOf(w.Digest, all)
	return nil
}

// Place begins a component where the format does.
func (l *Layout) Place(ctx context.Context, w *core.Writer, p *core.Piece) (bool, error) {
	err := w.Pad(alignment)
	p.Offset = w.Off
	return false, err
}

// Sink compresses a component that does not come from memory at once.
func (l *Layout) Sink(ctx context.Context, w *core.Writer, p *core.Piece) (io.WriteCloser,
	error) {
	s := w.Sink(p, w.Digest)
	if l.level == 0 {
		return s, nil
	}
	l.encoder.ResetContentSize(s, p.Data.Size())
	return compressed{l.encoder, s}, nil
}

// A compressed sink ends the frame before it hashes.
type compressed struct {
	*zstd.Encoder
	s *core.Sink
}

func (c compressed) Close() error { return cmp.Or(c.Encoder.Close(), c.s.Close()) }

func (l *Layout) Written(context.Context, *core.Writer, *core.Piece) error { return nil }

// Create begins a dense tensor that comes piece by piece.
func (l *Layout) Create(ctx context.Context, w *core.Writer, t *tensor.Tensor) ([]core.Piece,
	error) {
	_, all, err := l.Plan(ctx, w, t)
	return all, err
}
