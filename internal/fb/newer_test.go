package fb_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
)

func TestVerifySummaryTellsWhatANewerSchemaHas(t *testing.T) {
	old := fb.Schema{Tables: []fb.Table{
		{Name: "Root", Fields: []fb.Field{{Name: "list", Slot: 4, Kind: fb.Tables, Index: 1}}},
		{Name: "Item", Fields: []fb.Field{{Name: "a", Slot: 4, Kind: fb.Scalar, Type: fb.Uint32,
			Size: 4}}},
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

// Tables that share a large vtable do not make a small buffer expensive to search.
func TestSearchForNewerFieldsIsBounded(t *testing.T) {
	schema := fb.Schema{Tables: []fb.Table{
		{Name: "Root", Fields: []fb.Field{{Name: "list", Slot: 4, Kind: fb.Tables, Index: 1}}},
		{Name: "Item"},
	}}
	const lastSlot, n = 65000, 50
	var b fb.Builder
	items := make([]fb.Offset, n)
	for i := range items {
		b.Begin()
		b.Scalar(lastSlot, 1, 7, 0)
		items[i] = b.End()
	}
	list := b.Offsets(items)
	b.Begin()
	b.Ref(4, list)
	buf, err := b.Finish(b.End(), "")
	if err != nil {
		t.Fatal(err)
	}
	searched, refused := 0, 0
	fb.EachTable(buf, &schema, 0, func(v *fb.Visit) bool {
		v.Newer(func(_ int, what string) {
			if strings.HasPrefix(what, "field ") {
				searched++
			} else {
				refused++
			}
		})
		return true
	})
	if searched+refused != n || searched*lastSlot > 4*len(buf) || searched == 0 {
		t.Errorf("%d vtables of %d bytes searched, %d not, in %d bytes", searched, lastSlot,
			refused, len(buf))
	}
	if _, err := fb.Take(buf, &schema, 0, nil); !errors.Is(err, fb.ErrUnknown) {
		t.Error(err)
	}
	if s, err := fb.VerifySummary(buf, &schema, 0, fb.Limits{}); err != nil || len(s.Newer) != 1 {
		t.Error(s, err)
	}
}
