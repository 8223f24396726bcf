package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// A Repository is a repository of Hugging Face's Hub at one commit, or a directory of it.
// Names, sizes and digests are known from its listing.
type Repository struct {
	FS
	hub  *hub
	root string // address of the repository, a slash after it
}

const (
	maxPage  = 64 << 20
	maxPages = 100_000
)

// OpenRepository lists a repository, or the directory of it that address has as its
// path, with one request for about 1,000 files. Reads fail when ctx is done.
// opts.MaxBytes holds for each file.
func OpenRepository(ctx context.Context, address string, opts *Options) (*Repository, error) {
	h, err := openHub(ctx, address, opts)
	if err != nil {
		return nil, err
	}
	root := "hf://" + h.kind + "/" + h.name + "@" + h.commit + "/"
	r := &Repository{newFS(strings.TrimSuffix(root+h.path, "/") + "/"), h, root}
	r.close = h.client.Close
	r.open = func(e Entry) (io.ReaderAt, int64, error) {
		f, err := h.open(strings.TrimPrefix(e.Address, root), e.Size)
		if err != nil {
			return nil, 0, err
		}
		return f, f.Size(), nil
	}
	if err := r.list(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// A treeRow is a row of the Hub's listing.
type treeRow struct {
	Type string `json:"type"`
	Path string `json:"path"`
	Size int64  `json:"size"`
	OID  string `json:"oid"`
	LFS  *struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	} `json:"lfs"`
}

// list reads the pages of the listing.
func (r *Repository) list() error {
	h := r.hub
	rest := h.commit
	if h.path != "" {
		rest += (&url.URL{Path: "/" + h.path}).EscapedPath()
	}
	b, header, err := h.get("tree", rest, "recursive=true", maxPage)
	for page := 1; ; page++ {
		if err != nil {
			return err
		}
		var rows []treeRow
		if err := json.Unmarshal(b, &rows); err != nil {
			return r.malformed("page %d of its listing is not a list of files", page)
		}
		for _, row := range rows {
			if row.Type != "file" {
				continue // directories follow from the names of files
			}
			e := Entry{Address: r.root + row.Path, Size: row.Size, GitSHA: row.OID}
			if row.LFS != nil { // what git has is a pointer
				e.Size, e.SHA256, e.GitSHA = row.LFS.Size, row.LFS.OID, ""
			}
			if err := r.enter(e); err != nil {
				return err
			}
		}
		next := nextPage(header.Values("Link"))
		if next == "" {
			break
		}
		u, e := h.endpoint.Parse(next)
		if e != nil || !sameOrigin(u, h.endpoint) {
			return r.malformed("its listing goes on at another host")
		}
		if page == maxPages {
			return fmt.Errorf("remote: %s: %w: more than %d pages", r.prefix, tensor.ErrLimit,
				page)
		}
		b, header, err = h.client.Fetch(h.ctx, u.String(), maxPage)
	}
	r.sort()
	return nil
}

// nextPage returns the address that Link headers name as the next page.
func nextPage(links []string) string {
	for _, link := range links {
		for _, l := range strings.Split(link, ",") {
			to, params, _ := strings.Cut(strings.TrimSpace(l), ";")
			if strings.Contains(params, `rel="next"`) && strings.HasPrefix(to, "<") {
				return strings.Trim(to, "<>")
			}
		}
	}
	return ""
}

// Repository returns ORG/NAME and the commit.
func (r *Repository) Repository() (name, commit string) { return r.hub.name, r.hub.commit }

// Digest returns what the listing says of a file: its SHA-256, or git's SHA-1, in
// hexadecimal; "" where it says nothing.
func (r *Repository) Digest(name string) (sha256, git string) {
	e := r.files[name]
	return e.SHA256, e.GitSHA
}
