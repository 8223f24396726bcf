package command

import "github.com/tensorfile/tensorfile/ptd"

// A segmentFact is a segment of a .ptd or .pte.
type segmentFact struct {
	Offset int64    `json:"offset"`
	Size   int64    `json:"size"`
	Roles  []string `json:"roles,omitempty"`
}

// ptdFacts are the facts of a .ptd.
type ptdFacts struct {
	Schema    string        `json:"schema"`
	Alignment int64         `json:"alignment"`
	Segments  []segmentFact `json:"segments"`
}

func ptdView(r *ptd.Reader) view {
	return view{facts: func() any {
		f := ptdFacts{Schema: r.Schema(), Alignment: r.Alignment(), Segments: []segmentFact{}}
		for _, s := range r.Segments() {
			f.Segments = append(f.Segments, segmentFact{Offset: s.Offset, Size: s.Size})
		}
		return f
	}}
}

// ptdLike are the options that write a file like r: its alignment. Entries that
// share their bytes do so again.
func ptdLike(r *ptd.Reader) *ptd.WriterOptions {
	return &ptd.WriterOptions{SegmentAlignment: r.Alignment()}
}
