package torch

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// The magic number of a legacy stream, 0x1950a86a20f9469cfc6c, as the pickles of protocol
// 2 and of protocol 0 have it, and its version.
const (
	legacyMagic   = bigInt("0x1950a86a20f9469cfc6c")
	legacyDecimal = bigInt("119547037146038801333356")
	legacyVersion = 1001
)

// isLegacy reports whether a file that begins with head is a legacy stream.
func isLegacy(head string) bool {
	if head == "" || head[0] != 0x80 && head[0] != 'L' {
		return false
	}
	m := newMachine(head[:min(len(head), 64)], 64, &memory{memoryBase})
	m.persistent = func(any) (any, error) { return nil, tensor.ErrMalformed }
	v, err := m.run()
	return err == nil && (v == legacyMagic || v == legacyDecimal)
}

// openLegacy reads the five pickles of doc.go, and then for each key the number of
// elements of its storage. It reads a larger part of the file until the pickles are
// whole.
func (c *checkpoint) openLegacy() error {
	limit := min(c.limits.MaxMetadata, maxPickle)
	for window := int64(64 << 10); ; window *= 8 {
		n := min(window, c.size, limit)
		head, err := c.src.Metadata(c.at, n)
		if err != nil {
			return errs.Wrap(c.at, "", err)
		}
		err = c.runLegacy(string(head))
		if errors.Is(err, errShort) && n < c.size {
			if n == limit {
				return errs.At(c.at+n, "pickle", tensor.ErrLimit, "more than %d bytes", n)
			}
			continue
		}
		return err
	}
}

// runLegacy executes the pickles at the beginning of head.
func (c *checkpoint) runLegacy(head string) error {
	c.version, c.globals, c.notes = "legacy", nil, format.Warnings{Format: formatName}
	c.storages = storages{views: true,
		warn: func(text string) { c.warn(-1, "stream", "%s", text) }}
	c.steps, c.memory.left = 0, memoryBase
	p := c.newPickle("stream", head, c.at, int64(len(head)))
	var v [5]any
	for i := range v {
		var err error
		if v[i], err = p.value(); err != nil {
			return err
		}
		switch {
		case i == 0 && v[0] != legacyMagic && v[0] != legacyDecimal:
			return errs.At(c.at, "magic number", tensor.ErrMalformed,
				"not the magic number of a legacy stream")
		case i == 1 && v[1] != int64(legacyVersion):
			return errs.At(p.fileOffset(p.at), "protocol version", errors.ErrUnsupported,
				"not %d", legacyVersion)
		}
	}
	if _, ok := v[2].(*dict); !ok {
		return errs.At(-1, "system information", tensor.ErrMalformed, "not a dict")
	}
	keys, ok := itemsOf(v[4])
	if !ok {
		return errs.At(p.fileOffset(p.at), "storage keys", tensor.ErrMalformed, "not a list")
	}
	c.root = v[3]
	return c.findLegacy(keys, c.at+int64(p.pos))
}

// findLegacy finds the storages, which begin at off, in the order of keys.
func (c *checkpoint) findLegacy(keys []any, off int64) error {
	found := map[string]bool{}
	end := c.at + c.size
	for _, k := range keys {
		key, ok := textOf(k)
		p := c.storages.byKey[key]
		field := "storage " + naming.Quote(key)
		switch {
		case !ok || p == nil:
			return errs.At(off, field, tensor.ErrMalformed,
				"a key that the pickle does not name")
		case found[key]:
			return errs.At(off, field, tensor.ErrMalformed, "a key that is listed twice")
		}
		found[key] = true
		var count [8]byte
		if end-off < int64(len(count)) {
			return errs.At(off, field, io.ErrUnexpectedEOF, "no number of elements")
		}
		if _, err := c.src.ReadAt(count[:], off); err != nil {
			return errs.Wrap(off, field, err)
		}
		if n := int64(binary.LittleEndian.Uint64(count[:])); n != p.count {
			return errs.At(off, field, tensor.ErrMalformed,
				"%d elements, where the pickle has %d", n, p.count)
		}
		off += int64(len(count))
		if p.size > end-off {
			return errs.At(off, field, io.ErrUnexpectedEOF, "%d bytes, the file has %d",
				p.size, end-off)
		}
		p.src, p.at, p.stored = c.src, off, p.size
		off += p.size
	}
	for _, p := range c.storages.order {
		if !found[p.key] {
			return errs.At(-1, "storage "+naming.Quote(p.key), tensor.ErrMalformed,
				"it is not in the list of keys")
		}
	}
	c.end = off
	if off < end {
		c.warn(off, "stream", "%d bytes after the last storage", end-off)
	}
	return nil
}
