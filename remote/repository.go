package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Repository is a repository of Hugging Face's Hub at one commit, or a directory of it.
// Names, sizes and digests are known from its listing.
type Repository struct {
	FS
	hub  *hub
	root string // address of the repository, a slash after it
}

// OpenRepository lists a repository, or the directory of it that address has as its
// path, with one request for about 1,000 files. Reads fail when ctx is done.
// opts.MaxBytes holds for the listing and for each file.
func OpenRepository(ctx context.Context, address string, opts *Options) (*Repository, error) {
	h, err := openHub(ctx, address, opts)
	if err != nil {
		return nil, err
	}
	root := "hf://" + h.kind + "/" + h.name + "@" + h.commit + "/"
	r := &Repository{FS{prefix: strings.TrimSuffix(root+h.path, "/") + "/"}, h, root}
	r.close = h.client.Close
	r.open = func(e Entry) (io.ReaderAt, int64, error) {
		f, err := h.open(strings.TrimPrefix(e.Address, root), e.Size)
		if err != nil {
			return nil, 0, err
		}
		return f, f.Size(), nil
	}
	if err := r.enter(h.client.Pages(r.prefix, r.page)); err != nil {
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

// page fetches the page of the listing at an address, "" for the first one.
func (r *Repository) page(next string, limit int64) (Page, error) {
	h := r.hub
	var b []byte
	var header http.Header
	var err error
	if next == "" {
		rest := h.commit
		if h.path != "" {
			rest += (&url.URL{Path: "/" + h.path}).EscapedPath()
		}
		b, header, err = h.get("tree", rest, "recursive=true", limit)
	} else {
		b, header, err = h.client.Fetch(h.ctx, next, limit)
	}
	page := Page{Size: int64(len(b))}
	if err != nil {
		return page, err
	}
	malformed := r.failed(tensor.ErrMalformed, "its listing is not a list of files")
	rows := json.NewDecoder(bytes.NewReader(b))
	if start, err := rows.Token(); err != nil || start != json.Delim('[') {
		return page, malformed
	}
	for rows.More() {
		var row treeRow
		err := rows.Decode(&row)
		switch {
		case err != nil:
			return page, malformed
		case row.Type != "file":
			continue // directories follow from the names of files
		case row.Path == "" || strings.HasSuffix(row.Path, "/"):
			return page, r.failed(tensor.ErrMalformed, "its listing has the file %s",
				naming.Quote(row.Path))
		}
		e := Entry{Address: r.root + row.Path, Size: row.Size, GitSHA: row.OID}
		if row.LFS != nil { // what git has is a pointer
			e.Size, e.SHA256, e.GitSHA = row.LFS.Size, row.LFS.OID, ""
		}
		page.Entries = append(page.Entries, e)
	}
	if _, err := rows.Token(); err != nil {
		return page, malformed
	}
	if following := nextPage(header.Values("Link")); following != "" {
		u, err := h.endpoint.Parse(following)
		if err != nil || !sameOrigin(u, h.endpoint) {
			return page, r.failed(tensor.ErrMalformed, "its listing goes on at another host")
		}
		page.Next = u.String()
	}
	return page, nil
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

// Digest returns the digest of a file from the listing: its SHA-256, or git's SHA-1, in
// hexadecimal; "" if the listing has none.
func (r *Repository) Digest(name string) (sha256, git string) {
	e := r.files[name]
	return e.SHA256, e.GitSHA
}
