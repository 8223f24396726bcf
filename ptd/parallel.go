package ptd

import (
	"sync"
	"sync/atomic"

	"github.com/tensorfile/tensorfile/internal/names"
)

// A part is what one goroutine reads.
type part struct {
	parser
	allSegments, allNamed list
	k, of                 int // of so many parts
	lo, hi                int // entries
	layouts               int // that they have
	filler                names.Filler
	err                   error

	// Of its segments: where they begin and end, and whether that is all there is to say about them.
	first, end uint64
	plain      bool
}

// A crew are the parts of a file. The first has what is for all.
type crew []struct {
	part
	work    func(*part)
	begun   atomic.Int32
	running sync.WaitGroup
}

// each has work done for each part, each on a goroutine and one on this.
func (c crew) each(run func(), work func(*part)) {
	all := &c[0]
	all.work = work
	all.begun.Store(0)
	all.running.Add(len(c))
	for range len(c) - 1 {
		go run()
	}
	run()
	all.running.Wait()
}

// run does the work of a part that nobody has begun.
func (c crew) run() {
	all := &c[0]
	q := &c[all.begun.Add(1)-1].part
	defer all.running.Done()
	defer func() {
		if e := recover(); e != nil {
			q.err = bug(e)
		}
	}()
	all.work(q)
}

// parallel reads segments and entries in ranges.
func (p *parser) parallel(segments, named list, namedAt int64, workers int) error {
	if err := p.roomForSegments(segments); err != nil {
		return err
	}
	c := make(crew, workers)
	run := c.run // for all, so that their number costs no allocations
	n := named.n - 1
	for k := range c {
		c[k].part = part{parser: *p, allSegments: segments, allNamed: named, k: k, of: workers, lo: 1 + n*k/workers, hi: 1 + n*(k+1)/workers}
	}
	c.each(run, (*part).look)
	plain, end, tensors := true, uint64(0), p.count(named, 0, 1)
	first := tensors
	for k := range c {
		q := &c[k].part
		if q.err != nil {
			return q.err
		}
		plain = plain && q.plain && q.first >= end
		end = max(end, q.end)
		tensors += q.layouts
	}
	if !plain {
		if err := p.segments(segments); err != nil {
			return err
		}
	}
	if err := p.room(tensors, named.n-tensors, namedAt, "named_data"); err != nil {
		return err
	}
	// The first entry makes room for all, as if all were like it; the parts share that room.
	if err := p.rows(named, 0, 1, named.n); err != nil {
		return err
	}
	if hashes := 8 * int64(named.n); p.r.budget.Load() > 8*hashes && p.spend(hashes) {
		p.hashes = make([]uint64, named.n)
		p.hashes[0] = p.r.table.Hash(p.r.names.NameAt(0))
	}
	for k := range c {
		q := &c[k].part
		q.parser = *p
		q.strays, q.names, q.warnings = 0, 0, nil
		lo, hi := q.lo-1, q.hi-1
		q.text, q.extents = share(p.text, lo, hi, n), share(p.extents, lo, hi, n)
		q.dims, q.orders = share(p.dims, lo, hi, n), share(p.orders, lo, hi, n)
		q.tensors = first
		first += q.layouts
	}
	c.each(run, (*part).read)
	for k := range c {
		// The first error in the file is the error, as if one had read it all.
		q := &c[k].part
		if q.err != nil {
			return q.err
		}
		p.names += q.names
		p.strays += q.strays
		for _, w := range q.warnings {
			p.tolerate(w)
		}
	}
	if p.hashes == nil {
		return nil
	}
	c.each(run, (*part).fill)
	p.filled = true
	for k := range c {
		p.filled = p.filled && c[k].err == nil && c[k].filler.Finish(&p.r.table, p.hashes)
	}
	return nil
}

// look reads the segments of a part, and counts the layouts of its entries.
func (q *part) look() {
	n := q.allSegments.n
	q.first, q.end, q.plain = q.plainSegments(q.allSegments, n*q.k/q.of, n*(q.k+1)/q.of)
	q.layouts = q.count(q.allNamed, q.lo, q.hi)
}

func (q *part) read() { q.err = q.rows(q.allNamed, q.lo, q.hi, q.hi) }

func (q *part) fill() { q.filler.Fill(&q.r.table, q.hashes, q.k, q.of) }

// share is the room behind s that entries lo to hi of n have: each the same, if there is as much.
func share[T any](s []T, lo, hi, n int) []T {
	room := cap(s) - len(s)
	if each := room / n; each > 0 {
		lo, hi = len(s)+each*lo, len(s)+each*hi
	} else {
		lo, hi = len(s)+int(int64(room)*int64(lo)/int64(n)), len(s)+int(int64(room)*int64(hi)/int64(n))
	}
	return s[lo:lo:hi]
}
