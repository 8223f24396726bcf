package inspect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/tensor"
)

// ErrExternal is the error of reading a tensor whose elements are in another file.
var ErrExternal = fmt.Errorf("%w: the elements are in another file", errors.ErrUnsupported)

// inOrder yields the results of work for all jobs, in order. Jobs of up to pieceSize
// bytes run at the same time. A larger job runs alone, because its work uses all cores.
// Several jobs may call progress at the same time. An error of ctx is yielded, and is the
// last.
func inOrder[J, R any](ctx context.Context, jobs iter.Seq[J], size func(J) int64,
	work func(context.Context, J, counter) R, progress counter) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		type entry struct {
			job    J
			result R
		}
		stopped := false
		line := parallel.New(ctx, budget, func(ctx context.Context, e *entry) error {
			e.result = work(ctx, e.job, progress)
			return ctx.Err()
		}, func(e *entry) error {
			if stopped = !yield(e.result, nil); stopped {
				return errStopped
			}
			return nil
		})
		defer line.Close()
		run := func() error {
			for j := range jobs {
				n := size(j)
				if n <= pieceSize {
					if err := line.Put(&entry{job: j}, max(n, 0)); err != nil {
						return err
					}
					continue
				}
				if err := line.Flush(); err != nil {
					return err
				}
				r := work(ctx, j, progress)
				if err := ctx.Err(); err != nil {
					return err
				}
				if stopped = !yield(r, nil); stopped {
					return errStopped
				}
			}
			return line.Flush()
		}
		if err := run(); err != nil && !stopped {
			var none R
			yield(none, err)
		}
	}
}

var errStopped = errors.New("inspect: stopped")

// Part returns a part of a tensor as a tensor of one dimension named "NAME:ROLE". If its
// bytes are not a whole number of elements, the dtype is uint8. A part whose size is not
// known is decoded into memory.
func Part(ctx context.Context, t *tensor.Tensor, p *tensor.Part) (*tensor.Tensor, error) {
	out := &tensor.Tensor{Name: t.Name + ":" + p.Role, DType: partType(t, p), Data: p.Data}
	if out.Data.Size() < 0 {
		all, err := out.Data.ReadAll()
		if err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out.Data = tensor.BlobOf(all)
	}
	n := out.Data.Size()
	if bits := int64(out.DType.Bits()); bits > 0 {
		n = n/bits*8 + n%bits*8/bits
	}
	if size, ok := out.DType.Bytes(n); out.DType.Known() && (!ok || size != out.Data.Size()) {
		out.DType, n = tensor.U8, out.Data.Size()
	}
	out.Shape = tensor.Shape{n}
	return out, nil
}

// partType returns the dtype of a part: uint64 for indices of zTensor 1.0, which have
// none in the file.
func partType(t *tensor.Tensor, p *tensor.Part) tensor.DType {
	if st, _ := p.Data.Stored(); p.DType == tensor.Unknown && st.Type == "" &&
		(t.Scheme == "sparse_csr" || t.Scheme == "sparse_coo") {
		return tensor.U64
	}
	return p.DType
}

// normalizeBlocks returns quantised blocks with the scheme and role that a .gguf has;
// other tensors stay as they are.
func normalizeBlocks(t *tensor.Tensor) *tensor.Tensor {
	kind, ok := format.BlocksOf(t)
	if !ok {
		return t
	}
	return &tensor.Tensor{Name: t.Name, Shape: t.Shape, Scheme: kind.Name,
		Parts: []tensor.Part{{Role: "blocks", Data: t.Parts[0].Data}}}
}

// lacksData reports whether a dense tensor has elements and no bytes.
func lacksData(t *tensor.Tensor) bool {
	n, _ := t.Shape.Elements()
	return t.Dense() && !t.External && n != 0 && t.Data.Size() == 0
}

// sizeOrMax returns the number of bytes of a tensor; math.MaxInt64 if it is not known.
func sizeOrMax(t *tensor.Tensor) int64 {
	if n := t.Size(); n >= 0 {
		return n
	}
	return math.MaxInt64
}

// A PayloadStats is the statistics of the elements of a tensor, or of one of its parts.
type PayloadStats struct {
	Role    string // "" for the elements of a dense tensor, or of quantised blocks
	DType   tensor.DType
	Summary *Summary // nil after an error
	Err     error
}

// StatsEach yields the statistics of many tensors, in order: for a dense tensor, and for
// quantised blocks, one entry for its elements; for another tensor one entry for each
// part. An error of a tensor is in its entry. An error of ctx is yielded, and is the
// last. With Progress, it collects all tensors of ts first.
func StatsEach(ctx context.Context, ts iter.Seq[*tensor.Tensor],
	opts *StatsOptions) iter.Seq2[[]PayloadStats, error] {
	var o StatsOptions
	if opts != nil {
		o = *opts
	}
	work := func(ctx context.Context, t *tensor.Tensor, read counter) (all []PayloadStats) {
		add := func(s PayloadStats, t *tensor.Tensor, err error) {
			if err == nil {
				s.Summary, err = stats(ctx, t, &o, read)
			}
			s.Err = err
			all = append(all, s)
		}
		switch _, isBlocks := format.BlocksOf(t); {
		case t.External:
			add(PayloadStats{DType: t.DType}, nil, ErrExternal)
		case isBlocks:
			add(PayloadStats{DType: tensor.F32}, t, nil)
		case t.Dense():
			add(PayloadStats{DType: t.DType}, t, nil)
		default:
			for i := range t.Parts {
				x, err := Part(ctx, t, &t.Parts[i])
				add(PayloadStats{Role: t.Parts[i].Role, DType: partType(t, &t.Parts[i])}, x, err)
			}
		}
		return all
	}
	return metered(o.Progress, ts, sizeRead, func(ts iter.Seq[*tensor.Tensor],
		read counter) iter.Seq2[[]PayloadStats, error] {
		return inOrder(ctx, ts, sizeOrMax, work, read)
	})
}

// metered yields the results of each. If progress is not nil, it collects all tensors
// first, and reports the progress.
func metered[R any](progress func(done, total int64), ts iter.Seq[*tensor.Tensor],
	size func(*tensor.Tensor) int64, each func(iter.Seq[*tensor.Tensor],
		counter) iter.Seq2[R, error]) iter.Seq2[R, error] {
	if progress == nil {
		return each(ts, nil)
	}
	return func(yield func(R, error) bool) {
		all, total := slices.Collect(ts), int64(0)
		for _, t := range all {
			total += size(t)
		}
		m := format.NewMeter(progress, total)
		for r, err := range each(slices.Values(all), m.Add) {
			if !yield(r, err) || err != nil {
				return
			}
		}
		m.End()
	}
}

// sizeRead returns about how many bytes statistics of a tensor read: dtypes of more than
// 16 bits are read twice.
func sizeRead(t *tensor.Tensor) int64 {
	size := func(d tensor.DType, n int64) int64 {
		if n = max(n, 0); d.Bits() > 16 {
			n *= 2
		}
		return n
	}
	if _, ok := format.BlocksOf(t); ok {
		n, _ := t.Shape.Elements()
		return size(tensor.F32, 4*n)
	}
	total := size(t.DType, t.Data.Size())
	for i := range t.Parts {
		total += size(partType(t, &t.Parts[i]), t.Parts[i].Data.Size())
	}
	return total
}

// A PayloadHash is the SHA-256 of the decoded bytes of a tensor, or of one of its parts.
type PayloadHash struct {
	Role string // "" for the elements of a dense tensor
	Sum  Sum
	Err  error
}

// HashEach yields the hashes of many tensors, in order: for a dense tensor the hash of
// its bytes in storage order, then the hashes of the parts, if any. An error of a tensor
// is in its entry. An error of ctx is yielded, and is the last. progress, if not nil, is
// called with the bytes read so far and in all; all tensors of ts are collected first.
func HashEach(ctx context.Context, ts iter.Seq[*tensor.Tensor],
	progress func(done, total int64)) iter.Seq2[[]PayloadHash, error] {
	work := func(ctx context.Context, t *tensor.Tensor, read counter) (all []PayloadHash) {
		add := func(role string, b tensor.Blob) {
			sum, err := hashBlob(ctx, b, read)
			all = append(all, PayloadHash{role, sum, err})
		}
		switch err := t.Check(); {
		case t.External:
			return []PayloadHash{{Err: ErrExternal}}
		case lacksData(t):
			return []PayloadHash{{Err: fmt.Errorf("%w: %v without data", tensor.ErrMalformed,
				t.Shape)}}
		case err != nil:
			return []PayloadHash{{Err: err}}
		case t.Dense():
			add("", t.Data)
		}
		for i := range t.Parts {
			add(t.Parts[i].Role, t.Parts[i].Data)
		}
		return all
	}
	// One core hashes a blob, so that large tensors run at the same time too.
	size := func(*tensor.Tensor) int64 { return pieceSize }
	return metered(progress, ts, sizeStored, func(ts iter.Seq[*tensor.Tensor],
		read counter) iter.Seq2[[]PayloadHash, error] {
		return inOrder(ctx, ts, size, work, read)
	})
}

// sizeStored returns the size of the data and the parts of a tensor, without parts of
// unknown size.
func sizeStored(t *tensor.Tensor) int64 {
	n := max(t.Data.Size(), 0)
	for i := range t.Parts {
		n += max(t.Parts[i].Data.Size(), 0)
	}
	return n
}
