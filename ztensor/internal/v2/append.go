package v2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// AlignmentOf is the alignment to which the file keeps, as far as that shows.
func AlignmentOf(r *core.File) int64 {
	all := uint64(r.ManifestAt) | CanonicalAlignment
	for _, b := range r.Payloads {
		if b.Shard == 0 {
			all |= uint64(b.Offset)
		}
	}
	return int64(1) << bits.TrailingZeros64(all)
}

// takeOver takes over the other fields of a manifest that is continued.
func (l *Layout) takeOver(fields []cbor.Pair) {
	for _, f := range fields {
		switch f.Name {
		case "shards":
			in := cbor.NewStrict(f.Value, format.DefaultLimits())
			l.shards = in.Pairs()
		case "attributes": // the Writer has them
		default:
			l.others = append(l.others, f)
		}
	}
}

// LastEdition returns where the last complete edition within f ends, 0 where
// there is none.
func LastEdition(f io.ReaderAt, size int64) (int64, error) {
	const (
		step = 1 << 20
		most = 100 // of what looks like a footer and is none
	)
	tried := 0
	buf := make([]byte, step+FooterSize)
	for to := size; to >= MinSize; to -= step {
		from := max(0, to-step-FooterSize)
		p := buf[:to-from]
		if _, err := f.ReadAt(p, from); err != nil && err != io.EOF {
			return 0, err
		}
		magic := []byte(core.Magic2)
		i := bytes.LastIndex(p, magic)
		for ; i >= 0; i = bytes.LastIndex(p[:i+len(magic)-1], magic) {
			end := from + int64(i+len(magic))
			if end < MinSize {
				break
			}
			if ok, err := isEdition(f, end); ok || err != nil {
				return end, err
			}
			if tried++; tried == most {
				return 0, nil
			}
		}
	}
	return 0, nil
}

// isEdition reports whether the first size bytes of f are a file with a manifest.
func isEdition(f io.ReaderAt, size int64) (bool, error) {
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

// Carry leaves what is in shards there.
func (l *Layout) Carry(ctx context.Context, w *core.Writer, r *core.File,
	names map[string]string) error {
	others, err := w.Carry(ctx, r, names, l.align, blobOf, l.adopt)
	l.takeOver(others)
	return err
}

// blobOf is the field that says where a part is.
func blobOf(p *core.Payload, at int64) cbor.Pair {
	return cbor.PairOf("blob", appendBlob(nil, at, p.Length))
}

func appendBlob(b []byte, at, n int64) []byte {
	b = cbor.AppendHead(cbor.AppendHead(b, cbor.Array, 2), cbor.Uint, uint64(at))
	return cbor.AppendHead(b, cbor.Uint, uint64(n))
}

func (c *Container) Edition(o *core.Settings) error {
	if c.data {
		return fmt.Errorf("ztensor: %w: an edition of a file without a manifest",
			errors.ErrUnsupported)
	}
	if o.Alignment == 0 {
		o.Alignment = AlignmentOf(c.r)
	}
	o.Canonical = false // which has no second edition
	return nil
}

// Extend adds after the end of the file.
func (c *Container) Extend(name string, o core.Settings) (*core.Writer, error) {
	r := c.r
	l, err := NewLayout(o)
	if err != nil {
		return nil, err
	}
	w := &core.Writer{Old: r}
	if w.Prepare(l, o); w.Err != nil {
		return nil, w.Err
	}
	others, err := r.Objects(func(name string, object []byte) {
		l.adopt(name, object)
		w.Names[name], w.Kept[name] = true, true
	})
	if err != nil {
		return nil, err
	}
	l.takeOver(others)
	known := map[int64]bool{}
	for _, b := range r.Payloads {
		if b.HasXXH3() && b.Shard == 0 && b.Length > 0 && !b.Encoded() && !known[b.Offset] {
			known[b.Offset] = true
			l.keep(&core.Piece{Digest: b.Digest, Size: b.DecodedSize, Offset: b.Offset,
				Data: tensor.NewBlob(b)})
		}
	}
	e, err := atomicfile.Extend(name)
	if err != nil {
		return nil, err
	}
	if e.Start() != r.Size() {
		e.Abort()
		return nil, fmt.Errorf("ztensor: %s has changed while it was opened", naming.Quote(name))
	}
	w.W, w.File, w.Off = e, e, r.Size()
	return w, nil
}
