package v1

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// An entry is what the manifest says of a tensor, encoded.
type entry struct {
	name   string
	object []byte
}

// A described tensor has the keys of its map in the order in which upstream declares
// them, and so has a component.
type described struct {
	DType      string    `cbor:"dtype"`
	Shape      []int64   `cbor:"shape"`
	Format     string    `cbor:"format"`
	Components cbor.Item `cbor:"components"`
}

type component struct {
	Offset   int64  `cbor:"offset"`
	Length   int64  `cbor:"length"`
	Encoding string `cbor:"encoding,omitempty"`
	Digest   string `cbor:"digest,omitempty"`
}

// Enter notes a tensor whose components have been written, sorted by role.
func (l *Layout) Enter(t *tensor.Tensor, components []core.Piece) error {
	slices.SortFunc(components,
		func(a, b core.Piece) int { return strings.Compare(a.Role, b.Role) })
	d, all := t.DType, make([]cbor.Pair, len(components))
	for i, c := range components {
		if c.Role == "values" && d == tensor.Unknown {
			d = c.DType
		}
		x := component{Offset: c.Offset, Length: c.Length, Digest: c.Digest}
		if l.level > 0 {
			x.Encoding = "zstd"
		}
		b, err := cbor.MarshalFields(x)
		if err != nil {
			return err
		}
		all[i] = cbor.PairOf(c.Role, b)
	}
	b, err := cbor.MarshalFields(described{core.StorageWord(d, false),
		append([]int64{}, t.Shape...), cmp.Or(t.Scheme, "dense"),
		cbor.AppendPairs(nil, all, false)})
	l.entries = append(l.entries, entry{t.Name, b})
	return err
}

// Finish writes manifest and footer. The document requires the size of the manifest to
// be below that of the file less 16: without components that takes padding.
func (l *Layout) Finish(w *core.Writer) error {
	if w.Off < alignment {
		w.Pad(alignment)
	}
	attributes := w.Attributes
	if attributes == nil {
		attributes = cbor.AppendPairs(nil, nil, false)
	}
	root := []cbor.Pair{cbor.PairOf("version", cbor.AppendText(nil, "1.0")),
		cbor.PairOf("generator", cbor.AppendText(nil, l.generator)),
		cbor.PairOf("attributes", attributes)}
	slices.SortFunc(l.entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	list := make([]cbor.Pair, len(l.entries))
	for i, e := range l.entries {
		list[i] = cbor.PairOf(e.name, e.object)
	}
	root = append(append(root, l.others...),
		cbor.PairOf("tensors", cbor.AppendPairs(nil, list, false)))
	b := cbor.AppendPairs(nil, root, false)
	if len(b) > 1<<30 {
		return fmt.Errorf("ztensor: %w: a manifest of %d bytes, readers take 1 GiB",
			tensor.ErrLimit, len(b))
	}
	w.Write(b)
	return w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(b))))
}
