// Package store is what the stores of this module share: addresses, and listings in
// pages.
package store

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/tensorfile/tensorfile/remote"
	"github.com/tensorfile/tensorfile/tensor"
)

// MaxPage bounds a page of a listing, of which stores send 1,000 or 5,000 objects.
const MaxPage = 16 << 20

// maxPages bounds a listing.
const maxPages = 100_000

// Split returns the bucket and the key of SCHEME://BUCKET/KEY. The key is "" without one.
func Split(address, scheme string) (bucket, key string, err error) {
	rest, ok := strings.CutPrefix(address, scheme+"://")
	bucket, key, _ = strings.Cut(rest, "/")
	if !ok || !isBucket(bucket) {
		return "", "", fmt.Errorf("%s: %q is not an address %s://BUCKET/KEY: %w", scheme,
			address, scheme, fs.ErrInvalid)
	}
	return bucket, key, nil
}

// Object is Split for the address of an object, which has a key.
func Object(address, scheme string) (bucket, key string, err error) {
	bucket, key, err = Split(address, scheme)
	if err == nil && key == "" {
		err = fmt.Errorf("%s: %q has no key: %w", scheme, address, fs.ErrInvalid)
	}
	return bucket, key, err
}

// isBucket reports whether s can be the name of a bucket: it becomes a part of a host.
func isBucket(s string) bool {
	isLetter := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' ||
			'0' <= r && r <= '9'
	}
	for _, r := range s {
		if !isLetter(r) && !strings.ContainsRune("-_.$", r) {
			return false
		}
	}
	return s != "" && len(s) <= 255 && strings.Trim(s, ".") != ""
}

// URL returns base with a path of the elements of name, each byte encoded that may be.
func URL(base, name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(url.QueryEscape(p), "+", "%20")
	}
	return strings.TrimSuffix(base, "/") + "/" + strings.Join(parts, "/")
}

// List calls page for the first page and each that follows, until it returns no next
// one, and gives the entries whose addresses begin with prefix: the server must send no
// others.
func List(prefix string, page func(next string) ([]remote.Entry, string,
	error)) iter.Seq2[remote.Entry, error] {
	return func(yield func(remote.Entry, error) bool) {
		next := ""
		for range maxPages {
			entries, following, err := page(next)
			if err != nil {
				yield(remote.Entry{}, err)
				return
			}
			for _, e := range entries {
				if !strings.HasPrefix(e.Address, prefix) || e.Size < 0 {
					yield(remote.Entry{}, fmt.Errorf("%w: the listing of %q has %q",
						tensor.ErrMalformed, prefix, e.Address))
					return
				}
				if !yield(e, nil) {
					return
				}
			}
			if following == "" {
				return
			}
			if following == next {
				yield(remote.Entry{}, fmt.Errorf("%w: the listing of %q does not go on",
					tensor.ErrMalformed, prefix))
				return
			}
			next = following
		}
		yield(remote.Entry{}, fmt.Errorf("%w: the listing of %q has more than %d pages",
			tensor.ErrLimit, prefix, maxPages))
	}
}

// bucketPage is an answer of ListObjectsV2, of S3 and of Google's XML API.
type bucketPage struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	EncodingType          string
	IsTruncated           bool
	NextContinuationToken string
	Contents              []struct {
		Key          string
		Size         int64
		ETag         string
		LastModified string
	}
}

// ListObjects lists the objects of SCHEME://BUCKET/ whose keys begin with prefix by
// ListObjectsV2, whose answer to a query fetch returns.
func ListObjects(root, prefix string, fetch func(query string) ([]byte,
	error)) iter.Seq2[remote.Entry, error] {
	return List(root+prefix, func(next string) ([]remote.Entry, string, error) {
		query := url.Values{"list-type": {"2"}, "prefix": {prefix}, "encoding-type": {"url"}}
		if next != "" {
			query.Set("continuation-token", next)
		}
		b, err := fetch(strings.ReplaceAll(query.Encode(), "+", "%20"))
		if err != nil {
			return nil, "", err
		}
		var page bucketPage
		if err := xml.Unmarshal(b, &page); err != nil {
			return nil, "", fmt.Errorf("%w: the listing of %q: %v", tensor.ErrMalformed, root, err)
		}
		var entries []remote.Entry
		for _, c := range page.Contents {
			key := c.Key
			if page.EncodingType == "url" {
				if key, err = url.QueryUnescape(key); err != nil {
					return nil, "", fmt.Errorf("%w: the listing of %q has the key %q",
						tensor.ErrMalformed, root, c.Key)
				}
			}
			// zero where the store has another form
			modified, _ := time.Parse(time.RFC3339, c.LastModified)
			entries = append(entries, remote.Entry{Address: root + key, Size: c.Size,
				ETag: c.ETag, Modified: modified})
		}
		if page.IsTruncated && page.NextContinuationToken == "" {
			return nil, "", fmt.Errorf("%w: the listing of %q does not go on",
				tensor.ErrMalformed, root)
		}
		if !page.IsTruncated {
			page.NextContinuationToken = ""
		}
		return entries, page.NextContinuationToken, nil
	})
}

// Denied adds to an error of missing permission whose credentials were sent.
func Denied(err error, provider string) error {
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("%w; sent with %s", err, provider)
}
