package remote

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestPagesAreJoinedUpToALimit(t *testing.T) {
	failed := errors.New("failed")
	entries := func(names ...string) (all []Entry) {
		for _, name := range names {
			all = append(all, Entry{Address: name})
		}
		return all
	}
	many := make([]Entry, maxEntries/2)
	for i := range many {
		many[i].Address = "x/"
	}
	for _, c := range []struct {
		name     string
		maxBytes int64
		pages    map[string]Page
		want     []string // addresses, unless there are too many
		err      error
	}{
		{"of three pages", 0, map[string]Page{"": {entries("x/a"), "1", 10},
			"1": {nil, "2", 10}, "2": {entries("x/b", "x/c"), "", 10}},
			[]string{"x/a", "x/b", "x/c"}, nil},
		{"that fails", 0, map[string]Page{"": {entries("x/a"), "absent", 10}},
			[]string{"x/a"}, failed},
		{"of another prefix", 0, map[string]Page{"": {entries("x/a", "y/b"), "", 10}},
			[]string{"x/a"}, tensor.ErrMalformed},
		{"with a negative size", 0, map[string]Page{"": {[]Entry{{Address: "x/a", Size: -1}}, "",
			10}}, nil, tensor.ErrMalformed},
		{"that leads back to the page itself", 0, map[string]Page{"": {nil, "1", 10},
			"1": {entries("x/a"), "1", 10}}, []string{"x/a"}, tensor.ErrMalformed},
		{"that leads back over another page", 0, map[string]Page{"": {nil, "1", 10},
			"1": {entries("x/a"), "2", 10}, "2": {entries("x/b"), "1", 10}},
			[]string{"x/a", "x/b"}, tensor.ErrMalformed},
		{"of more bytes than the limit", 5000, map[string]Page{"": {entries("x/a"), "1", 3000},
			"1": {nil, "2", 2000}, "2": {entries("x/b"), "", 10}}, []string{"x/a"},
			tensor.ErrLimit},
		{"of too many entries", 0, map[string]Page{"": {many, "1", 10}, "1": {many, "2", 10},
			"2": {entries("x/a"), "", 10}}, nil, tensor.ErrLimit},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, err := NewClient(&Options{MaxBytes: c.maxBytes})
			if err != nil {
				t.Fatal(err)
			}
			left := c.maxBytes
			fetch := func(next string, limit int64) (Page, error) {
				page, ok := c.pages[next]
				if !ok {
					return Page{}, failed
				}
				if c.maxBytes > 0 && limit != left {
					t.Errorf("page %q may have %d bytes, want %d", next, limit, left)
				}
				left -= page.Size
				return page, nil
			}
			var got []string
			for e, e2 := range client.Pages("x/", fetch) {
				if err = e2; err == nil && e.Address != "x/" {
					got = append(got, e.Address)
				}
			}
			if !slices.Equal(got, c.want) || !errors.Is(err, c.err) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// Pages without an entry take no memory, but time.
func TestPagesThatDoNotEndAreALimit(t *testing.T) {
	client, err := NewClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err = range client.Pages("x/", func(string, int64) (Page, error) {
		n++
		return Page{Next: fmt.Sprint(n), Size: maxPage}, nil
	}) {
	}
	if !errors.Is(err, tensor.ErrLimit) || n != maxListing/maxPage {
		t.Errorf("%v after %d pages", err, n)
	}
}
