package ztensor

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
)

// A long manifest is read from two places at once, where there are cores for
// it. CBOR does not tell where its middle is, so that is guessed: at the end of
// something in the second half that looks like what writers put behind a name.
// A guess proves right when the scan, reading from the start, arrives at exactly
// this byte as the first of an entry. What was read from there, by scan.quick,
// which looks at nothing that came before, is then what the scan itself would
// read next. After a wrong guess, or where the quick way ends, the scan goes on
// as if there had been nobody ahead: errors and warnings are its own.

// manyEntries is from how many on a second goroutine is worth it.
const manyEntries = 1 << 14

// An ahead reads entries from a place further on in the manifest.
type ahead struct {
	scan
	own  index
	from int     // where it began
	some [8]span // what keys begins with
	done sync.WaitGroup
	busy atomic.Bool // somebody reads from there: a, or s when it arrived before a had begun
	run  func()
}

// spare is one to use again, so that who opens file after file allocates no more
// for it.
var spare atomic.Pointer[ahead]

func newAhead() *ahead {
	a := spare.Swap(nil)
	if a == nil {
		a = new(ahead)
		a.run = a.read
	}
	return a
}

// release waits for a and keeps it for another file.
func (a *ahead) release() {
	a.done.Wait()
	*a = ahead{run: a.run}
	spare.Store(a)
}

// readAhead begins reading somewhere in the second half of the n entries at s.p,
// and makes room for all; nil where that is not worth it, or no place shows.
func (s *scan) readAhead(n int) *ahead {
	if n < manyEntries || s.r.general || runtime.GOMAXPROCS(0) == 1 {
		return nil
	}
	const window = 64 << 10 // the furthest to look for a place
	middle := s.p + (len(s.b)-s.p)/2
	keys := keys10
	if s.objects {
		keys = keys11
	}
	near := s.b[middle:min(middle+window, len(s.b))]
	i := bytes.Index(near, []byte(keys))
	if i < 0 {
		return nil
	}
	a := newAhead()
	a.cursor = cursor{b: near, p: i, deep: s.deep, keys: a.some[:0]}
	if a.skip(); a.err != nil {
		a.release()
		return nil
	}
	a.from = middle + a.p
	a.b, a.p = s.b, a.from
	a.r, a.x, a.objects = s.r, &a.own, s.objects

	// Entries are about as long in both halves. Whoever runs out of room stops
	// being quick, no more.
	before := int(int64(n) * int64(a.from-s.p) / int64(len(s.b)-s.p))
	spare := n / 64
	x := s.x
	x.reserve(n + 2*spare)
	x.tensors.split(&a.own.tensors, before+spare)
	x.components.split(&a.own.components, before+spare)
	if a.own.owned = x.owned; !x.owned {
		x.room(0)
		free := cap(x.kept.last) - len(x.kept.last)
		x.kept.split(&a.own.kept, int(int64(free)*int64(before)/int64(n)))
	}
	a.done.Add(1)
	go a.run()
	return a
}

// read reads until something is not as predicted, which the end of the entries
// is too, or there is no more room.
func (a *ahead) read() {
	defer a.done.Done()
	if a.busy.Swap(true) {
		return
	}
	read := func([]byte) error {
		for a.quick() {
		}
		return nil
	}
	// Through the source, where a page that has gone is an error of this
	// goroutine too. Nothing that was read counts then.
	inMemory, err := a.r.src.Scan(read)
	if !inMemory {
		read(nil)
	} else if err != nil {
		a.own.tensors.used = 0
	}
}

// join takes over what a has read, if that are at most n entries and s is where
// they begin, and returns how many it took.
func (s *scan) join(a *ahead, n int) int {
	x, own := s.x, &a.own
	if !a.busy.Swap(true) { // no core was free for a: only its room is wanted
		x.tensors.join(&own.tensors)
		x.components.join(&own.components)
		x.kept.join(&own.kept)
		return 0
	}
	a.done.Wait()
	read := own.tensors.used
	if s.p != a.from || s.err != nil || read == 0 || read > n {
		return 0
	}
	first := own.tensors.at(0)
	s.mixed = s.mixed || a.mixed || x.tensors.used > 0 && string(s.last) >= first.Name
	s.jumbled = s.jumbled || a.jumbled || a.end > 0 && a.begin < s.end
	if a.end > 0 {
		s.end = a.end
	}
	s.last, s.p = a.last, a.p
	x.tensors.join(&own.tensors)
	x.components.join(&own.components)
	x.dims.join(&own.dims)
	x.kept.join(&own.kept)
	return read
}

// split leaves s room for n more elements and gives what is left to t.
func (s *slab[T]) split(t *slab[T], n int) {
	n += len(s.last)
	t.last = s.last[n:n:cap(s.last)]
	s.last = s.last[:len(s.last):n]
}

// join puts what t handed out behind what s did, and t's room for more in place
// of s's.
func (s *slab[T]) join(t *slab[T]) {
	if cap(t.last) == 0 {
		return
	}
	s.retire()
	s.full = append(s.full, t.full...)
	s.last = t.last
	s.used += t.used
}
