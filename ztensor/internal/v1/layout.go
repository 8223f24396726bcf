package v1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sort"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

func (l *Layout) Create(w *core.Writer, t *tensor.Tensor, size int64) (io.WriteCloser, error) {
	w.Names[t.Name] = true
	z, err := l.encoding(w)
	if err != nil {
		return nil, w.Fail(err)
	}
	c := payload{written: written{role: "data", dtype: t.DType, size: size}}
	s, err := l.start(w, &c.written)
	if err != nil {
		return nil, err
	}
	w.Part = &core.Part{W: w, T: t, Want: size, Feed: core.Feed{Out: s, Zstd: z, Dtype: t.DType}, Finish: func() error {
		c.fill(s)
		l.enter(t, []payload{c})
		return nil
	}}
	w.Part.Feed.Begin(size)
	return w.Part, nil
}

// Layout writes 1.0, 1.1 and 1.2.
type Layout struct {
	Version   string
	generator string

	entries    []entry
	manifest   []byte // of the entries, encoded
	others     []byte // keys of the old edition's manifest that this library does not know, with values
	otherCount uint64

	encoder *core.Encoder // of streams
	frames  *zstd.Encoder // of what is in memory
}

func NewLayout(o core.Settings) (*Layout, error) {
	l := &Layout{Version: o.Version, generator: o.Generator}
	if l.generator == "" {
		l.generator = "tensorfile"
	}
	if l.Version != "1.2" {
		for name, v := range o.Attributes {
			if _, ok := v.(string); ok {
				continue
			}
			if v, ok := v.(interface{ Text() (string, bool) }); ok {
				if _, ok := v.Text(); ok {
					continue
				}
			}
			return nil, fmt.Errorf("ztensor: %w: attribute %s is not text, version %s has no other", errors.ErrUnsupported, quote.Name(name), l.Version)
		}
	}
	return l, nil
}

func (l *Layout) Magic() string { return core.Magic1 }

func (l *Layout) Add(ctx context.Context, w *core.Writer, t *tensor.Tensor) error {
	return l.addTensors(ctx, w, tensor.Of(t), false)
}

func (l *Layout) AddAll(ctx context.Context, w *core.Writer, ts iter.Seq2[*tensor.Tensor, error]) error {
	return l.addTensors(ctx, w, ts, true)
}

func (l *Layout) AppendAttributes(attributes map[string]any, depth int) ([]byte, error) {
	return appendAttributes(nil, attributes)
}

func (l *Layout) CheckAttributes(name string, encoded []byte) error {
	if l.Version == "1.0" {
		return fmt.Errorf("ztensor: %w: attributes of a tensor in version 1.0", errors.ErrUnsupported)
	}
	return nil
}

func (l *Layout) Link(w *core.Writer, shard core.ShardID, _ []core.Object) error {
	return core.Unlinkable(shard, "version %s has no shards", l.Version)
}

// Check wants types that the layout has. 1.0 names one type for the tensor,
// which is that of a sparse tensor's values, and has no place for those of
// other parts.
func (l *Layout) Check(w *core.Writer, t *tensor.Tensor) error {
	known := func(what string, d tensor.DType) error {
		if l.DtypeWord(d) == "" {
			return fmt.Errorf("%w: %s of %v in version %s", errors.ErrUnsupported, what, d, l.Version)
		}
		return nil
	}
	indexed := t.Scheme == sparse.CSR || t.Scheme == sparse.COO
	if t.Dense() || l.Version == "1.0" && !indexed {
		if err := known("elements", t.DType); err != nil {
			return err
		}
	}
	for _, p := range t.Parts {
		switch {
		case indexed && slices.Contains(core.IndexRoles, p.Role):
			// becomes uint64
		case indexed && p.Role == "values":
			if err := known("values", p.DType); err != nil {
				return err
			}
			if t.DType != tensor.Unknown && t.DType != p.DType {
				return fmt.Errorf("%w: values of %v in a tensor of %v", tensor.ErrMalformed, p.DType, t.DType)
			}
		case l.Version != "1.0":
			if err := known("part "+quote.Name(p.Role), p.DType); err != nil {
				return err
			}
		case p.DType != tensor.Unknown && p.DType != t.DType:
			return fmt.Errorf("%w: version 1.0 has no place for the type of part %s, %v", errors.ErrUnsupported, quote.Name(p.Role), p.DType)
		}
	}
	return nil
}

// DtypeWord is the storage type of d as the layout spells it; "" where it has
// none.
func (l *Layout) DtypeWord(d tensor.DType) string {
	logical := core.LogicalOf(d, false)
	if logical.Name != "" && l.Version != "1.2" {
		return ""
	}
	return core.StorageWord(logical.Storage, l.Version != "1.0")
}

// appendEntry writes the keys in the order in which upstream declares them, and
// the components sorted by role.
func (l *Layout) appendEntry(b []byte, t *tensor.Tensor, components []written) (out []byte, split int) {
	scheme := t.Scheme
	if t.Dense() {
		scheme = "dense"
	}
	if l.Version == "1.0" {
		d := t.DType
		for _, c := range components {
			if c.role == "values" && d == tensor.Unknown {
				d = c.dtype
			}
		}
		b = cbor.AppendText(cbor.AppendText(b, "dtype"), l.DtypeWord(d))
	}
	b = cbor.AppendHead(cbor.AppendText(b, "shape"), cbor.Array, uint64(len(t.Shape)))
	for _, d := range t.Shape {
		b = cbor.AppendHead(b, cbor.Uint, uint64(d))
	}
	b = cbor.AppendText(cbor.AppendText(b, "format"), scheme)
	split = len(b)
	b = cbor.AppendHead(cbor.AppendText(b, "components"), cbor.Map, uint64(len(components)))
	slices.SortFunc(components, func(x, y written) int { return strings.Compare(x.role, y.role) })
	for _, c := range components {
		b = l.appendComponent(cbor.AppendText(b, c.role), c)
	}
	return b, split
}

func (l *Layout) appendComponent(b []byte, c written) []byte {
	logical := core.LogicalOf(c.dtype, false).Name
	if l.Version == "1.0" {
		logical = ""
	}
	keys := uint64(2)
	for _, more := range []bool{l.Version != "1.0", logical != "", c.zstd, c.zstd && l.Version == "1.2", c.digest != ""} {
		if more {
			keys++
		}
	}
	b = cbor.AppendHead(b, cbor.Map, keys)
	if l.Version != "1.0" {
		b = cbor.AppendText(cbor.AppendText(b, "dtype"), l.DtypeWord(c.dtype))
	}
	if logical != "" {
		b = cbor.AppendText(cbor.AppendText(b, "type"), logical)
	}
	b = cbor.AppendHead(cbor.AppendText(b, "offset"), cbor.Uint, uint64(c.offset))
	b = cbor.AppendHead(cbor.AppendText(b, "length"), cbor.Uint, uint64(c.length))
	if c.zstd && l.Version == "1.2" {
		b = cbor.AppendHead(cbor.AppendText(b, "uncompressed_length"), cbor.Uint, uint64(c.size))
	}
	if c.zstd {
		b = cbor.AppendText(cbor.AppendText(b, "encoding"), "zstd")
	}
	if c.digest != "" {
		b = cbor.AppendText(cbor.AppendText(b, "digest"), c.digest)
	}
	return b
}

// Finish writes manifest and footer. The document wants the size of a 1.0
// manifest below that of the file less 16, which a file without any component
// reaches only by padding.
func (l *Layout) Finish(w *core.Writer) error {
	if l.Version == "1.0" && w.Off < alignment {
		w.Pad(alignment)
	}
	keys := uint64(3)
	if l.Version != "1.0" && w.Attributes == nil {
		keys--
	}
	if l.Version == "1.0" {
		keys++ // the generator
	}
	b := cbor.AppendHead(nil, cbor.Map, keys+l.otherCount)
	b = cbor.AppendText(b, "version")
	switch l.Version {
	case "1.0":
		b = cbor.AppendText(b, "1.0")
		b = cbor.AppendText(cbor.AppendText(b, "generator"), l.generator)
	default:
		b = cbor.AppendText(b, l.Version+".0")
	}
	switch {
	case w.Attributes != nil:
		b = append(cbor.AppendText(b, "attributes"), w.Attributes...)
	case l.Version == "1.0":
		b = cbor.AppendHead(cbor.AppendText(b, "attributes"), cbor.Map, 0)
	}
	b = append(b, l.others...)
	list, pairs := "objects", uint64(3)
	if l.Version == "1.0" {
		list, pairs = "tensors", 4
	}
	b = cbor.AppendHead(cbor.AppendText(b, list), cbor.Map, uint64(len(l.entries)))
	sort.Slice(l.entries, func(i, j int) bool { return l.entries[i].name < l.entries[j].name })
	size := int64(len(b))
	for _, e := range l.entries {
		size += int64(len(e.name)+9+1+e.to-e.from+len(w.Own[e.name])) + 12
	}
	if size > 1<<30 {
		return fmt.Errorf("ztensor: %w: a manifest of some %d bytes, readers take 1 GiB", tensor.ErrLimit, size)
	}
	start := w.Off
	for _, e := range l.entries {
		b = cbor.AppendText(b, e.name)
		own := w.Own[e.name]
		if e.split < 0 {
			b = append(b, l.manifest[e.from:e.to]...)
		} else if own != nil {
			b = cbor.AppendHead(b, cbor.Map, pairs+1)
			b = append(b, l.manifest[e.from:e.split]...)
			b = append(cbor.AppendText(b, "attributes"), own...)
			b = append(b, l.manifest[e.split:e.to]...)
		} else {
			b = append(cbor.AppendHead(b, cbor.Map, pairs), l.manifest[e.from:e.to]...)
		}
		if len(b) >= 1<<18 {
			w.Write(b)
			b = b[:0]
		}
	}
	w.Write(b)
	return w.Write(appendFooter(w.Off-start, l.Version != "1.0"))
}
