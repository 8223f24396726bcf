package format

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func payload(off, size int64, name string) tensor.Span {
	return tensor.Span{Offset: off, Size: size, Kind: tensor.SpanTensor, Name: name}
}

func TestCoverFillsGapsWithPaddingAndUnused(t *testing.T) {
	for _, c := range []struct {
		name string
		size int64
		list []tensor.Span
		want string
	}{
		{"nothing", 0, nil, ""},
		{"no span", 5, nil, "0+5 unused"},
		{"aligned gaps are padding", 128,
			[]tensor.Span{HeaderSpan(0, 8), payload(64, 10, "a"), payload(96, 32, "b")},
			"0+8 header; 8+56 padding; 64+10 tensor a; 74+22 padding; 96+32 tensor b"},
		{"others are not", 100,
			[]tensor.Span{HeaderSpan(0, 8), payload(40, 10, "a"), payload(66, 34, "b")},
			"0+8 header; 8+32 unused; 40+10 tensor a; 50+16 unused; 66+34 tensor b"},
		{"unless they are known to be", 100,
			[]tensor.Span{HeaderSpan(0, 8), payload(40, 10, "a"), payload(66, 34, "b"),
				PaddingSpan(0, 66)},
			"0+8 header; 8+32 padding; 40+10 tensor a; 50+16 padding; 66+34 tensor b"},
		{"large gaps never are", 1 << 20,
			[]tensor.Span{HeaderSpan(0, 8), payload(1<<18, 1<<18, "a"), PaddingSpan(0, 1<<20)},
			"0+8 header; 8+262136 unused; 262144+262144 tensor a; 524288+524288 unused"},
		{"payloads inside metadata", 30,
			[]tensor.Span{MetadataSpan(0, 30), payload(20, 5, "b"), payload(3, 4, "a")},
			"0+3 metadata; 3+4 tensor a; 7+13 metadata; 20+5 tensor b; 25+5 metadata"},
		{"shared bytes belong to the first", 41,
			[]tensor.Span{payload(0, 20, "a"), payload(0, 20, "b"), payload(0, 30, "c"),
				payload(10, 25, "d"), payload(12, 3, "e")},
			"0+30 tensor c; 30+5 tensor d; 35+6 unused"},
		{"beyond the end", 16,
			[]tensor.Span{MetadataSpan(0, 100), payload(16, 1, "a"), payload(8, 1<<62, "b"),
				payload(-1, 4, "c")},
			"0+8 metadata; 8+8 tensor b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			at := int64(0)
			for s := range CoverSpans(c.size, c.list) {
				if s.Offset != at {
					t.Errorf("%+v after %d", s, at)
				}
				at += s.Size
				got = append(got,
					strings.TrimSpace(fmt.Sprintf("%d+%d %v %s", s.Offset, s.Size, s.Kind,
						s.Name)))
			}
			if s := strings.Join(got, "; "); s != c.want || at != c.size {
				t.Errorf("%s\nwant %s", s, c.want)
			}
		})
	}
}
