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

// Rows are elements of a listing, each of which becomes an entry as it is decoded.
type Rows[Row interface{ Entry() (remote.Entry, error) }] []remote.Entry

// UnmarshalXML adds one element.
func (r *Rows[Row]) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	var row Row
	if err := d.DecodeElement(&row, &start); err != nil {
		return err
	}
	e, err := row.Entry()
	if err == nil && e.Address != "" {
		*r = append(*r, e)
	}
	return err
}

// An object is an element of bucketPage.
type object struct {
	Key          string
	Size         int64
	ETag         string
	LastModified string
}

// Entry returns an entry with the key, still encoded, as its address.
func (o object) Entry() (remote.Entry, error) {
	if o.Key == "" {
		return remote.Entry{}, errors.New("an object without a key")
	}
	// zero where the store has another form
	modified, _ := time.Parse(time.RFC3339, o.LastModified)
	return remote.Entry{Address: o.Key, Size: o.Size, ETag: o.ETag, Modified: modified}, nil
}

// bucketPage is a response of ListObjectsV2, of S3 and of Google's XML API.
type bucketPage struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	EncodingType          string
	IsTruncated           bool
	NextContinuationToken string
	Contents              Rows[object]
}

// ListObjects lists the objects of SCHEME://BUCKET/ whose keys begin with prefix by
// ListObjectsV2, whose response to a query, of at most limit bytes, fetch returns.
func ListObjects(c *remote.Client, root, prefix string,
	fetch func(query string, limit int64) ([]byte, error)) iter.Seq2[remote.Entry, error] {
	return c.Pages(root+prefix, func(next string, limit int64) (remote.Page, error) {
		query := url.Values{"list-type": {"2"}, "prefix": {prefix}, "encoding-type": {"url"}}
		if next != "" {
			query.Set("continuation-token", next)
		}
		b, err := fetch(strings.ReplaceAll(query.Encode(), "+", "%20"), limit)
		if err != nil {
			return remote.Page{}, err
		}
		var page bucketPage
		if err := xml.Unmarshal(b, &page); err != nil {
			return remote.Page{}, Malformed(root, err)
		}
		for i, e := range page.Contents {
			key := e.Address
			if page.EncodingType == "url" {
				if key, err = url.QueryUnescape(key); err != nil {
					return remote.Page{}, Malformed(root, err)
				}
			}
			page.Contents[i].Address = root + key
		}
		if !page.IsTruncated {
			page.NextContinuationToken = ""
		} else if page.NextContinuationToken == "" {
			return remote.Page{}, Malformed(root, errors.New("it does not go on"))
		}
		return remote.Page{Entries: page.Contents, Next: page.NextContinuationToken,
			Size: int64(len(b))}, nil
	})
}

// Malformed is the error of a listing of root that cannot be read.
func Malformed(root string, err error) error {
	return fmt.Errorf("%w: the listing of %q: %v", tensor.ErrMalformed, root, err)
}

// Denied adds to an error of missing permission whose credentials were sent.
func Denied(err error, provider string) error {
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("%w; sent with %s", err, provider)
}
