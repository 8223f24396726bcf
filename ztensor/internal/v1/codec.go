package v1

import (
	"errors"
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// A codec decodes zstd, and elements that are big-endian.
type codec struct {
	c     *container
	zstd  bool
	width int // of big-endian elements; 0 for others
}

func (k *codec) Seekable() bool { return false }

func (k *codec) ReadInto(p *core.Payload, b []byte) error {
	var err error
	switch {
	case k.zstd:
		err = decodeInto(p, b)
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
	r := io.NopCloser(p.OpenStored(true))
	if k.zstd {
		r, err = k.c.openZstd(p)
	}
	if err == nil && k.width > 0 {
		r = source.Elements(r, k.width, func(b []byte) { le.Swap(b, k.width) })
	}
	return r, err
}

// Check decodes the payload. If that fails, a digest of the stored bytes that does not fit is an
// error too.
func (k *codec) Check(p *core.Payload, step func(n int64) error, look func(b []byte) error) error {
	err := k.decode(p, step, look)
	if err == nil || errors.Is(err, tensor.ErrChecksum) {
		return err
	}
	if sum := p.CheckStored(func(int64) error { return step(0) }, nil); errors.Is(sum, tensor.ErrChecksum) {
		return fmt.Errorf("%w; %w", sum, p.Failed(err))
	}
	return err
}

func (k *codec) decode(p *core.Payload, step func(n int64) error, look func(b []byte) error) error {
	in, err := k.Open(p)
	if err != nil {
		return err
	}
	defer in.Close()
	size := int64(256 << 10)
	if p.DecodedSize >= 0 {
		size = max(1, min(size, p.DecodedSize))
	}
	buf := make([]byte, size)
	for {
		n, err := source.ReadPiece(in, buf)
		if look != nil {
			if err := look(buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return step(p.Length)
		}
		if err == nil {
			err = step(0)
		}
		if err != nil {
			return err
		}
	}
}
