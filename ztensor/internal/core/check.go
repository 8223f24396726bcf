package core

import (
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// CheckView is called by tensor.View. Strict readers check the digest the first
// time that bytes are borrowed.
func (p *Payload) CheckView() error {
	if err := p.Readable(); err != nil {
		return p.Failed(err)
	}
	if _, err := p.Source(); err != nil {
		return p.Failed(err)
	}
	return p.checkStrict()
}

// checkStrict checks the digest once, if the reader is strict.
func (p *Payload) checkStrict() error {
	if !p.R.Strict || p.Digest == "" {
		return nil
	}
	if _, ok := p.R.checked.Load(p); ok {
		return nil
	}
	check := p.Check
	if !p.R.Ruled {
		check = p.CheckStored // digests of version 1 are of the stored bytes
	}
	if err := check(func(int64) error { return nil }, nil); err != nil {
		return err
	}
	p.R.checked.Store(p, nil)
	return nil
}

// Check reads all of the payload, compares it with the digest, and shows the decoded
// bytes to look, if that is not nil, piece by piece. step is told of stored bytes.
func (p *Payload) Check(step func(n int64) error, look func(b []byte) error) error {
	if err := p.Readable(); err != nil {
		return p.Failed(err)
	}
	if p.Codec() == nil {
		return p.CheckStored(step, look)
	}
	err := p.checkDecoded(step, look)
	if err != nil && !p.R.Ruled && !errors.Is(err, tensor.ErrChecksum) {
		sum := p.CheckStored(func(int64) error { return step(0) }, nil)
		if errors.Is(sum, tensor.ErrChecksum) { // which may be why it cannot be decoded
			err = fmt.Errorf("%w; %w", sum, p.Failed(err))
		}
	}
	return p.Failed(err)
}

// checkDecoded reads all that the codec decodes.
func (p *Payload) checkDecoded(step func(n int64) error, look func(b []byte) error) error {
	if _, _, err := p.Wanted(); err != nil && p.R.Ruled {
		return p.FailedDigest(err)
	}
	in, err := p.More.Codec.Open(p)
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
		if look != nil && n > 0 {
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

// CheckStored is Check for the bytes as they are stored.
func (p *Payload) CheckStored(step func(n int64) error, look func(b []byte) error) error {
	want, h, err := p.Wanted()
	if err != nil {
		return p.FailedDigest(err)
	}
	err = p.EachPiece(step, func(b []byte) error {
		if h != nil {
			h.Write(b)
		} else {
			Touch(b)
		}
		if look != nil {
			return look(b)
		}
		return nil
	})
	if err == nil && h != nil {
		if err := p.Compare(want, h); err != nil {
			return p.FailedDigest(err)
		}
	}
	return p.Failed(err)
}

// Touch looks at every page of b, which is a fault where the file has lost it.
func Touch(b []byte) {
	const page = 4096
	var all byte
	for i := 0; i < len(b); i += page {
		all |= b[i]
	}
	runtime.KeepAlive(all) // so that the loop is not left out
}
