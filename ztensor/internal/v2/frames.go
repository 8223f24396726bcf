package v2

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/internal/memory"
	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// readBatch is how many decoded bytes the frames of one read have at most.
const readBatch = maxFrame

// decodeFrames decodes adjacent frames into dst on all cores, a batch at a time. stored
// has all bytes of the payload, or is nil.
func (x *frameCodec) decodeFrames(list []frame, dst, stored []byte) error {
	use := x.b.UseStored
	if stored != nil {
		use = func(off, n int64, f func(b []byte) error) error { return f(stored[off:][:n:n]) }
	}
	d, err := x.b.R.Decoder()
	for len(list) > 0 && err == nil {
		n, size, width := 1, int(list[0].size), int(list[0].size)
		for n < len(list) && size+int(list[n].size) <= readBatch {
			size += int(list[n].size)
			n++
		}
		batch, from, last := list[:n], list[0].off, &list[n-1]
		err = use(from, last.off+int64(last.stored)-from, func(b []byte) error {
			decodeOne := func(_ context.Context, i int) error {
				f := &batch[i] // not a copy: the cache changes f.decoded
				stored := b[f.off-from:][:f.stored:f.stored]
				return memory.Guard(stored, func() error { // b may be mapped
					return decodeFrame(d, dst[i*width:][:f.size:f.size], stored)
				})
			}
			return parallel.ForEach(context.Background(), n, decodeOne)
		})
		list, dst = list[n:], dst[size:]
	}
	return err
}

// decodeFrame decodes one frame into dst, which it must fill.
func decodeFrame(d *zstd.Decoder, dst, b []byte) error {
	if err := checkFrame(b, len(dst)); err != nil {
		return err
	}
	err := core.DecodeAll(d, dst, b)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return rule.New(rule.Encoding, err)
	}
	return err
}

// ReadInto decodes all of the payload. It reads a payload that is neither mapped nor
// large at once, with its table.
func (x *frameCodec) ReadInto(_ *core.Payload, p []byte) error {
	src, err := x.b.Source()
	if err != nil {
		return err
	}
	var all []byte
	if !src.Mapped() && x.b.Length <= readBatch {
		if all, err = src.Metadata(x.b.Offset, x.b.Length); err != nil {
			return err
		}
	}
	f, err := x.seekTable(all)
	if err != nil {
		return err
	}
	return x.decodeFrames(f.list, p, all)
}

// ReadAt decodes only the frames that have the len(b) bytes from off. It caches frames
// that are used in part.
func (x *frameCodec) ReadAt(_ *core.Payload, b []byte, off int64) (int, error) {
	f, err := x.seekTable(nil)
	if err != nil {
		return 0, err
	}
	for p := b; len(p) > 0; {
		list, within := f.list[off/f.size:], int(off%f.size)
		k := 0
		if decoded := x.cache.get(&list[0]); decoded != nil {
			k = copy(p, decoded[within:])
		} else if k, err = x.decodeAt(p, list, within); err != nil {
			return 0, err
		}
		p, off = p[k:], off+int64(k)
	}
	return len(b), nil
}

// decodeAt decodes the first frames of list, as many as p needs and are not in the cache.
// It copies bytes from within the first frame on to p, and returns how many.
func (x *frameCodec) decodeAt(p []byte, list []frame, within int) (int, error) {
	n, size := 1, int(list[0].size)
	for n < len(list) && size < within+len(p) && size+int(list[n].size) <= readBatch &&
		x.cache.get(&list[n]) == nil {
		size += int(list[n].size)
		n++
	}
	if within == 0 && size <= len(p) {
		return size, x.decodeFrames(list[:n], p[:size], nil)
	}
	decoded := make([]byte, size)
	if err := x.decodeFrames(list[:n], decoded, nil); err != nil {
		return 0, err
	}
	k := copy(p, decoded[within:])
	if within > 0 {
		x.cache.put(&list[0], bytes.Clone(decoded[:list[0].size]))
	}
	if within+k < size {
		x.cache.put(&list[n-1], bytes.Clone(decoded[size-int(list[n-1].size):]))
	}
	return k, nil
}

// Open streams the decoded bytes. It decodes as many frames at a time as there are cores.
func (x *frameCodec) Open(b *core.Payload) (io.ReadCloser, error) {
	f, err := x.seekTable(nil)
	if err != nil {
		return nil, err
	}
	ahead := f.size * max(1, min(int64(runtime.GOMAXPROCS(0)), maxFrame/max(1, f.size)))
	in := io.NewSectionReader(frameReaderAt{x}, 0, b.DecodedSize)
	return b.Checked(bufio.NewReaderSize(in, int(min(ahead, b.DecodedSize)))), nil
}

type frameReaderAt struct{ *frameCodec }

func (x frameReaderAt) ReadAt(p []byte, off int64) (int, error) {
	return x.frameCodec.ReadAt(x.b, p, off)
}

// A frameCache holds the most recently used decoded frames of a file, so that reads of
// adjacent bytes decode a frame once. It holds at most cacheSize bytes; the limit grows,
// up to maxCache, by the size of each frame that is decoded a second time.
type frameCache struct {
	mu    sync.Mutex
	list  []cachedFrame // the most recently used frame is last
	size  int
	extra int // limit beyond cacheSize
}

const (
	cacheSize = maxFrame
	maxCache  = 8 * maxFrame
)

type cachedFrame struct {
	frame *frame
	p     []byte
}

func (c *frameCache) get(f *frame) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.list, func(have cachedFrame) bool { return have.frame == f })
	if i < 0 {
		return nil
	}
	have := c.list[i]
	c.list = append(slices.Delete(c.list, i, i+1), have)
	return have.p
}

func (c *frameCache) put(f *frame, p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(c.list, func(have cachedFrame) bool { return have.frame == f }) {
		return // by another goroutine at the same time
	}
	if f.decoded {
		c.extra = min(c.extra+len(p), maxCache-cacheSize)
	}
	f.decoded = true
	n := 0
	for c.size += len(p); c.size > cacheSize+c.extra && n < len(c.list); n++ {
		c.size -= len(c.list[n].p)
	}
	c.list = append(slices.Delete(c.list, 0, n), cachedFrame{f, p})
}
