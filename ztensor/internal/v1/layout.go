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

// A Layout writes 1.0.
type Layout struct {
	generator string

	entries []entry
	others  []cbor.Pair // of the old edition's manifest that this library does not know

	level   int
	encoder *zstd.Encoder // of streams
	frames  *zstd.Encoder // of what is in memory
}

func NewLayout(o core.Settings) (*Layout, error) {
	l := &Layout{level: o.Level, generator: cmp.Or(o.Generator, "tensorfile")}
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
	for _, name := range slices.Sorted(maps.Keys(o.Attributes)) {
		_, isText := o.Attributes[name].(string)
		if v, ok := o.Attributes[name].(interface{ Text() (string, bool) }); ok {
			_, isText = v.Text()
		}
		if !isText {
			return nil, fmt.Errorf(
				"ztensor: %w: attribute %s is not text, version 1.0 has no other",
				errors.ErrUnsupported, naming.Quote(name))
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
	return fmt.Errorf("ztensor: %w: attributes of a tensor in version 1.0", errors.ErrUnsupported)
}

func (l *Layout) Link(w *core.Writer, shard core.ShardID, _ []core.Object) error {
	return core.Unlinkable(shard, "version 1.0 has no shards")
}

// CheckName refuses names that readers do not take unless their limits are raised: the
// format allows any text.
func (l *Layout) CheckName(name string) error {
	return format.CheckWritten(name, 0)
}

// Check requires a shape that readers take and a dtype that 1.0 has: one for the tensor,
// which is that of a sparse tensor's values, and none for other parts.
func (l *Layout) Check(w *core.Writer, t *tensor.Tensor) error {
	known := func(what string, d tensor.DType) error {
		if core.StorageWord(d, false) == "" {
			return core.Unsupported("%s of %v in version 1.0", what, d)
		}
		return nil
	}
	if err := format.CheckWritten("", len(t.Shape)); err != nil {
		return err
	}
	indexed := isSparse(t.Scheme)
	if !indexed {
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
		l.entries = append(l.entries, entry{name: name, object: object})
	})
	for _, f := range others {
		switch f.Name {
		case "version", "generator", "attributes": // the Writer has them
		default:
			l.others = append(l.others, f)
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
