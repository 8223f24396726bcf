package torch

import (
	"io"
	"strings"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// exists reports whether there is another file of that name.
func exists(in *format.Input, name string) bool {
	other, _, err := in.Companion(name)
	if c, ok := other.(io.Closer); ok {
		c.Close()
	}
	return err == nil
}

// companion opens another file, which is open as long as the Reader.
func (r *Reader) companion(name string) (*source.Source, error) {
	in, size, err := format.InputOf(&r.Base).Companion(name)
	if err != nil {
		return nil, err
	}
	if c, ok := in.(io.Closer); ok {
		r.closers = append(r.closers, c)
	}
	return source.OfReaderAt(in, size)
}

// runFile executes a file that is a pickle.
func (c *checkpoint) runFile(name string) (any, error) {
	if limit := min(c.limits.MaxMetadata, maxPickle); c.size > limit {
		return nil, errs.At(0, name, tensor.ErrLimit, "%d bytes, the limit is %d", c.size,
			limit)
	}
	in, err := c.src.Metadata(0, c.size)
	if err != nil {
		return nil, errs.Wrap(0, name, err)
	}
	return c.newPickle(name, string(in), 0, c.size).only()
}

// openUnpacked reads data.pkl, whose storages are files in the directory data.
func (r *Reader) openUnpacked(c *checkpoint) error {
	bigEnd := false
	if src, err := r.companion("byteorder"); err == nil {
		order, err := src.Metadata(0, min(src.Size(), 8))
		if bigEnd = string(order) == "big"; err != nil {
			return errs.InFile("byteorder", err)
		}
	}
	c.version = "unpacked"
	c.storages = storages{warn: func(text string) { c.warn(-1, pickleFile, "%s", text) }}
	var err error
	if c.root, err = c.runFile(pickleFile); err != nil {
		return err
	}
	for _, p := range c.storages.order {
		p.file, p.bigEnd, p.stored = "data/"+p.key, bigEnd, p.size
		if strings.ContainsAny(p.key, "/\\:\x00") || strings.Trim(p.key, ".") == "" {
			return errs.At(-1, "storage "+naming.Quote(p.key), tensor.ErrMalformed,
				"not the name of a file")
		}
		if p.src, err = r.companion(p.file); err != nil {
			return errs.InFile(p.file, err)
		}
		if p.src.Size() != p.size {
			return errs.InFile(p.file, errs.At(0, "", tensor.ErrMalformed,
				"%d bytes, where the pickle has %d", p.src.Size(), p.size))
		}
	}
	w, err := r.list(c)
	if err != nil {
		return err
	}
	r.spans = []tensor.Span{format.MetadataSpan(0, c.size)}
	spans := map[*payload][]tensor.Span{}
	w.eachSpan(func(p *payload, s tensor.Span) { spans[p] = append(spans[p], s) })
	for _, p := range c.storages.order {
		r.shards = append(r.shards, shardSpans{p.file, format.CoverSpans(p.size, spans[p])})
	}
	r.addPart(c)
	return nil
}
