package v1

import (
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// A codec decodes zstd, and elements that are big-endian.
type codec struct {
	c     *container
	zstd  bool
	width int // of big-endian elements; 0 for others
}

func (k *codec) ReadInto(p *core.Payload, b []byte) error {
	var err error
	switch {
	case k.zstd:
		var d *zstd.Decoder
		if d, err = p.R.Decoder(); err == nil {
			err = p.UseStored(0, p.Length, func(stored []byte) error {
				return core.DecodeAll(d, b, stored)
			})
		}
	case len(b) > 0:
		_, err = p.R.Src.ReadAt(b, p.Offset)
	}
	if err == nil && k.width > 0 {
		le.Swap(b, k.width)
	}
	return err
}

// ReadAt decodes all that comes before.
func (k *codec) ReadAt(p *core.Payload, b []byte, off int64) (int, error) {
	r, err := k.Open(p)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	if _, err := io.CopyN(io.Discard, r, off); err != nil {
		return 0, err
	}
	return source.ReadPiece(r, b)
}

func (k *codec) Open(p *core.Payload) (io.ReadCloser, error) {
	var err error
	var r io.ReadCloser = p.OpenStored()
	if k.zstd {
		r, err = k.c.openZstd(p)
	}
	if err == nil && k.width > 0 {
		r = source.Elements(r, k.width, func(b []byte) { le.Swap(b, k.width) })
	}
	return r, err
}
