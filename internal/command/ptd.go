package command

import "github.com/tensorfile/tensorfile/ptd"

func ptdView(r *ptd.Reader) view {
	return view{
		facts: func() object {
			segments := []object{}
			for _, s := range r.Segments() {
				segments = append(segments, object{{"offset", s.Offset}, {"size", s.Size}})
			}
			return object{{"schema", r.Schema()}, {"alignment", r.Alignment()}, {"segments", segments}}
		},
		metadata: func() []span {
			h := r.Header()
			return []span{
				{0, 8 + int64(h.Length), "header"},
				{8 + h.FlatbufferOffset, h.FlatbufferSize - 8, "flatbuffer"},
			}
		},
	}
}

// ptdLike are the options that write a file like r: its alignment. Entries that
// share their bytes do so again.
func ptdLike(r *ptd.Reader) *ptd.WriterOptions {
	return &ptd.WriterOptions{SegmentAlignment: r.Alignment()}
}
