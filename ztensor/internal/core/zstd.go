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
	if len(dst) > 0 && &out[0] != &dst[0] { // the decoder may return other memory
		copy(dst, out)
	}
	return nil
}

// ZstdError adds a class to an error of the decoder.
func ZstdError(err error) error {
	var passed *tensor.FormatError // an error of reading the stored bytes
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
