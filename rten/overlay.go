package rten

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// An overlay is a copy of a file with other bytes laid over it: replaced elements,
// offsets in the flatbuffer that refer to new tables and strings after it, and the
// offsets of tensor data that moves. All else stays as it is, what this library does not
// know included.
type overlay struct {
	*format.PatchedFile // of the elements
	e                   *Edit
	patches             map[int][]byte   // by position in the flatbuffer; of four or eight bytes
	tail                []format.Section // after the flatbuffer, by position
	size                int64            // of the flatbuffer with its tail
}

// newOverlay collects the elements that are replaced.
func newOverlay(e *Edit) (*overlay, error) {
	m := e.r.model
	var users format.Users
	if len(e.replaced) > 0 && !e.AllowShared {
		for i := range m.constants {
			e.steps++
			c := m.Constant(i)
			users.Add(c.off, c.size(), i)
		}
		users.Sort()
	}
	over := make(map[int64]format.Section)
	for _, i := range slices.Sorted(maps.Keys(e.replaced)) {
		c := m.Constant(i)
		if c.size() == 0 {
			continue
		}
		var others []string
		for _, k := range users.Of(c.off, c.size()) {
			e.steps++
			if k != i && len(others) < 10 {
				others = append(others, naming.Quote(m.tensorName(k)))
			}
		}
		if len(others) > 0 {
			return nil, errorf(errors.ErrUnsupported, "%s shares bytes with %s: see AllowShared",
				naming.Quote(m.tensorName(i)), strings.Join(others, ", "))
		}
		over[c.off] = pieceOf(c.off, e.replaced[i], m.tensorName(i))
	}
	file := func(off, size int64) tensor.Blob {
		x, _ := e.r.src.Extent(off, size)
		return tensor.NewBlob(&x)
	}
	o := &overlay{e: e, patches: make(map[int][]byte), size: int64(len(m.buf))}
	var err error
	o.PatchedFile, err = format.NewPatchedFile(file, slices.Collect(maps.Values(over)))
	if err != nil {
		return nil, errorf(errors.ErrUnsupported, "%w", err)
	}
	return o, nil
}

// blob is a range of the file with what is laid over it.
func (o *overlay) blob(off, size int64) tensor.Blob {
	list := o.Section(off, size, 0)
	o.e.steps += len(list)
	switch len(list) {
	case 0:
		return tensor.Blob{}
	case 1:
		return list[0].Data
	}
	return tensor.BlobFunc(size, func() (io.ReadCloser, error) {
		var b bytes.Buffer
		err := format.WriteTo(context.Background(), &b, func(out *format.Output) error {
			return format.WriteSections(out, nil, list, size)
		})
		return io.NopCloser(&b), err
	})
}

// layout returns the copy, and false where parts of the flatbuffer overlap with what is
// patched.
func (o *overlay) layout(opts WriterOptions, realign bool) (l *layout, ok bool, err error) {
	if err := o.strings(); err != nil {
		return nil, false, err
	}
	r := o.e.r
	h := r.header
	grown := o.size - int64(len(r.model.buf))
	switch {
	case opts.Version == "1":
		l = &layout{pieces: o.model(), size: o.size}
	case r.version == "1": // the flatbuffer becomes the model as it is
		l, err = version2Layout(o.model(), o.size, nil, 0, opts.Alignment)
	case realign || grown > 0 && h.TensorOffset < h.ModelOffset+h.ModelSize:
		l, err = o.realign(opts.Alignment)
	default:
		l = o.shift(grown)
	}
	return l, err == nil && !o.overlapsPatched(), err
}

// strings puts new metadata and names after the flatbuffer and refers to them.
func (o *overlay) strings() error {
	e, m := o.e, o.e.r.model
	if len(e.metadata) == 0 && len(e.names) == 0 {
		return nil
	}
	enc := newEncoder(WriterOptions{Version: "1"})
	type link struct {
		field int
		to    fb.Offset // from the end of what is encoded
	}
	var links []link
	if len(e.metadata) > 0 {
		root := m.Raw().Table()
		if newer := m.newer("Metadata"); newer != "" {
			return errorf(errors.ErrUnsupported, "the metadata is newer than this library: %s",
				newer)
		}
		empty := enc.b.Table() // if nothing is left: the offset must refer to a table
		table := cmp.Or(enc.metadata(e.mergedMetadata()), empty)
		links = append(links, link{fb.FieldPos(root, rtenfb.SlotModelMetadata), table})
	}
	for i := range m.constants {
		n := m.Constant(i).n
		if name, ok := e.names[n.id()]; ok {
			links = append(links,
				link{fb.FieldPos(n.Raw().Table(), rtenfb.SlotNodeName), enc.b.String(name)})
		}
	}
	b, err := enc.b.Finish(enc.b.Table(), "")
	if err != nil {
		return err
	}
	base, _ := align.Up(o.size, 8)
	end := base + int64(len(b))
	if end > maxModel {
		return errorf(tensor.ErrLimit, "the model takes more than 2 GiB")
	}
	for _, l := range links {
		o.patches[l.field] = binary.LittleEndian.AppendUint32(nil,
			uint32(end-int64(l.to)-int64(l.field)))
	}
	o.tail = append(o.tail, modelPiece(base, b))
	o.size = end
	return nil
}

// model is the flatbuffer, counted from its start.
func (o *overlay) model() []format.Section {
	m := o.e.r.model
	var list []format.Section
	at := int64(0)
	for _, pos := range slices.Sorted(maps.Keys(o.patches)) {
		b := o.patches[pos]
		list = append(list, o.Section(m.base+at, int64(pos)-at, at)...)
		list = append(list, modelPiece(int64(pos), b))
		at = int64(pos + len(b))
	}
	list = append(list, o.Section(m.base+at, int64(len(m.buf))-at, at)...)
	return append(list, o.tail...)
}

// shift is the same file with a model that may have grown: what comes after it
// moves by a multiple of the alignment that it may have.
func (o *overlay) shift(grown int64) *layout {
	r := o.e.r
	h := r.header
	end := h.ModelOffset + h.ModelSize
	by := int64(0)
	if grown > 0 {
		by, _ = align.Up(grown, min(max(h.TensorOffset&-h.TensorOffset, 64), 4096))
		h.TensorOffset += by
	}
	h.ModelSize = o.size
	l := &layout{size: r.size + by}
	l.add(0, h.piece())
	l.add(0, o.Section(headerSize, h.ModelOffset-headerSize, headerSize)...)
	l.add(h.ModelOffset, o.model()...)
	l.add(0, o.Section(end, r.size-end, end+by)...)
	return l
}

// realign gives the tensors new offsets, in the order that they have. Constants
// that share bytes still do.
func (o *overlay) realign(alignment int64) (*layout, error) {
	m := o.e.r.model
	var ranges []fileRange
	offsetOf := func(c Constant, off int64) {
		field := fb.FieldPos(c.raw().Table(), rtenfb.SlotConstantNodeDataOffset)
		o.patches[field] = binary.LittleEndian.AppendUint64(nil, uint64(off))
	}
	for i := range m.constants {
		switch c := m.Constant(i); {
		case c.inline:
		case c.size() > 0:
			ranges = append(ranges, c.bytes(i))
		default:
			offsetOf(c, 0)
		}
	}
	sortRanges(ranges)
	var external []format.Section
	// What overlaps goes together: from from to to, now from at.
	var from, to, at int64
	for _, x := range ranges {
		if x.off >= to {
			var ok bool
			if at, ok = align.Up(at+to-from, alignment); !ok {
				return nil, errorf(tensor.ErrLimit, "more than 2^63 bytes")
			}
			from, to = x.off, x.off
		}
		offsetOf(m.Constant(x.constant), at+x.off-from)
		if x.end > to {
			external = append(external, o.Section(to, x.end-to, at+to-from)...)
			to = x.end
		}
	}
	return version2Layout(o.model(), o.size, external, at+to-from, alignment)
}

// overlapsPatched reports whether a patch would change more than it should. No writer
// makes a flatbuffer whose parts overlap, but nothing forbids it.
func (o *overlay) overlapsPatched() bool {
	if len(o.patches) == 0 {
		return false
	}
	m := o.e.r.model
	words := make(map[int]bool, len(o.patches))
	for pos, b := range o.patches {
		for i := 0; i < len(b); i += 4 {
			words[(pos+i)/4] = true
		}
	}
	found := words[0]
	fb.EachTable(m.buf, &rtenfb.Schema, rtenfb.TableModel, func(v *fb.Visit) bool {
		v.Parts(func(pos, n int, f *fb.Field) {
			if f != nil && patchable(v.Type, f) {
				return
			}
			// Of a long part its words are looked up, or all patches if those are fewer.
			if n/4 <= len(words) {
				for w := pos / 4; n > 0 && w <= (pos+n-1)/4; w++ {
					found = found || words[w]
				}
				return
			}
			for w := range words {
				found = found || w >= pos/4 && w <= (pos+n-1)/4
			}
		})
		return !found
	})
	return found
}

// patchable reports whether the stored offset or scalar of a field is one that is
// patched.
func patchable(t *fb.Table, f *fb.Field) bool {
	switch t.Name {
	case "Model":
		return f.Slot == rtenfb.SlotModelMetadata
	case "Node":
		return f.Slot == rtenfb.SlotNodeName
	case "ConstantNode":
		return f.Slot == rtenfb.SlotConstantNodeDataOffset
	}
	return false
}
