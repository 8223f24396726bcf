package v2

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/internal/parallel"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// The encoding profile zt.zstd-seekable/1 (§8): independent zstd frames, and
// behind them, in a frame that every decoder skips, a table of their lengths.
const (
	Seekable     = "zt.zstd-seekable/1"
	MaxFrame     = 16 << 20 // decoded
	SeekHeader   = "\x5e\x2a\x4d\x18"
	SeekMagic    = "\xb1\xea\x92\x8f"
	SeekFooter   = 4 + 1 + 4 // number of frames, descriptor, magic
	minSeekTable = 8 + SeekFooter
	zstdMagic    = "\x28\xb5\x2f\xfd"
)

// A seekTable lists the frames of a payload.
type seekTable struct {
	list []frame
	size int64 // decoded, of all frames but the last
}

// A frame is one entry.
type frame struct {
	off    int64 // within the blob
	stored uint32
	size   uint32 // decoded
}

// frames is the codec of one payload.
type frames struct {
	b     *core.Payload
	cache *frameCache
	once  sync.Once
	table *seekTable
	err   error // of the table
}

// seekTable reads the table, the first time. stored are all bytes of the payload, nil where
// they have not been read.
func (x *frames) seekTable(stored []byte) (*seekTable, error) {
	x.once.Do(func() { x.table, x.err = x.readSeekTable(stored) })
	return x.table, x.err
}

// TableWindow is how much is read at once, in the hope that the table is in it,
// where a read may be a request over the net: the table of 8 GiB.
const TableWindow = 64 << 10

func (x *frames) readSeekTable(stored []byte) (*seekTable, error) {
	if err := x.decodable(); err != nil {
		return nil, err
	}
	src, err := x.b.Source()
	if err != nil {
		return nil, err
	}
	tail := stored
	if tail == nil {
		n := int64(SeekFooter)
		if !src.Mapped() {
			n = min(x.b.Length, TableWindow)
		}
		if tail, err = src.Metadata(x.b.Offset+x.b.Length-n, n); err != nil {
			return nil, err
		}
	}
	end := tail[len(tail)-SeekFooter:]
	n, descriptor := int64(binary.LittleEndian.Uint32(end)), end[4]
	width := int64(8)
	if descriptor&0x80 != 0 {
		width = 12 // with a checksum, which the frames have themselves
	}
	size := minSeekTable + n*width
	switch {
	case string(end[5:]) != SeekMagic:
		return nil, rule.Broken(rule.Encoding, "there is no seek table")
	case descriptor&0x7f != 0:
		return nil, rule.Broken(rule.Encoding, "the seek table's descriptor is 0x%02x", descriptor)
	case size > x.b.Length:
		return nil, rule.Broken(rule.Encoding, "a seek table of %d frames in %d bytes", n, x.b.Length)
	}
	if size > int64(len(tail)) {
		if tail, err = src.Metadata(x.b.Offset+x.b.Length-size, size); err != nil {
			return nil, err
		}
	}
	return x.entries(tail[int64(len(tail))-size:], n, width)
}

// decodable refuses what is not decoded whatever its table says.
func (x *frames) decodable() error {
	if x.b.DecodedSize > x.b.R.Limits.MaxDecoded {
		return fmt.Errorf("%w: decodes to %d bytes of at most %d", tensor.ErrLimit, x.b.DecodedSize, x.b.R.Limits.MaxDecoded)
	}
	if x.b.Length < minSeekTable {
		return rule.Broken(rule.Encoding, "%d bytes, and a seek table alone has %d", x.b.Length, minSeekTable)
	}
	return nil
}

// entries reads a table of n entries.
func (x *frames) entries(table []byte, n, width int64) (*seekTable, error) {
	size := int64(len(table))
	if string(table[:4]) != SeekHeader || int64(binary.LittleEndian.Uint32(table[4:])) != size-8 {
		return nil, rule.Broken(rule.Encoding, "the seek table does not begin where its length says")
	}
	f := &seekTable{list: make([]frame, n)}
	var off, decoded int64
	for i := range f.list {
		e := table[8+int64(i)*width:]
		x := frame{off, binary.LittleEndian.Uint32(e), binary.LittleEndian.Uint32(e[4:])}
		switch {
		case x.stored == 0:
			return nil, rule.Broken(rule.Encoding, "frame %d has no bytes", i)
		case x.size > MaxFrame:
			return nil, rule.Broken(rule.Encoding, "frame %d decodes to %d bytes of at most %d", i, x.size, MaxFrame)
		case i == 0:
			f.size = int64(x.size)
		case int64(x.size) > f.size || int64(x.size) < f.size && int64(i) < n-1 || f.size == 0:
			return nil, rule.Broken(rule.Encoding, "frame %d decodes to %d bytes, the first to %d", i, x.size, f.size)
		}
		f.list[i] = x
		off += int64(x.stored)
		decoded += int64(x.size)
	}
	switch {
	case off != x.b.Length-size:
		return nil, rule.Broken(rule.Encoding, "frames of %d bytes in %d", off, x.b.Length-size)
	case decoded != x.b.DecodedSize:
		return nil, rule.Broken(rule.Encoding, "frames of %d decoded bytes, decoded_length says %d", decoded, x.b.DecodedSize)
	}
	return f, nil
}

// checkFrame wants one zstd frame with a checksum, and nothing else, that could
// decode to size bytes.
func checkFrame(b []byte, size uint32) error {
	if len(b) < 6 || string(b[:4]) != zstdMagic {
		return rule.Broken(rule.Encoding, "no zstd frame")
	}
	d := b[4]
	if d&4 == 0 {
		return rule.Broken(rule.Encoding, "a frame without a checksum")
	}
	single := int(d >> 5 & 1)
	at := 4 + 1 + 1 - single + [4]int{0, 1, 2, 4}[d&3] + [4]int{single, 2, 4, 8}[d>>6]
	room := 0
	for last := false; !last; {
		if len(b)-at < 3 {
			return rule.Broken(rule.Encoding, "a frame ends within a block")
		}
		h := int(b[at]) | int(b[at+1])<<8 | int(b[at+2])<<16
		last = h&1 != 0
		n := h >> 3
		if h>>1&3 == 1 {
			n = 1 // repeated
		}
		room += 128 << 10
		if at += 3; len(b)-at < n {
			return rule.Broken(rule.Encoding, "a frame ends within a block")
		}
		at += n
	}
	if at+4 != len(b) {
		return rule.Broken(rule.Encoding, "%d bytes behind a frame", len(b)-at-4)
	}
	if int64(room) < int64(size) {
		return rule.Broken(rule.Encoding, "blocks for at most %d of %d bytes", room, size)
	}
	return nil
}

// decodeFrame decodes one frame into dst, which it must fill. have are the bytes
// of the blob from byte from on; nil where they lie in the memory of the source.
func (x *frames) decodeFrame(d *zstd.Decoder, f frame, dst, have []byte, from int64) error {
	decode := func(p []byte) error {
		if err := checkFrame(p, f.size); err != nil {
			return err
		}
		err := core.DecodeAll(d, dst, p)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return rule.New(rule.Encoding, err)
		}
		return err
	}
	if have != nil {
		return decode(have[f.off-from:][:f.stored:f.stored])
	}
	src, err := x.b.Source()
	if err != nil {
		return err
	}
	at := x.b.Offset + f.off
	inMemory, err := src.Scan(func(all []byte) error { return decode(all[at : at+int64(f.stored)]) })
	if !inMemory && err == nil {
		err = errors.ErrUnsupported // decodeFrames reads what is not in memory
	}
	return err
}

// readBatch is how much is decoded of one read.
const readBatch = MaxFrame

// decodeFrames decodes frames that follow on each other to where in dst they
// belong. What is not in memory is read a batch at a time.
func (x *frames) decodeFrames(list []frame, dst []byte) error {
	src, err := x.b.Source()
	if err != nil {
		return err
	}
	if src.Mapped() {
		return x.decodeBatch(list, dst, nil)
	}
	for len(list) > 0 {
		n, size := 1, int(list[0].size)
		for n < len(list) && size+int(list[n].size) <= readBatch {
			size += int(list[n].size)
			n++
		}
		last := list[n-1]
		have, err := src.Metadata(x.b.Offset+list[0].off, last.off+int64(last.stored)-list[0].off)
		if err == nil {
			err = x.decodeBatch(list[:n], dst[:size], have)
		}
		if err != nil {
			return err
		}
		list, dst = list[n:], dst[size:]
	}
	return nil
}

// decodeBatch decodes frames on all cores. have are their stored bytes, nil where
// these lie in memory.
func (x *frames) decodeBatch(list []frame, dst, have []byte) error {
	d, err := x.b.R.Decoder()
	if err != nil {
		return err
	}
	width := int(list[0].size)
	one := func(i int) error {
		return x.decodeFrame(d, list[i], dst[i*width:][:list[i].size:list[i].size], have, list[0].off)
	}
	if len(list) == 1 {
		return one(0)
	}
	return parallel.ForEach(context.Background(), len(list), func(_ context.Context, i int) error { return one(i) })
}

// decodeInto decodes all of the blob into p, which has the room. Where it is not
// in memory, and not large, it is read at once, table and all.
func (x *frames) decodeInto(p []byte) error {
	src, err := x.b.Source()
	if err != nil {
		return err
	}
	var stored []byte
	if !src.Mapped() && x.b.Length <= readBatch && x.decodable() == nil {
		if stored, err = src.Metadata(x.b.Offset, x.b.Length); err != nil {
			return err
		}
	}
	f, err := x.seekTable(stored)
	if err != nil || len(f.list) == 0 {
		return err
	}
	if stored != nil {
		return x.decodeBatch(f.list, p, stored)
	}
	return x.decodeFrames(f.list, p)
}

// decodeAt decodes the frames that have the bytes from off, and no others. Frames that are
// used in part go into the cache.
func (x *frames) decodeAt(p []byte, off int64) error {
	f, err := x.seekTable(nil)
	if err != nil {
		return err
	}
	cache := x.cache
	for len(p) > 0 {
		list, within := f.list[off/f.size:], off%f.size
		if decoded := cache.get(x.b, list[0].off); decoded != nil {
			n := copy(p, decoded[within:])
			p, off = p[n:], off+int64(n)
			continue
		}
		n, size := 1, int64(list[0].size)
		for n < len(list) && size < within+int64(len(p)) && size+f.size <= readBatch && cache.get(x.b, list[n].off) == nil {
			size += int64(list[n].size)
			n++
		}
		list = list[:n]
		if within == 0 && size <= int64(len(p)) {
			if err := x.decodeFrames(list, p[:size:size]); err != nil {
				return err
			}
			p, off = p[size:], off+size
			continue
		}
		decoded := make([]byte, size)
		if err := x.decodeFrames(list, decoded); err != nil {
			return err
		}
		k := copy(p, decoded[within:])
		first, last := list[0], list[n-1]
		switch {
		case n == 1:
			cache.put(x.b, first.off, decoded)
		case within > 0:
			cache.put(x.b, first.off, bytes.Clone(decoded[:first.size]))
		}
		if n > 1 && within+int64(k) < size {
			cache.put(x.b, last.off, bytes.Clone(decoded[size-int64(last.size):]))
		}
		p, off = p[k:], off+int64(k)
	}
	return nil
}

// A frameCache holds the frames of a file that were used last, of at most MaxFrame bytes
// together, so that neighbouring parts of a payload are decoded once.
type frameCache struct {
	mu   sync.Mutex
	list []cachedFrame // the one that was used last comes last
	Size int
}

type cachedFrame struct {
	blob *core.Payload
	off  int64
	p    []byte
}

func (c *frameCache) get(b *core.Payload, off int64) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.list, func(f cachedFrame) bool { return f.blob == b && f.off == off })
	if i < 0 {
		return nil
	}
	f := c.list[i]
	c.list = append(slices.Delete(c.list, i, i+1), f)
	return f.p
}

func (c *frameCache) put(b *core.Payload, off int64, p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for c.Size += len(p); c.Size > MaxFrame && n < len(c.list); n++ {
		c.Size -= len(c.list[n].p)
	}
	c.list = append(slices.Delete(c.list, 0, n), cachedFrame{b, off, p})
}

// decodeNext decodes the next few frames, as many as there are cores, into room.
func (x *frames) decodeNext(f *seekTable, next *int, room *[]byte) ([]byte, error) {
	list := f.list[*next:]
	if n := min(runtime.GOMAXPROCS(0), max(1, int(MaxFrame/max(1, f.size)))); n < len(list) {
		list = list[:n]
	}
	size := 0
	for _, x := range list {
		size += int(x.size)
	}
	if cap(*room) < size {
		*room = make([]byte, size)
	}
	*next += len(list)
	p := (*room)[:size]
	return p, x.decodeFrames(list, p)
}

// eachFrame shows the decoded bytes to look, frame by frame; step is told of the
// stored ones.
func (x *frames) eachFrame(step func(n int64) error, look func(p []byte) error) error {
	f, err := x.seekTable(nil)
	if err != nil {
		return err
	}
	var room []byte
	told := int64(0)
	for next := 0; next < len(f.list); {
		p, err := x.decodeNext(f, &next, &room)
		if err != nil {
			return err
		}
		if err := look(p); err != nil {
			return err
		}
		to := x.b.Length
		if next < len(f.list) {
			to = f.list[next].off
		}
		if err := step(to - told); err != nil {
			return err
		}
		told = to
	}
	return step(x.b.Length - told)
}

func (x *frames) ReadInto(_ *core.Payload, p []byte) error { return x.decodeInto(p) }

func (x *frames) ReadAt(_ *core.Payload, p []byte, off int64) (int, error) {
	if err := x.decodeAt(p, off); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (x *frames) Seekable() bool { return true }

// Check holds the decoded bytes against the digest.
func (x *frames) Check(b *core.Payload, step func(n int64) error, look func(p []byte) error) error {
	want, h, err := b.Wanted()
	if err != nil {
		return b.FailedDigest(err)
	}
	err = x.eachFrame(step, func(p []byte) error {
		if h != nil {
			h.Write(p)
		}
		if look != nil {
			return look(p)
		}
		return nil
	})
	if err == nil && h != nil {
		err = b.Compare(want, h)
	}
	return err
}

// Open streams the decoded bytes.
func (x *frames) Open(b *core.Payload) (io.ReadCloser, error) {
	if _, err := x.seekTable(nil); err != nil {
		return nil, err
	}
	s := &frameStream{frames: x}
	var err error
	if s.want, s.h, err = b.Wanted(); err != nil {
		s.h = nil // Verify says so
	}
	return s, nil
}

// A frameStream streams the decoded bytes of a payload.
type frameStream struct {
	*frames
	next  int    // frame to decode
	buf   []byte // decoded frames
	ready []byte // of buf, still to be handed out
	off   int64
	want  core.Stated
	h     hash.Hash
	err   error
}

func (s *frameStream) Read(p []byte) (int, error) {
	switch {
	case s.err != nil:
		return 0, s.err
	case len(p) == 0:
		return 0, nil
	case s.off == s.b.DecodedSize:
		s.err = io.EOF
		if s.h != nil {
			if err := s.b.Compare(s.want, s.h); err != nil {
				s.err = s.b.FailedDigest(err)
			}
		}
		return 0, s.err
	}
	for len(s.ready) == 0 {
		var err error
		if s.ready, err = s.decodeNext(s.table, &s.next, &s.buf); err != nil {
			s.err = s.b.Failed(err)
			return 0, s.err
		}
	}
	n := copy(p, s.ready)
	s.ready = s.ready[n:]
	if s.h != nil {
		s.h.Write(p[:n])
	}
	s.off += int64(n)
	return n, nil
}

func (s *frameStream) Close() error {
	s.buf, s.ready = nil, nil
	if s.err == nil {
		s.err = core.ErrClosedStream
	}
	return nil
}
