package primitiv

import "encoding/binary"

// What the reference writes is taken here, in a few instructions and without a look at anything else. Whatever is
// otherwise, legal or not, is left where it is, for the functions in parse.go, which know all forms and all errors.

// usualTensor is a tensor without a batch, and with a shape that does not end in ones.
type usualTensor struct {
	dims     [maxRank]uint32
	rank     int
	elements int64
	data     int // where the data begins
}

// take decodes the tensor at the beginning of b, up to its data.
func (t *usualTensor) take(b []byte) bool {
	const most = 1 + uintSize*(maxRank+1) + 5 // bytes before the data
	if len(b) < most {
		return false
	}
	b = b[:most:most]
	rank := int(b[0]) - codeFixArray
	if rank < 0 || rank > maxRank {
		return false
	}
	elements, last := uint64(1), uint32(0)
	at := 1
	for i := range rank {
		if b[at] != codeUint32 {
			return false
		}
		last = binary.BigEndian.Uint32(b[at+1:])
		t.dims[i] = last
		if elements *= uint64(last); elements >= maxElements {
			return false
		}
		at += uintSize
	}
	if last == 1 || elements == 0 || b[at] != codeUint32 || binary.BigEndian.Uint32(b[at+1:]) != 1 {
		return false
	}
	at += uintSize
	var size uint64
	switch b[at] {
	case codeBin8:
		size = uint64(b[at+1])
		at += 2
	case codeBin16:
		size = uint64(binary.BigEndian.Uint16(b[at+1:]))
		at += 3
	case codeBin32:
		size = uint64(binary.BigEndian.Uint32(b[at+1:]))
		at += 5
	default:
		return false
	}
	t.rank, t.elements, t.data = rank, int64(elements), at
	return size == 4*elements
}

// usualString is the string at the beginning of b, if its header is one that short names have.
func usualString(b []byte) (s []byte, ok bool) {
	switch {
	case len(b) < 2:
	case b[0]&0xe0 == codeFixStr:
		n := int(b[0] & 0x1f)
		if n < len(b) {
			return b[1 : 1+n], true
		}
	case b[0] == codeStr8:
		if n := int(b[1]); n < len(b)-1 {
			return b[2 : 2+n], true
		}
	}
	return nil, false
}

// usualParameter takes a parameter of a model that has no statistics, and whose path is one name.
func (p *parser) usualParameter() bool {
	b := p.b[p.p:]
	if len(b) < 3 || b[0] != codeFixArray|1 {
		return false
	}
	name, ok := usualString(b[1:])
	if !ok || int64(len(name)) > p.lim.MaxName {
		return false
	}
	at := 2 + len(name)
	if b[1] == codeStr8 {
		at++
	}
	t := &p.usual
	if !t.take(b[at:]) || int64(t.rank) > p.lim.MaxRank {
		return false
	}
	at += t.data
	size := 4 * t.elements
	if size > int64(len(b)-at-uintSize) {
		return false
	}
	if count := b[at+int(size):]; count[0] != codeUint32 || binary.BigEndian.Uint32(count[1:]) != 0 {
		return false
	}
	rec := p.r.records.push()
	rec.data, rec.bytes = p.offset()+int64(at), uint32(size)
	rec.name, rec.count = p.r.names.keep(name), uintSize
	rec.dims, rec.rank = p.r.dims.run(t.dims[:t.rank], 1, t.elements)
	p.name, p.lensOf, p.named = rec.name, 0, true
	p.r.values++
	p.listed += int64(len(name))
	p.payload += size
	p.p += at + int(size) + uintSize
	p.prepare(rec)
	return true
}

// prepare makes the tensor that the first listing will yield. Here that costs next to nothing, for the place of the next
// header is on its way from memory: a walk from header to header mostly waits. Only what all tensors before have is
// made, and only where the file's own metadata has been as large as what memory it takes.
func (p *parser) prepare(rec *record) {
	r := p.r
	if p.prepared != r.records.n-1 {
		return
	}
	if len(p.room) == 0 {
		if int64(p.prepared+entriesAtOnce)*entryBytes > freeEntries+(p.offset()-p.payload)*9/4 {
			return
		}
		p.room = make([]entry, min(entriesAtOnce, p.parameters-p.parameter))
		r.ready = append(r.ready, p.room)
	}
	r.fill(&p.room[0], p.prepared, rec, r.names.name(rec.name))
	p.room = p.room[1:]
	p.prepared++
}
