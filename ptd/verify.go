package ptd

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/tensorfile/tensorfile/internal/finding"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

// Verify reads everything, with VerifyStructure only the padding, and reports the warnings
// of opening, empty names, unused segments, padding that is not zero, bools that are
// neither 0 nor 1, and data that cannot be read. The format has no digests.
func (r *Reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	l := finding.NewList(opts)
	return l.End(r.verify(ctx, l))
}

func (r *Reader) verify(ctx context.Context, l *finding.List) error {
	v := &verification{ctx: ctx, r: r, found: l, buf: make([]byte, min(r.src.Size(), 1<<20))}
	for _, w := range r.warnings.All() {
		v.found.Warn(w)
	}
	v.names()
	if err := v.gaps(); err != nil {
		return err
	}
	if l.Options.Depth <= tensor.VerifyStructure {
		return nil
	}
	return v.payloads()
}

type verification struct {
	ctx   context.Context
	r     *Reader
	found *finding.List
	buf   []byte
}

// names checks how entries are named and what refers to what.
func (v *verification) names() {
	r := v.r
	used := make([]bool, len(r.segments))
	for i := range r.entries {
		used[r.entries[i].segment] = true
		if r.entries[i].Name == "" {
			v.found.Warn(malformed(-1, element("named_data", i)+".key",
				"empty: a program cannot refer to it"))
		}
	}
	for i, ok := range used {
		if s := &r.segments[i]; !ok && s.Size() > 0 {
			v.found.Warn(malformed(s.Offset(), element("segments", i), "%d bytes that no entry refers to",
				s.Size()))
		}
	}
	if len(r.entries) == 0 {
		v.found.Warn(malformed(-1, "named_data",
			"empty: ExecuTorch's Module refuses a file without entries"))
	}
}

// gaps reads what is between the parts in the file: it should be zero.
func (v *verification) gaps() error {
	r, h := v.r, v.r.header
	if err := v.zero(8+headerSize, 8+h.FlatbufferOffset, "padding of the header"); err != nil {
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
	return v.zero(end, max(end, h.SegmentBaseOffset+h.SegmentDataSize), what)
}

// zero warns of the first byte from off to end that is not zero.
func (v *verification) zero(off, end int64, what string) error {
	for off < end {
		p := v.buf[:min(int64(len(v.buf)), end-off)]
		if err := v.read(p, off); err != nil {
			return err
		}
		for i, c := range p {
			if c != 0 {
				v.found.Warn(malformed(off+int64(i), what, "%#02x, not zero", c))
				return nil
			}
		}
		off += int64(len(p))
	}
	return nil
}

// read fills p unless the context ends. A file that has become shorter is a finding,
// and p then zero.
func (v *verification) read(p []byte, off int64) error {
	if err := v.ctx.Err(); err != nil {
		return err
	}
	_, err := v.r.src.ReadAt(p, off)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		v.found.Error(&tensor.FormatError{Format: "ptd", Offset: off, Err: err})
		clear(p)
		err = nil
	}
	return err
}

// payloads reads the area of the segments once, whatever overlaps there.
func (v *verification) payloads() error {
	h := v.r.header
	for off := int64(0); off < h.SegmentDataSize; {
		p := v.buf[:min(int64(len(v.buf)), h.SegmentDataSize-off)]
		if err := v.read(p, h.SegmentBaseOffset+off); err != nil {
			return err
		}
		off += int64(len(p))
		if v.found.Options.Progress != nil {
			v.found.Options.Progress(off, h.SegmentDataSize)
		}
	}
	return v.bools()
}

// bools looks at every byte that is an element of a bool tensor, once, and reports the
// first that is not a bool in each.
func (v *verification) bools() error {
	type span struct {
		off, end int64
		name     string
	}
	var spans []span
	for t := range v.r.Tensors() {
		if t.DType == tensor.Bool {
			st, _ := t.Data.Stored()
			spans = append(spans, span{st.Offset, st.Offset + t.Data.Size(), t.Name})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.off, b.off) })
	seen := int64(0)
	for _, s := range spans {
		for off := max(s.off, seen); off < s.end && !v.found.Full(); {
			p := v.buf[:min(int64(len(v.buf)), s.end-off)]
			if err := v.read(p, off); err != nil {
				return err
			}
			if i := le.NotBool(p); i >= 0 {
				v.found.Error(malformed(off+int64(i), quote.Name(s.name), "%#02x is not a bool", p[i]))
				break
			}
			off += int64(len(p))
		}
		seen = max(seen, s.end)
	}
	return nil
}
