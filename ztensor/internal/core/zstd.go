package core

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/tensor"
)

// MaxWindow is the largest window that zstd itself writes at any level.
const MaxWindow = 128 << 20

// DecodeAll decodes all frames of src into dst, which they must fill.
func DecodeAll(d *zstd.Decoder, dst, src []byte) error {
	out, err := d.DecodeAll(src, dst[:0:len(dst)])
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		return fmt.Errorf("%w: decodes to more than %d bytes", tensor.ErrMalformed, len(dst))
	}
	if err != nil {
		return ZstdError(err)
	}
	if len(out) != len(dst) {
		return fmt.Errorf("%w: decodes to %d bytes, not %d", tensor.ErrMalformed, len(out),
			len(dst))
	}
	if len(dst) > 0 && &out[0] != &dst[0] { // the decoder promises the capacity, not the place
		copy(dst, out)
	}
	return nil
}

// ZstdError gives the decoder's own errors a class.
func ZstdError(err error) error {
	var passed *tensor.FormatError // by the decoder, from reading what is stored
	switch {
	case errors.As(err, &passed):
		return passed
	case errors.Is(err, zstd.ErrCRCMismatch):
		return fmt.Errorf("%w: zstd frame: %v", tensor.ErrChecksum, err)
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Errorf("%w: zstd: %v", tensor.ErrLimit, err)
	case errors.Is(err, zstd.ErrUnknownDictionary):
		return fmt.Errorf("%w: zstd with a dictionary", errors.ErrUnsupported)
	}
	return fmt.Errorf("%w: zstd: %v", tensor.ErrMalformed, err)
}
