package rten

import (
	"cmp"
	"context"
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// Verify reads the whole file and reports everything that is wrong with it,
// beyond what Open refuses: ranges that overlap, bytes that nothing refers to,
// graphs that RTen loads but cannot run, or runs with an unexpected result. Most of these
// are warnings, for files with them exist; Strict makes them errors.
//
// A .rten file has no digests: damaged weights cannot be told from others.
func (r *Reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	l := format.NewFindings(opts)
	return l.End(r.verify(ctx, l))
}

func (r *Reader) verify(ctx context.Context, list *format.Findings) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for err := range r.model.departures() {
		if list.Warn(err); list.Full() {
			break
		}
	}
	if err := r.model.verifyGraphs(ctx, list); err != nil {
		return err
	}
	return r.verifyRanges(ctx, list)
}

func (m *Model) warnings() []error {
	list := format.Warnings{Format: "rten"}
	for err := range m.departures() {
		if list.Add(err); list.Full() {
			break
		}
	}
	return list.All()
}

// verifyRanges checks that the parts of the file do not overlap, that nothing
// hides between them, and that everything can be read.
func (r *Reader) verifyRanges(ctx context.Context, list *format.Findings) error {
	m := r.model
	used := []fileRange{{m.base, m.base + int64(len(m.buf)), -1}}
	if r.version == "2" {
		used = append(used, fileRange{0, headerSize, -1})
	}
	for i := range m.constants {
		if c := m.Constant(i); !c.inline && c.size() > 0 {
			used = append(used, c.bytes(i))
		}
	}
	sortRanges(used)
	var gaps []fileRange
	reach := fileRange{constant: -1} // the range so far that ends last
	for _, x := range used {
		shared := x.off == reach.off && x.end == reach.end && x.constant >= 0 &&
			reach.constant >= 0
		switch {
		case x.off > reach.end:
			gaps = append(gaps, fileRange{reach.end, x.off, -1})
		case x.off < reach.end && !shared:
			// Not the header and the model, which Open has kept apart.
			whose, what := x.constant, "the header or the model"
			if whose < 0 {
				whose = reach.constant
			} else if reach.constant >= 0 {
				what = naming.Quote(m.tensorName(reach.constant))
			}
			field := m.Constant(whose).n.path("data.data_offset")
			list.Warn(fail(tensor.ErrMalformed, x.off, field, "its bytes overlap those of %s",
				what))
		}
		if x.end > reach.end {
			reach = x
		}
		if list.Full() {
			return nil
		}
	}
	if reach.end < r.size {
		gaps = append(gaps, fileRange{reach.end, r.size, -1})
	}
	s := format.NewScanner(ctx, "rten", r.src, list)
	structure := list.Options.Depth <= tensor.VerifyStructure
	if s.Total = r.size; structure {
		s.Total = 0
		for _, g := range gaps {
			s.Total += g.end - g.off
		}
	}
	for _, g := range gaps {
		hidden, err := s.Zero(g.off, g.end, "padding")
		switch {
		case err != nil:
			return err
		case hidden >= 0:
			list.Warn(fail(tensor.ErrMalformed, hidden, "",
				"bytes that are not zero in the %d at %d, which belong to nothing", g.end-g.off,
				g.off))
		case g.end-g.off > maxGap:
			list.Warn(fail(tensor.ErrMalformed, g.off, "", "a hole of %d bytes", g.end-g.off))
		}
	}
	end := int64(0)
	for _, x := range used {
		if structure || list.Full() {
			break
		}
		field := "model"
		if x.constant >= 0 {
			field = m.Constant(x.constant).n.path("")
		}
		if err := s.Read(max(x.off, end), x.end, field, nil); err != nil {
			return err
		}
		end = max(end, x.end)
	}
	return nil
}

// maxGap is more than alignment explains: pages of 64 KiB are the largest in use.
const maxGap = 64 << 10

// A fileRange is a part of the file, and whose it is: the index of a constant, or -1.
type fileRange struct {
	off, end int64
	constant int
}

// bytes is where the elements are, as those of constant i.
func (c Constant) bytes(i int) fileRange { return fileRange{c.off, c.off + c.size(), i} }

func sortRanges(list []fileRange) {
	slices.SortFunc(list, func(a, b fileRange) int {
		return cmp.Or(cmp.Compare(a.off, b.off), cmp.Compare(a.end, b.end),
			cmp.Compare(a.constant, b.constant))
	})
}
