package ptd

import (
	"cmp"
	"context"
	"slices"
	"sort"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// Verify reads everything, with VerifyStructure only the padding, and reports the
// warnings of opening, empty names, unused segments, padding that is not zero, bools that
// are neither 0 nor 1, and data that cannot be read. The format has no digests.
func (r *Reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	l := format.NewFindings(opts)
	return l.End(r.verify(ctx, l))
}

func (r *Reader) verify(ctx context.Context, l *format.Findings) error {
	v := &verification{format.NewScanner(ctx, string(errs), format.InputOf(&r.Base).Source, l), r}
	for _, w := range r.Warnings() {
		l.Warn(w)
	}
	v.names()
	if err := v.gaps(); err != nil {
		return err
	}
	if l.Options.Depth <= tensor.VerifyStructure {
		return nil
	}
	v.Total = r.header.segmentDataSize // read once, whatever overlaps there
	base := r.header.segmentBaseOffset
	if err := v.Read(base, base+v.Total, "", nil); err != nil {
		return err
	}
	v.Total = 0
	return v.bools()
}

type verification struct {
	*format.Scanner
	r *Reader
}

// names checks how entries are named and what refers to what.
func (v *verification) names() {
	r := v.r
	used := make([]bool, len(r.segments))
	for i := range r.entries {
		used[r.entries[i].segment] = true
		if r.entries[i].Name == "" {
			v.Found.Warn(errs.Malformed(-1, element("named_data", i)+".key",
				"empty: a program cannot refer to it"))
		}
	}
	for i, ok := range used {
		if s := &r.segments[i]; !ok && s.Size() > 0 {
			v.Found.Warn(errs.Malformed(s.Offset(), element("segments", i),
				"%d bytes that no entry refers to", s.Size()))
		}
	}
	if len(r.entries) == 0 {
		v.Found.Warn(errs.Malformed(-1, "named_data",
			"empty: ExecuTorch's Module refuses a file without entries"))
	}
}

// gaps reads what is between the parts in the file: it should be zero.
func (v *verification) gaps() error {
	r, h := v.r, v.r.header
	if err := v.zero(8+headerSize, 8+h.flatbufferOffset, "padding of the header"); err != nil {
		return err
	}
	end, what := h.metadataEnd(), "padding of the metadata"
	order := make([]int, 0, len(r.segments))
	for i := range r.segments {
		if r.segments[i].Size() > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order,
		func(a, b int) int { return cmp.Compare(r.segments[a].Offset(), r.segments[b].Offset()) })
	for _, i := range order {
		s := &r.segments[i]
		if err := v.zero(end, s.Offset(), what); err != nil {
			return err
		}
		end, what = max(end, s.Offset()+s.Size()), "padding of "+element("segments", i)
	}
	return v.zero(end, max(end, h.segmentBaseOffset+h.segmentDataSize), what)
}

// zero warns of the first byte from off to end that is not zero.
func (v *verification) zero(off, end int64, what string) error {
	at, err := v.NonZero(off, end, what)
	if at >= 0 {
		v.Found.Warn(errs.Malformed(at, what, "a byte that is not zero"))
	}
	return err
}

// bools checks every byte that is an element of a bool tensor, once, and reports the
// first that is not a bool in each.
func (v *verification) bools() error {
	var spans []tensor.Span
	for t := range v.r.Tensors() {
		if t.DType == tensor.Bool {
			st, _ := t.Data.Stored()
			s := tensor.Span{Offset: st.Offset, Size: t.Data.Size(), Name: t.Name}
			spans = append(spans, s)
		}
	}
	sort.Slice(spans, func(i, j int) bool { return spans[i].Offset < spans[j].Offset })
	seen := int64(0)
	for _, s := range spans {
		end := s.Offset + s.Size
		err := v.Read(max(s.Offset, seen), end, s.Name, func(off int64, p []byte) bool {
			i := le.NotBool(p)
			if i >= 0 {
				v.Found.Error(errs.Malformed(off+int64(i), naming.Quote(s.Name),
					"%#02x is not a bool", p[i]))
			}
			return i < 0 && !v.Found.Full()
		})
		if err != nil {
			return err
		}
		seen = max(seen, end)
	}
	return nil
}
