package v1

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// A Layout writes 1.0, 1.1 and 1.2.
type Layout struct {
	version   string
	generator string

	entries []entry
	others  cbor.Builder // of the old edition's manifest that this library does not know

	scratch []byte

	level   int
	encoder *zstd.Encoder // of streams
	frames  *zstd.Encoder // of what is in memory
}

// NewLayout returns the layout of o.Version.
func NewLayout(o core.Settings) (*Layout, error) {
	l := &Layout{version: o.Version, level: o.Level, generator: cmp.Or(o.Generator, "tensorfile")}
	if l.level > 0 {
		var err error
		if l.encoder, err = core.NewEncoder(l.level); err != nil {
			return nil, err
		}
		l.frames, err = core.NewEncoder(l.level, zstd.WithEncoderConcurrency(0))
		if err != nil {
			return nil, err
		}
	}
	if l.version == "1.2" {
		return l, nil
	}
	for _, name := range slices.Sorted(maps.Keys(o.Attributes)) {
		_, isText := o.Attributes[name].(string)
		if v, ok := o.Attributes[name].(interface{ Text() (string, bool) }); ok {
			_, isText = v.Text()
		}
		if !isText {
			return nil, fmt.Errorf(
				"ztensor: %w: attribute %s is not text, version %s has no other",
				errors.ErrUnsupported, naming.Quote(name), l.version)
		}
	}
	return l, nil
}

func (l *Layout) Magic() string { return core.Magic1 }

// AppendAttributes encodes a map, sorted by the bytes of its keys as upstream does.
func (l *Layout) AppendAttributes(attributes map[string]any, depth int) ([]byte, error) {
	return core.EncodeAttributes(attributes, strings.Compare,
		func(name string, value []byte) ([]byte, error) {
			c := cbor.Cursor{B: value, Deep: 64 - 3}
			c.Skip() // too deep, or text that is not UTF-8: no reader would take it
			return value, c.Err
		})
}

// CheckAttributes reports why a tensor cannot have attributes.
func (l *Layout) CheckAttributes(name string, encoded []byte) error {
	if l.version == "1.0" {
		return fmt.Errorf("ztensor: %w: attributes of a tensor in version 1.0",
			errors.ErrUnsupported)
	}
	return nil
}

func (l *Layout) Link(w *core.Writer, shard core.ShardID, _ []core.Object) error {
	return core.Unlinkable(shard, "version %s has no shards", l.version)
}

// dtypeWord returns the storage type of d as the layout spells it; "" if it has none.
func (l *Layout) dtypeWord(d tensor.DType) string {
	logical := core.LogicalOf(d, false)
	if logical.Name != "" && l.version != "1.2" {
		return ""
	}
	return core.StorageWord(logical.Storage, l.version != "1.0")
}

// CheckName refuses names that readers do not take unless their limits are raised: the
// format allows any text.
func (l *Layout) CheckName(name string) error {
	return format.CheckWritten(name, 0)
}

// Check requires a shape that readers take and dtypes that the version has. 1.0 has one
// for the tensor, which is that of a sparse tensor's values, and none for other parts.
func (l *Layout) Check(w *core.Writer, t *tensor.Tensor) error {
	known := func(what string, d tensor.DType) error {
		if l.dtypeWord(d) == "" {
			return fmt.Errorf("%w: %s of %v in version %s", tensor.ErrDType, what, d, l.version)
		}
		return nil
	}
	if err := format.CheckWritten("", len(t.Shape)); err != nil {
		return err
	}
	indexed := isSparse(t.Scheme)
	if t.Dense() || l.version == "1.0" && !indexed {
		if err := known("elements", t.DType); err != nil {
			return err
		}
	}
	for _, p := range t.Parts {
		if err := l.CheckName(p.Role); err != nil {
			return err
		}
		switch {
		case indexed && slices.Contains(core.IndexRoles, p.Role):
			// becomes uint64
		case indexed && p.Role == "values":
			if err := known("values", p.DType); err != nil {
				return err
			}
			if t.DType != tensor.Unknown && t.DType != p.DType {
				return core.Malformed("values of %v in a tensor of %v", p.DType, t.DType)
			}
		case l.version != "1.0":
			if err := known("part "+naming.Quote(p.Role), p.DType); err != nil {
				return err
			}
		case p.DType != tensor.Unknown && p.DType != t.DType:
			return core.Unsupported("version 1.0 cannot represent the dtype of part %s, %v",
				naming.Quote(p.Role), p.DType)
		}
	}
	return nil
}

// Carry takes over what an edition keeps of its original, under new names.
func (l *Layout) Carry(ctx context.Context, w *core.Writer, r *core.File,
	names map[string]string) error {
	others, err := w.Carry(ctx, r, names, alignment, offsetOf, func(name string, object []byte) {
		l.entries = append(l.entries, entry{name: name, head: cbor.Opened(object)})
	})
	for _, f := range others {
		switch f.Name {
		case "version", "generator", "attributes": // the Writer has them
		default:
			l.others.Add(f.Name, f.Value)
		}
	}
	return err
}

// offsetOf is the field that says where a component is.
func offsetOf(_ *core.Payload, at int64) cbor.Pair {
	return cbor.PairOf("offset", cbor.AppendHead(nil, cbor.Uint, uint64(at)))
}

// Extend copies the file.
func (c *container) Extend(name string, o core.Settings) (*core.Writer, error) {
	l, err := NewLayout(o)
	if err != nil {
		return nil, err
	}
	f, err := atomicfile.Create(name)
	if err != nil {
		return nil, err
	}
	w := core.NewFileWriter(f)
	w.Begin(l, o)
	all := map[string]string{}
	for _, t := range c.r.Tensors {
		all[t.Name] = t.Name
	}
	if err = l.Carry(context.Background(), w, c.r, all); err == nil {
		err = c.r.Close() // before the file is replaced: Windows requires it
	}
	if err != nil {
		w.Abort()
		return nil, err
	}
	return w, nil
}
