package ztensor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// manifestFields takes the manifest apart without understanding it: what this
// library does not know survives.
func (r *Reader) manifestFields() ([]cbor.Pair, error) {
	b, err := r.src.Metadata(r.manifestAt, r.manifestSize)
	if err != nil {
		return nil, r.placed(r.manifestAt, "manifest", err)
	}
	c := cbor.NewStrict(b, r.limits)
	all := c.Pairs()
	if c.Err != nil { // the file has changed since it was opened
		return nil, r.placed(r.manifestAt, "manifest", c.Err)
	}
	return all, nil
}

// append2 continues a file of version 2 that has size bytes.
func append2(name string, size int64, o WriterOptions) (_ *Writer, err error) {
	r, err := Open(name, &ReaderOptions{NoMap: true})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if r.two == nil || r.two.data {
		return nil, fmt.Errorf("ztensor: %w: appending to a file without a manifest", errors.ErrUnsupported)
	}
	if o.Alignment == 0 {
		o.Alignment = r.alignment2()
	}
	o.Canonical = false // which has no second edition
	if len(o.Attributes) > 0 {
		all := map[string]any{}
		for k, v := range r.AttributeValues() {
			all[k] = v
		}
		for k, v := range o.Attributes {
			all[k] = v
		}
		o.Attributes = all
	}
	w := &Writer{old: r, flush: func() error { return nil }}
	if w.prepare(&o); w.err != nil {
		return nil, w.err
	}
	if w.attributes == nil {
		w.attributes = r.attributes
	}
	l := w.layout.(*layout2)
	if err := l.continues(w, r); err != nil {
		return nil, err
	}
	e, err := atomicfile.Extend(name)
	if err != nil {
		return nil, err
	}
	if e.Start() != size || r.Size() != size {
		e.Abort()
		return nil, fmt.Errorf("ztensor: %s has changed while it was opened", quote.Name(name))
	}
	w.w, w.file, w.off = e, e, size
	return w, nil
}

// alignment2 is the alignment to which the file keeps, as far as that shows.
func (r *Reader) alignment2() int64 {
	all := uint64(r.manifestAt)
	for b := range r.two.blobs.all() {
		if b.shard == 0 {
			all |= uint64(b.offset)
		}
	}
	return int64(1) << min(bits.TrailingZeros64(all), 16) // canonical2 at most
}

// continues takes over what the manifest of r says.
func (l *layout2) continues(w *Writer, r *Reader) error {
	fields, err := r.manifestFields()
	if err != nil {
		return err
	}
	for _, f := range fields {
		in := cbor.NewStrict(f.Value, r.limits)
		switch string(f.Key) {
		case "\x67objects":
			for _, o := range in.Pairs() {
				name := cbor.Cursor{B: o.Key}
				l.objects = append(l.objects, object2{name: string(name.Text()), whole: o.Value})
			}
		case "\x66shards":
			l.shards = in.Pairs()
		case "\x6aattributes": // the Writer has them
		default:
			l.others = append(l.others, f)
		}
	}
	for _, o := range l.objects {
		w.names[o.name] = true
		w.entries = append(w.entries, entry{name: o.name, split: -1})
	}
	known := map[int64]bool{}
	for b := range r.two.blobs.all() {
		if b.shard == 0 && b.length > 0 && b.hasHash && !b.encoded && !known[b.offset] {
			known[b.offset] = true
			l.keep(&payload2{hash: b.hash, size: b.size, offset: b.offset}, tensor.NewBlob(b))
		}
	}
	return nil
}

// Recover undoes an append to a file of version 2 that was interrupted: it cuts
// off what lies behind the last edition that is complete, and returns how many
// bytes that was. A file that can be opened it leaves as it is. It is an error if
// there is no complete edition.
func Recover(name string) (cut int64, err error) {
	r, err := Open(name, nil)
	if err == nil {
		return 0, r.Close()
	}
	var broken *rule.Error
	if !errors.As(err, &broken) || broken.Rule != rule.FooterMagic {
		return 0, err
	}
	f, e := os.OpenFile(name, os.O_RDWR, 0)
	if e != nil {
		return 0, e
	}
	defer f.Close()
	fi, e := f.Stat()
	if e != nil {
		return 0, e
	}
	size, e := lastEdition(f, fi.Size())
	if e != nil {
		return 0, e
	}
	if size == 0 {
		return 0, err
	}
	if err := f.Truncate(size); err != nil {
		return 0, err
	}
	return fi.Size() - size, f.Sync()
}

// lastEdition returns where the last complete edition within f ends, 0 where
// there is none.
func lastEdition(f io.ReaderAt, size int64) (int64, error) {
	const (
		step = 1 << 20
		most = 100 // of what looks like a footer and is none
	)
	tried := 0
	buf := make([]byte, step+footer2)
	for to := size; to >= least2; to -= step {
		from := max(0, to-step-footer2)
		p := buf[:to-from]
		if _, err := f.ReadAt(p, from); err != nil && err != io.EOF {
			return 0, err
		}
		for i := bytes.LastIndex(p, []byte(magic2)); i >= 0; i = bytes.LastIndex(p[:i+len(magic2)-1], []byte(magic2)) {
			end := from + int64(i+len(magic2))
			if end < least2 {
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

// isEdition reports whether the first size bytes of f are a file.
func isEdition(f io.ReaderAt, size int64) (bool, error) {
	var b [footer2]byte
	if _, err := f.ReadAt(b[:], size-footer2); err != nil && err != io.EOF {
		return false, err
	}
	at, n := binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])
	if n == 0 || at >= uint64(size) || n > uint64(size)-at || n > maxManifest2 {
		return false, nil // cheap to see; and a data shard has no editions
	}
	h := xxh3.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, int64(at), int64(n))); err != nil || h.Sum64() != binary.LittleEndian.Uint64(b[16:]) {
		return false, err
	}
	r, err := NewReader(f, size, nil)
	return err == nil && r.Version() == "2", nil
}
