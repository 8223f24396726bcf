package primitiv

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/pieces"
	"github.com/tensorfile/tensorfile/tensor"
)

// until makes writing end with ctx, at least once a MiB.
func (w *Writer) until(ctx context.Context) { w.out = pieces.Until(ctx, w.out) }

func (w *Writer) finish() error {
	err := w.err
	if err == nil {
		err = w.content()
	}
	if err == nil {
		err = w.flush()
	}
	if err == nil && w.buf != nil {
		err = w.buf.Flush()
	}
	return err
}

// content writes everything that was not written yet.
func (w *Writer) content() error {
	if err := w.resolve(); err != nil {
		return err
	}
	if !w.opts.Streaming {
		w.begin(w.opts.Kind)
	}
	switch k := w.opts.Kind; {
	case k == KindModel && w.opts.Streaming:
		return w.endStream()
	case k == KindModel:
		return w.model()
	case k == KindShape && w.shape != nil:
		w.shapeHead(*w.shape, 0, 0)
	case k == KindTensor && w.tensor != nil:
		return w.tensorOf(head{}, w.tensor, w.opts.Batch)
	case k == KindOptimizer && w.optimizer != nil:
		w.settings(w.optimizer)
	case k == KindParameter && len(w.params) == 1:
		return w.parameter(head{}, w.params[0])
	case k == KindParameter && len(w.params) > 1:
		return fmt.Errorf("%s: a parameter file has one parameter, not %d: %w",
			format, len(w.params), tensor.ErrDuplicate)
	default:
		return fmt.Errorf("%s: there is no %v to write: %w", format, k, tensor.ErrNoTensor)
	}
	return nil
}

// model writes all parameters in the order of their paths.
func (w *Writer) model() error {
	if int64(len(w.params)) > math.MaxUint32 {
		return fmt.Errorf("%s: %w: %d parameters", format, tensor.ErrLimit, len(w.params))
	}
	m, paths := slices.Clone(w.params), make([][]string, len(w.params))
	var size int64
	for i, p := range w.params {
		paths[i] = p.Path
		size += p.Value.Data.Size()
		for _, s := range p.Stats {
			size += s.Tensor.Data.Size()
		}
	}
	slices.SortFunc(paths, slices.Compare)
	if err := disjoint(paths); err != nil {
		return err
	}
	slices.SortFunc(m, func(a, b *Parameter) int { return slices.Compare(a.Path, b.Path) })
	if w.file != nil {
		w.file.Reserve(size)
	}
	w.uint32(uint32(len(m)))
	for _, p := range m {
		if err := w.parameter(head{path: p.Path}, p); err != nil {
			return err
		}
	}
	return nil
}

// flushParameter writes the parameter that waits for statistics.
func (w *Writer) flushParameter() error {
	if len(w.params) == 0 {
		return nil
	}
	p := w.params[0]
	w.params = nil
	w.paths = append(w.paths, p.Path)
	return w.parameter(head{path: p.Path}, p)
}

// endStream writes the last parameter and what was not known at the beginning.
func (w *Writer) endStream() error {
	if err := w.flushParameter(); err != nil {
		return err
	}
	n := len(w.paths)
	slices.SortFunc(w.paths, slices.Compare)
	if err := disjoint(w.paths); err != nil {
		return err
	}
	switch {
	case int64(n) > math.MaxUint32:
		return fmt.Errorf("%s: %w: %d parameters", format, tensor.ErrLimit, n)
	case w.opts.Count > 0 && n != int(w.opts.Count):
		return fmt.Errorf("%s: %d parameters where %d were announced: %w",
			format, n, w.opts.Count, fs.ErrInvalid)
	case w.opts.Count > 0:
		return nil
	}
	if err := w.flush(); err != nil {
		return err
	}
	_, err := w.file.WriteAt(binary.BigEndian.AppendUint32(nil, uint32(n)), prefixSize+1)
	return err
}

func (w *Writer) parameter(h head, p *Parameter) error {
	if err := w.tensorOf(h, p.Value, 1); err != nil {
		return err
	}
	if w.opts.NoStats {
		w.uint32(0)
		return nil
	}
	w.uint32(uint32(len(p.Stats)))
	for _, s := range p.Stats {
		if err := w.tensorOf(head{isStat: true, stat: s.Name}, s.Tensor, s.Batch); err != nil {
			return err
		}
	}
	return nil
}
