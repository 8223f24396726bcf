package ztensor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
)

// A container1 is a file of 0.1, 1.0, 1.1 or 1.2.
type container1 struct{ r *file }

// open1 reads the index of a file that begins with that magic.
func open1(r *file, magic string) error {
	c := &container1{r}
	r.generation = c
	if magic == magic01 {
		return c.open01()
	}
	return c.open()
}

func (c *container1) stored() (n int64) {
	for x := range c.r.components.all() {
		n += x.length
	}
	return n
}

func (c *container1) elsewhere() int64             { return 0 }
func (c *container1) window() uint64               { return maxWindow }
func (c *container1) footer() int64                { return c.r.Size() - c.r.manifestAt - c.r.manifestSize }
func (c *container1) verifyForm(v *verifier) error { return nil }
func (c *container1) close() error                 { return nil }

func (c *container1) shards() iter.Seq[shardID] { return func(func(shardID) bool) {} }

func (c *container1) shard(int) (*source.Source, error) { return nil, c.lacks("shards") }
func (c *container1) shardName(int) string              { return "" }

// lacks is the error of what is in version 2 only.
func (c *container1) lacks(what string) error {
	return fmt.Errorf("ztensor: %w: %s of version %s", errors.ErrUnsupported, what, c.r.version)
}

func (c *container1) contentDigest(Digest) (string, error) { return "", c.lacks("a content digest") }

func (c *container1) canonicalViolations(context.Context) ([]error, error) {
	return nil, c.lacks("the canonical form")
}

func (c *container1) identity(context.Context, string, Digest) (shardID, error) {
	return shardID{}, c.lacks("identity as a shard")
}

func (c *container1) linked(shard shardID, _ []string) ([]object, error) {
	return nil, unlinkable(shard, "it has no manifest of version 2")
}

func (c *container1) edition(o *settings) error {
	if c.r.version == "0.1" {
		return c.lacks("an edition")
	}
	if o.Generator == "" {
		o.Generator = c.r.generator
	}
	return nil
}

// scan reads the index from the n bytes at off.
func (c *container1) scan(t tail, off, n int64) error {
	s := scan{r: c.r, x: &c.r.index, minor: -1}
	return c.r.readManifest(t, off, n, func(b []byte) error {
		s.Cursor = cbor.New(b, c.r.limits)
		if c.r.version == "0.1" {
			s.entries()
		} else {
			s.root()
		}
		s.finish()
		return s.done()
	})
}

// alignment is where the components of version 1 begin: at multiples of it, the
// first one behind the magic at 64.
const alignment = 64

// footer10 is how many bytes follow the manifest in 1.0: its size.
const footer10 = 8

// open reads the container of 1.0, 1.1 and 1.2. They begin alike; the last
// eight bytes are a second magic from 1.1 on, the size of the manifest in 1.0.
// They cannot be mistaken for each other: as a size, the magic is 3.4 exabytes.
func (c *container1) open() error {
	r := c.r
	t, err := r.readTail(16)
	if err != nil {
		return err
	}
	size, footer := r.src.Size(), int64(footer10)
	n := t.size()
	second := string(t.last(8)) == magic1
	if second {
		footer = 16
		n = binary.LittleEndian.Uint64(t.last(16))
	}
	at := size - footer
	switch {
	case n == 0:
		return r.bad(size-footer, "manifest_size", fmt.Errorf("%w: 0, and no manifest is empty", tensor.ErrMalformed))
	case second && n > uint64(max(0, size-24)):
		return r.bad(size-footer, "manifest_size", fmt.Errorf("%w: %d of a file of %d bytes", tensor.ErrMalformed, n, size))
	case n > uint64(size-16):
		return r.bad(size-footer, "manifest_size", fmt.Errorf("%w: the end is neither that of version 1.1 or 1.2, nor the size of a 1.0 manifest "+
			"that fits: %d of a file of %d bytes (a truncated file?)", tensor.ErrMalformed, n, size))
	}
	return c.scan(t, at-int64(n), int64(n))
}

// open01 reads the container of 0.1.
func (c *container1) open01() error {
	r := c.r
	r.version, r.list = "0.1", "entries"
	t, err := r.readTail(8)
	if err != nil {
		return err
	}
	size := r.src.Size()
	n := t.size()
	if r.strict {
		return r.bad(0, "magic", fmt.Errorf("%w: version 0.1 is not what the format's document describes", errors.ErrUnsupported))
	}
	switch {
	case n == 0 && size == 16: // upstream's reader takes it for no tensors
		return nil
	case n == 0, n > uint64(size-16):
		return r.bad(size-8, "manifest_size", fmt.Errorf("%w: %d of a file of %d bytes", tensor.ErrMalformed, n, size))
	}
	return c.scan(t, size-8-int64(n), int64(n))
}
