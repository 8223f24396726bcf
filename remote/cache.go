package remote

import "math"

// A cache keeps pieces of the file, the last used of them. There are few, since each is
// 64 KiB or more: they are searched one by one.
type cache struct {
	most   int64 // bytes
	have   int64
	now    int64
	pieces []piece
}

type piece struct {
	off  int64
	b    []byte
	used int64
}

func (p *piece) end() int64 { return p.off + int64(len(p.b)) }

// from returns the bytes from off on as far as one piece has them.
func (c *cache) from(off int64) []byte {
	for i := range c.pieces {
		if p := &c.pieces[i]; p.off <= off && off < p.end() {
			c.now++
			p.used = c.now
			return p.b[off-p.off:]
		}
	}
	return nil
}

// before returns how far from off, which is not in the cache, one has to fetch for what
// is not in it up to end. Bytes of the cache in the middle are no reason for two
// requests: only the end is shortened.
func (c *cache) before(off, end int64) int64 {
	for i := range c.pieces {
		if p := &c.pieces[i]; off < p.off && p.off < end && end <= p.end() {
			return p.off
		}
	}
	return end
}

// start returns where the first piece begins that begins at off or after it.
func (c *cache) start(off int64) int64 {
	first := int64(math.MaxInt64)
	for i := range c.pieces {
		if p := &c.pieces[i]; p.off >= off {
			first = min(first, p.off)
		}
	}
	return first
}

// after returns where from start on one has to begin to fetch what is not in the cache
// up to off.
func (c *cache) after(start, off int64) int64 {
	for i := range c.pieces {
		if p := &c.pieces[i]; start < p.end() && p.end() <= off {
			start = p.end()
		}
	}
	return start
}

// put keeps b, which is at off, and drops what was not used for longest.
func (c *cache) put(off int64, b []byte) {
	if len(b) == 0 || int64(len(b)) > c.most {
		return
	}
	c.now++
	c.pieces = append(c.pieces, piece{off, b, c.now})
	c.have += int64(len(b))
	for c.have > c.most {
		oldest := 0
		for i := range c.pieces {
			if c.pieces[i].used < c.pieces[oldest].used {
				oldest = i
			}
		}
		c.have -= int64(len(c.pieces[oldest].b))
		last := len(c.pieces) - 1
		c.pieces[oldest] = c.pieces[last]
		c.pieces[last] = piece{}
		c.pieces = c.pieces[:last]
	}
}
