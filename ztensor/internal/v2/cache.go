package v2

import (
	"slices"
	"sync"
)

// A frameCache holds the frames of a file that were used last, so that neighbouring parts
// of a payload are decoded once: at most cacheSize bytes of them, which grows up to
// maxCache by each frame that is decoded a second time.
type frameCache struct {
	mu    sync.Mutex
	list  []cachedFrame // the one that was used last comes last
	size  int
	extra int
}

const (
	cacheSize = MaxFrame
	maxCache  = 8 * MaxFrame
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
