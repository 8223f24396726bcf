package ztensor

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/tensor"
)

// frameSize is how much a frame of zt.zstd-seekable/1 decodes to.
const frameSize = 1 << 20

// A frameWriter compresses frames on all cores, a group at a time.
type frameWriter struct {
	encoders []*encoder
	out      [][]byte
}

func newFrameWriter(level int) (*frameWriter, error) {
	f := new(frameWriter)
	for range runtime.GOMAXPROCS(0) {
		e, err := newEncoder(level)
		if err != nil {
			return nil, err
		}
		f.encoders = append(f.encoders, e)
	}
	f.out = make([][]byte, 4*len(f.encoders))
	return f, nil
}

// encode compresses each piece of in into a frame. The frames are good until the
// next call.
func (f *frameWriter) encode(in [][]byte) [][]byte {
	var group sync.WaitGroup
	for i, e := range f.encoders {
		group.Add(1)
		go func() {
			defer group.Done()
			for k := i; k < len(in); k += len(f.encoders) {
				f.out[k] = e.EncodeAll(in[k], f.out[k][:0])
			}
		}()
	}
	group.Wait()
	return f.out[:len(in)]
}

// A frameSink writes one part as frames, and the table of them.
type frameSink struct {
	l     *layout2
	w     *Writer
	start int64
	table []byte
	hash  *xxh3.Hasher
	size  int64
	group []byte // not compressed yet
}

func newFrameSink(l *layout2, w *Writer) *frameSink {
	return &frameSink{l: l, w: w, start: -1, hash: xxh3.New()}
}

func (s *frameSink) begin() error {
	if s.start >= 0 {
		return nil
	}
	if s.l.frames == nil {
		f, err := newFrameWriter(s.l.level)
		if err != nil {
			return err
		}
		s.l.frames = f
	}
	err := s.w.pad(s.l.align)
	s.start = s.w.off
	return err
}

// Write gathers a group of frames, unless p has whole groups.
func (s *frameSink) Write(p []byte) (int, error) {
	if err := s.begin(); err != nil {
		return 0, err
	}
	n, most := len(p), frameSize*len(s.l.frames.out)
	for len(p) > 0 {
		if len(s.group) == 0 && len(p) >= most {
			if err := s.put(p[:most]); err != nil {
				return 0, err
			}
			p = p[most:]
			continue
		}
		if s.group == nil {
			s.group = make([]byte, 0, most)
		}
		k := min(most-len(s.group), len(p))
		s.group = append(s.group, p[:k]...)
		if p = p[k:]; len(s.group) == most {
			if err := s.put(s.group); err != nil {
				return 0, err
			}
			s.group = s.group[:0]
		}
	}
	return n, nil
}

// put compresses and writes a group, hashing it meanwhile.
func (s *frameSink) put(p []byte) error {
	hashed := make(chan struct{})
	go func() {
		s.hash.Write(p)
		close(hashed)
	}()
	defer func() { <-hashed }()
	s.size += int64(len(p))
	var in [][]byte
	for rest := p; len(rest) > 0; rest = rest[min(len(rest), frameSize):] {
		in = append(in, rest[:min(len(rest), frameSize)])
	}
	for i, out := range s.l.frames.encode(in) {
		if uint64(len(s.table)/8) == math.MaxUint32 {
			return fmt.Errorf("%w: more than 2^32 frames", tensor.ErrLimit)
		}
		s.table = binary.LittleEndian.AppendUint32(s.table, uint32(len(out)))
		s.table = binary.LittleEndian.AppendUint32(s.table, uint32(len(in[i])))
		if err := s.w.write(out); err != nil {
			return err
		}
	}
	return nil
}

// finish writes the rest and the table, and notes in p what was written.
func (s *frameSink) finish(p *payload2) error {
	if err := s.begin(); err != nil {
		return err
	}
	if len(s.group) > 0 {
		if err := s.put(s.group); err != nil {
			return err
		}
	}
	n := len(s.table) / 8
	b := binary.LittleEndian.AppendUint32([]byte(seekHeader), uint32(len(s.table)+seekFooter))
	b = append(b, s.table...)
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	b = append(append(b, 0), seekMagic...)
	if err := s.w.write(b); err != nil {
		return err
	}
	p.hash, p.size, p.offset, p.length = s.hash.Sum64(), s.size, s.start, s.w.off-s.start
	return nil
}

// encoded writes a part in frames.
func (l *layout2) encoded(ctx context.Context, w *Writer, p *payload2) error {
	s := newFrameSink(l, w)
	f := feed{out: s, dtype: p.check}
	if b, ok := p.data.Bytes(); ok {
		if err := s.begin(); err != nil {
			return err
		}
		for step := frameSize * len(l.frames.out); len(b) > 0; b = b[min(len(b), step):] {
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, err := f.Write(b[:min(len(b), step)]); err != nil {
				return err
			}
		}
	} else if err := f.from(ctx, p.data, &w.buf); err != nil {
		return err
	}
	return s.finish(p)
}
