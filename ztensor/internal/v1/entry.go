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

// An entry is a tensor of the manifest that is being collected.
type entry struct {
	name            string
	from, split, to int // in Layout.manifest; attributes go to split, which is -1 for a whole map
}

// Enter notes a tensor whose components have been written, with the keys in the order
// in which upstream declares them, and the components sorted by role.
func (l *Layout) Enter(t *tensor.Tensor, components []core.Piece) {
	sort.Slice(components, func(i, j int) bool { return components[i].Role < components[j].Role })
	e := entry{name: t.Name, from: len(l.manifest)}
	p := cbor.Builder{B: l.manifest}
	if l.version == "1.0" {
		d := t.DType
		for _, c := range components {
			if c.Role == "values" && d == tensor.Unknown {
				d = c.DType
			}
		}
		p.Text("dtype", l.dtypeWord(d))
	}
	p.Shape(t.Shape)
	p.Text("format", cmp.Or(t.Scheme, "dense"))
	e.split = len(p.B)
	p.Head("components", cbor.Map, uint64(len(components)))
	for i := range components {
		p.B = l.appendComponent(cbor.AppendText(p.B, components[i].Role), &components[i])
	}
	l.manifest, e.to = p.B, len(p.B)
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

// Finish writes manifest and footer. The document requires the size of a 1.0 manifest
// to be below that of the file less 16, which a file without any component reaches only
// by padding.
func (l *Layout) Finish(w *core.Writer) error {
	old := l.version == "1.0"
	if old && w.Off < alignment {
		w.Pad(alignment)
	}
	var root cbor.Builder
	list, keys := "objects", uint64(3) // of an entry without attributes
	if old {
		list, keys = "tensors", 4
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
	b := root.AppendTo(nil)
	sort.Slice(l.entries, func(i, j int) bool { return l.entries[i].name < l.entries[j].name })
	size := len(b) + len(l.manifest) // within 22 bytes a tensor
	for _, e := range l.entries {
		size += len(e.name) + len(w.Own[e.name]) + 22
	}
	if size > 1<<30 {
		return fmt.Errorf("ztensor: %w: a manifest of some %d bytes, readers take 1 GiB",
			tensor.ErrLimit, size)
	}
	start := w.Off
	for _, e := range l.entries {
		b = cbor.AppendText(b, e.name)
		switch own := w.Own[e.name]; {
		case e.split < 0:
			b = append(b, l.manifest[e.from:e.to]...)
		case own != nil:
			b = append(cbor.AppendHead(b, cbor.Map, keys+1), l.manifest[e.from:e.split]...)
			b = append(cbor.AppendText(b, "attributes"), own...)
			b = append(b, l.manifest[e.split:e.to]...)
		default:
			b = append(cbor.AppendHead(b, cbor.Map, keys), l.manifest[e.from:e.to]...)
		}
		if len(b) >= 1<<18 {
			w.Write(b)
			b = b[:0]
		}
	}
	w.Write(b)
	footer := binary.LittleEndian.AppendUint64(nil, uint64(w.Off-start))
	if !old {
		footer = append(footer, core.Magic1...)
	}
	return w.Write(footer)
}
