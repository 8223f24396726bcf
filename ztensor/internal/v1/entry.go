package v1

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"sort"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// An entry is what the manifest says of a tensor: the fields before its attributes, and
// those after them.
type entry struct {
	name       string
	head, tail cbor.Builder
}

// Enter notes a tensor whose components have been written, with the keys in the order
// in which upstream declares them, and the components sorted by role.
func (l *Layout) Enter(t *tensor.Tensor, components []core.Piece) {
	sort.Slice(components, func(i, j int) bool { return components[i].Role < components[j].Role })
	e := entry{name: t.Name}
	if l.version == "1.0" {
		d := t.DType
		for _, c := range components {
			if c.Role == "values" && d == tensor.Unknown {
				d = c.DType
			}
		}
		e.head.Text("dtype", l.dtypeWord(d))
	}
	e.head.Shape(t.Shape)
	e.head.Text("format", cmp.Or(t.Scheme, "dense"))
	e.tail.Head("components", cbor.Map, uint64(len(components)))
	for i := range components {
		e.tail.B = l.appendComponent(cbor.AppendText(e.tail.B, components[i].Role), &components[i])
	}
	l.entries = append(l.entries, e)
}

func (l *Layout) appendComponent(b []byte, c *core.Piece) []byte {
	p := cbor.Builder{B: l.scratch[:0]}
	if l.version != "1.0" {
		p.Text("dtype", l.dtypeWord(c.DType))
		if logical := core.LogicalOf(c.DType, false).Name; logical != "" {
			p.Text("type", logical)
		}
	}
	p.Head("offset", cbor.Uint, uint64(c.Offset))
	p.Head("length", cbor.Uint, uint64(c.Length))
	if l.level > 0 && l.version == "1.2" {
		p.Head("uncompressed_length", cbor.Uint, uint64(c.Size))
	}
	if l.level > 0 {
		p.Text("encoding", "zstd")
	}
	if c.Digest != "" {
		p.Text("digest", c.Digest)
	}
	l.scratch = p.B
	return p.AppendTo(b)
}

// Finish writes manifest and footer. The document requires the size of a 1.0 manifest to
// be below that of the file less 16: without components that takes padding.
func (l *Layout) Finish(w *core.Writer) error {
	old := l.version == "1.0"
	if old && w.Off < alignment {
		w.Pad(alignment)
	}
	var root cbor.Builder
	list := "objects"
	if old {
		list = "tensors"
		root.Text("version", "1.0")
		root.Text("generator", l.generator)
	} else {
		root.Text("version", l.version+".0")
	}
	if w.Attributes != nil {
		root.Add("attributes", w.Attributes)
	} else if old {
		root.Head("attributes", cbor.Map, 0)
	}
	root.B, root.N = append(root.B, l.others.B...), root.N+l.others.N
	root.Head(list, cbor.Map, uint64(len(l.entries)))
	sort.Slice(l.entries, func(i, j int) bool { return l.entries[i].name < l.entries[j].name })
	for _, e := range l.entries {
		if own := w.Own[e.name]; own != nil {
			e.head.Add("attributes", own)
		}
		e.head.N += e.tail.N
		root.B = append(e.head.AppendTo(cbor.AppendText(root.B, e.name)), e.tail.B...)
	}
	b := root.AppendTo(nil)
	if len(b) > 1<<30 {
		return fmt.Errorf("ztensor: %w: a manifest of %d bytes, readers take 1 GiB",
			tensor.ErrLimit, len(b))
	}
	w.Write(b)
	footer := binary.LittleEndian.AppendUint64(nil, uint64(len(b)))
	if !old {
		footer = append(footer, core.Magic1...)
	}
	return w.Write(footer)
}
