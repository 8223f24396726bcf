package fb_test

import (
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
)

func TestVerifySummary(t *testing.T) {
	old := fb.Schema{Tables: []fb.Table{
		{Name: "Root", Fields: []fb.Field{{Name: "list", Slot: 4, Kind: fb.Tables, Index: 1}}},
		{Name: "Item", Fields: []fb.Field{{Name: "a", Slot: 4, Kind: fb.Scalar, Type: fb.Uint32, Size: 4}}},
	}}
	var b fb.Builder
	item := func(slot int) fb.Offset {
		b.Begin()
		b.Scalar(slot, 4, 7, 0)
		return b.End()
	}
	known, newer := item(4), item(8)
	list := b.Offsets([]fb.Offset{known, newer, newer, known})
	b.Begin()
	b.Ref(4, list)
	buf, err := b.Finish(b.End(), "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := fb.VerifySummary(buf, &old, 0, fb.Limits{})
	if err != nil || s.Tables != 5 {
		t.Errorf("%d tables, %v", s.Tables, err)
	}
	where := []fb.NewerTable{{Table: 1, Pos: int64(len(buf)) - int64(newer)}}
	if !slices.Equal(s.Newer, where) {
		t.Errorf("newer tables %v, want %v", s.Newer, where)
	}
}
