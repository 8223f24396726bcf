package remote

import (
	"math"
	"sync"
	"sync/atomic"
)

const (
	// blockSize is what one request of reading ahead brings: so much that latency
	// counts little.
	blockSize = 8 << 20
	// minAhead is how far reading ahead must go before it is worth blocks of its own.
	minAhead = 4 << 20
	// maxRuns is how many places of a file are read in order at once.
	maxRuns = 8
)

// A run is a place of the file that is read in order, or nearly: by several goroutines
// that take turns, or with gaps.
type run struct {
	start, pos int64 // the first byte and the end of what was read
	read       int64 // bytes on which pos went on
	first, end int64 // of what was fetched ahead
}

// ahead is how far after a read of the run one may fetch: what was read, twice.
func (n *run) ahead(c *Client) int64 {
	return max(window, min(2*n.read, int64(c.opts.InFlight)*blockSize))
}

// follow returns the run that a read goes on, nil where it begins a new one. The caller
// holds mu.
func (r *Reader) follow(off, end int64) *run {
	for i := range r.runs {
		n := r.runs[i]
		if n.start > off || off > n.pos+n.ahead(r.client) {
			continue
		}
		n.read += max(0, end-max(off, n.pos))
		n.pos = max(n.pos, end)
		copy(r.runs[1:i+1], r.runs[:i]) // the last used is the first
		r.runs[0] = n
		return n
	}
	if len(r.runs) == maxRuns {
		r.runs = r.runs[:maxRuns-1]
	}
	r.runs = append([]*run{{start: off, pos: end, read: end - off}}, r.runs...)
	return nil
}

// A block is a range that is fetched before it is asked for, and kept until it was read.
type block struct {
	off, end int64
	left     int64         // bytes that were not read
	used     int64         // Reader.taken when it was last read from
	done     chan struct{} // closed when b or err is set
	b        []byte
	err      error
}

// readAhead fetches blocks after off, as many as the run deserves and the client has
// free. The caller holds mu.
func (r *Reader) readAhead(n *run, off int64) {
	ahead := n.ahead(r.client)
	if ahead < minAhead || r.ctx.Err() != nil {
		return
	}
	target := min(r.size, off+ahead)
	for at := r.uncovered(off); ; at = r.uncovered(at) {
		if at < n.end && (off < at || off < n.first) {
			at = r.uncovered(n.end) // goroutines ahead of this one have read up to there
		}
		if at >= target {
			return
		}
		size := min(blockSize, target-at, r.nextCovered(at)-at)
		isLast := at+size == r.size || at+size == r.nextCovered(at)
		if size < min(blockSize, ahead/2) && !isLast || size > r.budget() || !r.reserve() {
			return
		}
		b := &block{off: at, end: at + size, left: size, used: r.taken, done: make(chan struct{})}
		r.blocks = append(r.blocks, b)
		r.spent += size
		if n.end = max(n.end, b.end); n.first == 0 {
			n.first = at
		}
		r.fetching.Add(1)
		go r.fill(b)
	}
}

// reserve takes one of the client's blocks. Where none is free, one that nobody has
// read from for long is dropped.
func (r *Reader) reserve() bool {
	most := int64(r.opts.InFlight)
	if r.client.blocks.Add(1) <= most {
		return true
	}
	r.client.blocks.Add(-1)
	for _, b := range r.blocks {
		if b.b != nil && r.taken-b.used > 4*most*blockSize {
			r.drop(b)
			return r.reserve()
		}
	}
	return false
}

// fill fetches a block.
func (r *Reader) fill(b *block) {
	defer r.fetching.Done()
	buf := r.client.buffers.get(b.end - b.off)
	err := r.transfer(buf, b.off)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		err = r.done()
	}
	b.b, b.err = buf, err
	close(b.done)
	if err != nil {
		r.drop(b)
	}
}

// drop forgets a block that is done. The caller holds mu.
func (r *Reader) drop(b *block) {
	for i := range r.blocks {
		if r.blocks[i] == b {
			r.blocks = append(r.blocks[:i], r.blocks[i+1:]...)
			r.client.blocks.Add(-1)
			r.client.buffers.put(b.b)
			b.b = nil
			return
		}
	}
}

// blockAt returns the block that has a byte, nil if none has.
func (r *Reader) blockAt(off int64) *block {
	for _, b := range r.blocks {
		if b.off <= off && off < b.end {
			return b
		}
	}
	return nil
}

// take copies from a block that is done. The caller holds mu.
func (r *Reader) take(b *block, p []byte, off int64) int {
	n := copy(p, b.b[off-b.off:])
	r.taken += int64(n)
	b.used = r.taken
	if b.left -= int64(n); b.left <= 0 {
		r.drop(b)
	}
	return n
}

// nextBlock returns where the first block begins that begins after off.
func (r *Reader) nextBlock(off int64) int64 {
	first := int64(math.MaxInt64)
	for _, b := range r.blocks {
		if b.off > off {
			first = min(first, b.off)
		}
	}
	return first
}

// uncovered returns the first byte from off on that is neither kept nor being fetched.
func (r *Reader) uncovered(off int64) int64 {
	for {
		at := off
		if b := r.blockAt(at); b != nil {
			at = b.end
		}
		for _, f := range r.flights {
			if f.off <= at && at < f.end {
				at = f.end
			}
		}
		at += int64(len(r.cache.from(at)))
		if at == off {
			return off
		}
		off = at
	}
}

// nextCovered returns where after off the first byte is that is kept or being fetched.
func (r *Reader) nextCovered(off int64) int64 {
	first := min(r.nextBlock(off), r.cache.start(off))
	for _, f := range r.flights {
		if f.off > off {
			first = min(first, f.off)
		}
	}
	return first
}

// fetchLarge fills p from off, by several requests at once where p is more than a block.
func (r *Reader) fetchLarge(p []byte, off int64) error {
	n := (len(p) + blockSize - 1) / blockSize
	if n == 1 {
		return r.fetch(p, off)
	}
	var next atomic.Int64
	var failed atomic.Bool
	errs := make([]error, n)
	var wg sync.WaitGroup
	for range min(n, r.opts.InFlight) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && !failed.Load(); i = int(next.Add(1)) - 1 {
				part := p[i*blockSize : min(len(p), (i+1)*blockSize)]
				if errs[i] = r.fetch(part, off+int64(i)*blockSize); errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// buffers are the buffers of dropped blocks, to be used again.
type buffers struct {
	mu   sync.Mutex
	free [][]byte
}

func (s *buffers) get(n int64) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.free) - 1; n == blockSize && last >= 0 {
		b := s.free[last]
		s.free[last] = nil
		s.free = s.free[:last]
		return b
	}
	return make([]byte, n)
}

func (s *buffers) put(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b) == blockSize {
		s.free = append(s.free, b)
	}
}

func (s *buffers) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = nil
}
