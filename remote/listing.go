package remote

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Page is a part of a listing.
type Page struct {
	Entries []Entry
	Next    string // names the page that follows; "" if this is the last one
	Size    int64  // of the response, in bytes
}

const (
	// maxPage bounds the response for one page. Servers send 1,000 or 5,000 entries.
	maxPage = 16 << 20
	// maxListing bounds the responses of a listing together, each of which counts as
	// minPage bytes at least.
	maxListing = 1 << 30
	minPage    = 1 << 10
	maxEntries = 1 << 20
)

// Pages lists the objects whose addresses begin with prefix. It calls fetch for the first
// page, whose name is "", and for each page that follows; a response may have limit
// bytes. Every entry must begin with prefix. It fails with tensor.ErrMalformed if a page
// leads back to an earlier one, and with tensor.ErrLimit for more than a million entries,
// 1 GiB, or Options.MaxBytes.
func (c *Client) Pages(prefix string,
	fetch func(next string, limit int64) (Page, error)) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		fail := func(class error, format string, args ...any) {
			yield(Entry{}, fmt.Errorf("remote: the listing of %s: %w: %s", naming.Quote(prefix),
				class, fmt.Sprintf(format, args...)))
		}
		most := int64(maxListing)
		if c.opts.MaxBytes > 0 {
			most = min(most, c.opts.MaxBytes)
		}
		entries, left, next := 0, most, ""
		seen := map[[sha256.Size]byte]bool{}
		for {
			if left <= 0 {
				fail(tensor.ErrLimit, "more than %d bytes", most)
				return
			}
			page, err := fetch(next, min(maxPage, left))
			if err != nil {
				yield(Entry{}, err)
				return
			}
			left -= max(page.Size, minPage)
			for _, e := range page.Entries {
				switch entries++; {
				case entries > maxEntries:
					fail(tensor.ErrLimit, "more than %d entries", maxEntries)
					return
				case !strings.HasPrefix(e.Address, prefix) || e.Size < 0:
					fail(tensor.ErrMalformed, "it has %s", naming.Quote(e.Address))
					return
				}
				if !yield(e, nil) {
					return
				}
			}
			if next = page.Next; next == "" {
				return
			}
			sum := sha256.Sum256([]byte(next))
			if seen[sum] {
				fail(tensor.ErrMalformed, "it leads back to an earlier page")
				return
			}
			seen[sum] = true
		}
	}
}
