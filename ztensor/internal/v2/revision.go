package v2

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/bits"
	"slices"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
	"github.com/tensorfile/tensorfile/ztensor/internal/writer"
)

// AlignmentOf returns the largest power of two, up to CanonicalAlignment, of which the
// offsets of the file are multiples.
func AlignmentOf(r *core.File) int64 {
	all := uint64(r.ManifestAt) | CanonicalAlignment
	for _, b := range r.Payloads {
		if b.Shard == 0 {
			all |= uint64(b.Offset)
		}
	}
	return int64(1) << bits.TrailingZeros64(all)
}

// Editable fails if a new revision of the file cannot be written.
func (c *Container) Editable() error {
	if c.data {
		return core.Errs.New(errors.ErrUnsupported, "a revision of a file without a manifest")
	}
	return nil
}

// carryFields carries over the shards and unknown fields of a manifest.
func (w *Writer) carryFields(fields []cbor.Pair) {
	for _, f := range fields {
		switch f.Name {
		case "shards":
			in := cbor.NewStrict(f.Value, format.DefaultLimits())
			w.shards = in.Pairs()
		case "attributes": // the Writer has them
		default:
			w.others = append(w.others, f)
		}
	}
}

// Apply writes the file of an Edit of r. Data in shards stays there, and a tensor that
// replaces another gets its attributes.
func (w *Writer) Apply(ctx context.Context, r *core.File, e *format.Edit) error {
	return w.Writer.Apply(ctx, r, e, func(others []cbor.Pair,
		replaced map[string]*tensor.Tensor) {
		w.carryFields(others)
		for name, t := range replaced {
			if own := r.TensorAttributes[t]; own != nil {
				w.tensorAttributes[name] = own
			}
		}
	})
}

// blobOf returns the field blob of a part, which has its offset and length.
func blobOf(p *core.Payload, at int64) cbor.Pair {
	b, _ := cbor.Marshal([2]int64{at, p.Length}) // never fails for numbers
	return cbor.PairOf("blob", b)
}

// Continue returns a Writer that adds tensors after the end of the file of r, whose name
// is name.
func Continue(r *core.File, name string, o writer.Settings) (*Writer, error) {
	e, err := atomicfile.Extend(name)
	if err != nil {
		return nil, err
	}
	w := NewWriter(e, true, o)
	if err = w.continued(r, e, name); err != nil {
		w.Abort()
		return nil, err
	}
	return w, nil
}

func (w *Writer) continued(r *core.File, e *atomicfile.Extension, name string) error {
	if e.Start() != r.Size() {
		return core.Errs.New(tensor.ErrUnfinished, "%s has changed while it was opened",
			naming.Quote(name))
	}
	w.Out = writer.NewOut(&w.Output, r.Size())
	var err error
	others, e2 := writer.Objects(r, func(name string, object []byte) {
		if err == nil {
			err = format.Register(&w.Writer.Writer, name,
				writer.Item{Name: name, Object: object})
		}
	})
	if err == nil {
		err = e2
	}
	w.carryFields(others)
	known := map[int64]bool{}
	for _, b := range r.Payloads {
		if hasXXH3(b) && b.Shard == 0 && b.Length > 0 && !b.Encoded() && !known[b.Offset] {
			known[b.Offset] = true
			w.addShareable(&writer.Part{Digest: b.Digest, Size: b.DecodedSize, Offset: b.Offset,
				Data: b.Blob()})
		}
	}
	return err
}

// Link adds tensors of another file, whose data stays there; see ztensor.Writer.
func (w *Writer) Link(shard core.ShardID, c *Container, names []string) error {
	objects, err := c.linked(shard, names)
	if err != nil {
		return err
	}
	if w.canonical {
		return unlinkable(shard, "canonical form has no shards")
	}
	for _, o := range objects {
		if err := format.Free(&w.Writer.Writer, o.Name); err != nil {
			return err
		}
	}
	if err := w.addShard(shard); err != nil {
		return err
	}
	for _, o := range objects {
		if err := format.Register(&w.Writer.Writer, o.Name, o); err != nil {
			return err
		}
	}
	return nil
}

// addShard adds a shard, unless the Writer has it.
func (w *Writer) addShard(s core.ShardID) error {
	value, err := cbor.MarshalFields(struct {
		Size   int64  `cbor:"size"`
		Digest string `cbor:"digest"`
	}{s.Size, s.Digest})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(w.shards, func(old cbor.Pair) bool { return old.Name == s.Name })
	switch {
	case i < 0:
		w.shards = append(w.shards, cbor.PairOf(s.Name, value))
	case !bytes.Equal(w.shards[i].Value, value):
		return core.Errs.New(tensor.ErrDuplicate, "another shard %s", naming.Quote(s.Name))
	}
	return nil
}

// unlinkable returns the error of a shard that cannot be linked.
func unlinkable(shard core.ShardID, text string, args ...any) error {
	return core.Errs.At(-1, "shards["+naming.Quote(shard.Name)+"]", errors.ErrUnsupported, text,
		args...)
}

// LastRevision returns the offset at which the last complete revision in f ends; 0 if
// there is none.
func LastRevision(f io.ReaderAt, size int64) (int64, error) {
	const (
		step     = 1 << 20
		maxTries = 100 // magic numbers that do not end a revision
	)
	tried := 0
	buf := make([]byte, step+footerSize)
	for to := size; to >= MinSize; to -= step {
		from := max(0, to-step-footerSize)
		p := buf[:to-from]
		if _, err := f.ReadAt(p, from); err != nil && err != io.EOF {
			return 0, err
		}
		magic := []byte(Magic2)
		i := bytes.LastIndex(p, magic)
		for ; i >= 0; i = bytes.LastIndex(p[:i+len(magic)-1], magic) {
			end := from + int64(i+len(magic))
			if end < MinSize {
				break
			}
			if ok, err := isRevision(f, end); ok || err != nil {
				return end, err
			}
			if tried++; tried == maxTries {
				return 0, nil
			}
		}
	}
	return 0, nil
}

// isRevision reports whether the first size bytes of f are a file with a manifest.
func isRevision(f io.ReaderAt, size int64) (bool, error) {
	in, err := format.NewInput(f, size, nil)
	if err != nil {
		return false, err
	}
	r := &core.File{Input: in}
	err = openShard(r)
	var broken *rule.Error
	if errors.As(err, &broken) || errors.Is(err, tensor.ErrLimit) {
		return false, nil
	}
	return r.ManifestSize > 0, err
}
