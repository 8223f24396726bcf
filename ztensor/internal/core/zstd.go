package core

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"weak"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/tensor"
)

const (
	// maxWindow is the largest window that zstd itself writes at any level.
	MaxWindow = 128 << 20
	// maxFrameWindow is the largest that libzstd takes where it has all of a frame, as in version 2: there is room for
	// what the frame decodes to, and a window costs nothing beyond it.
	MaxFrameWindow = 15 << 28
	// freeWindow is a window that a stream may claim whatever its length; a
	// larger one has to be made plausible by the bytes that are stored.
	freeWindow = 8 << 20
	// freeDecoded is what a payload may decode to whatever its stored length,
	// where nothing in the file says how long it is.
	freeDecoded = 16 << 20
	// maxRatio bounds such payloads beyond freeDecoded.
	maxRatio = 1000
)

// newZstdDecoder makes the decoder that is shared by all reads of a Reader. It decodes in the goroutine of
// the caller, and never beyond the capacity of the destination.
func newZstdDecoder(window uint64) (*zstd.Decoder, error) {
	return zstd.NewReader(nil,
		zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxMemory(1<<62), // the capacity is the limit
		zstd.WithDecoderMaxWindow(window),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderConcurrency(0))
}

// decodeAll decodes all frames of src into dst, which they must fill.
func decodeAll(d *zstd.Decoder, dst, src []byte) error {
	out, err := d.DecodeAll(src, dst[:0:len(dst)])
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		return fmt.Errorf("%w: decodes to more than %d bytes", tensor.ErrMalformed, len(dst))
	}
	if err != nil {
		return zstdError(err)
	}
	if len(out) != len(dst) {
		return fmt.Errorf("%w: decodes to %d bytes, not %d", tensor.ErrMalformed, len(out), len(dst))
	}
	if len(dst) > 0 && &out[0] != &dst[0] { // the decoder promises the capacity, not the place
		copy(dst, out)
	}
	return nil
}

// decodeGrowing decodes src, whose decoded length is not known or not proven,
// into memory that grows with what there is. limit bounds it.
func decodeGrowing(d *zstd.Decoder, src []byte, limit int64) ([]byte, error) {
	room := min(limit, max(1<<20, 8*int64(len(src))))
	for {
		out, err := d.DecodeAll(src, make([]byte, 0, room))
		if !errors.Is(err, zstd.ErrDecoderSizeExceeded) {
			if err != nil {
				return nil, zstdError(err)
			}
			return out, nil
		}
		if room >= limit {
			return nil, fmt.Errorf("%w: %d bytes decode to more than %d", tensor.ErrLimit, len(src), limit)
		}
		room = min(limit, 4*room)
	}
}

// zstdError gives the decoder's errors a class.
func zstdError(err error) error {
	switch {
	case errors.Is(err, zstd.ErrCRCMismatch):
		return fmt.Errorf("%w: zstd frame: %v", tensor.ErrChecksum, err)
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Errorf("%w: zstd: %v", tensor.ErrLimit, err)
	case errors.Is(err, zstd.ErrUnknownDictionary):
		return fmt.Errorf("%w: zstd with a dictionary", errors.ErrUnsupported)
	}
	return fmt.Errorf("%w: zstd: %v", tensor.ErrMalformed, err)
}

// zstdWindow reads how much memory the first frame of a stream wants.
func zstdWindow(start []byte) (int64, error) {
	var h zstd.Header
	if err := h.Decode(start); err != nil {
		return 0, zstdError(err)
	}
	window := h.WindowSize
	if h.SingleSegment {
		window = h.FrameContentSize
	}
	return int64(min(window, MaxWindow+1)), nil
}

// plausibleWindow is the largest window that stored bytes make plausible.
func plausibleWindow(stored int64) int64 {
	return min(MaxWindow, max(freeWindow, 8*min(stored, MaxWindow)))
}

// zstdStream decodes what in has, until keepStream: by a decoder that did so
// before, if there is one, since its window would be garbage that lies about while
// the next part takes another. So the limit of windows is one for all parts, what
// the whole file makes plausible; the caller looks at that of the first frame.
func (r *File) zstdStream(in io.Reader) (*zstd.Decoder, error) {
	s := &r.stream
	s.Lock()
	z := s.z.Value()
	s.z = weak.Pointer[zstd.Decoder]{}
	s.Unlock()
	if z != nil {
		return z, z.Reset(in)
	}
	return newZstdStream(in, plausibleWindow(r.Src.Size()))
}

// keepStream keeps a decoder until the next collection of garbage.
func (r *File) keepStream(z *zstd.Decoder) {
	if z.Reset(nil) != nil {
		return
	}
	r.stream.Lock()
	r.stream.z = weak.Make(z)
	r.stream.Unlock()
}

// A spareStream is a decoder that nobody uses.
type spareStream struct {
	sync.Mutex
	z weak.Pointer[zstd.Decoder]
}

// newZstdStream decodes what in has, with a window of at most window bytes.
func newZstdStream(in io.Reader, window int64) (*zstd.Decoder, error) {
	return zstd.NewReader(in,
		zstd.WithDecoderMaxMemory(uint64(max(window, zstd.MinWindowSize))), // of the window; the output is counted elsewhere
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderConcurrency(1))
}
