package format

import (
	"bytes"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestPatchedFileReadsItsSectionsAndTheRest(t *testing.T) {
	file := []byte("0123456789")
	ranges := func(off, size int64) tensor.Blob { return tensor.BlobOf(file[off : off+size]) }
	piece := func(off int64, data string) Section {
		return Section{Name: data, Off: off, Size: int64(len(data)),
			Data: tensor.BlobOf([]byte(data))}
	}
	o, err := NewPatchedFile(ranges, []Section{piece(7, "xy"), piece(2, "abc")})
	if err != nil {
		t.Fatal(err)
	}
	whole := []byte("01abc56xy9")
	for off := range int64(len(file)) {
		for end := off; end <= int64(len(file)); end++ {
			var got bytes.Buffer
			if err := WriteTo(t.Context(), &got, func(out *Output) error {
				return WriteSections(out, nil, o.Sections(off, end-off, 0), end-off)
			}); err != nil {
				t.Fatal(err)
			}
			if want := whole[off:end]; !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%d to %d: %q, want %q", off, end, got.Bytes(), want)
			}
			changed := !bytes.Equal(file[off:end], whole[off:end])
			if o.Changes(off, end-off) != changed {
				t.Errorf("%d to %d: changes are not %v", off, end, changed)
			}
		}
	}
	if _, err := NewPatchedFile(ranges, []Section{piece(2, "abc"), piece(4, "x")}); err == nil {
		t.Error("sections that overlap")
	}
}

func TestRangesThatOverlapAreFound(t *testing.T) {
	var u Ranges
	for id, r := range [][2]int64{{0, 10}, {20, 5}, {5, 2}, {5, 0}, {22, 1}} {
		u.Add(r[0], r[1], id)
	}
	u.Sort()
	for _, c := range []struct {
		off, size int64
		want      []int
	}{{0, 1, []int{0}}, {5, 1, []int{0, 2}}, {7, 3, []int{0}}, {10, 10, nil}, {22, 9, []int{1, 4}},
		{24, 1, []int{1}}} {
		if got := u.Overlapping(c.off, c.size); !slices.Equal(got, c.want) {
			t.Errorf("%d bytes at %d: %v, want %v", c.size, c.off, got, c.want)
		}
	}
}
