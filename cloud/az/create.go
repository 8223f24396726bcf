package az

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"

	"github.com/tensorfile/tensorfile/cloud/internal/store"
	"github.com/tensorfile/tensorfile/remote"
)

const (
	inFlight  = 4       // blocks that are sent at once
	maxAnswer = 1 << 20 // of a response to what is sent
)

// upload is a blob of blocks, each with a checksum that the store compares. Blocks that
// no list names are never seen, and Azure removes them after a week.
type upload struct {
	store   *Store
	address string
	replace bool
}

// Create begins a blob. It appears when its Writer is closed, or not at all.
func (s *Store) Create(ctx context.Context, address string, replace bool) (remote.ObjectWriter,
	error) {
	container, name, err := store.Object(address, "az")
	if err != nil {
		return nil, err
	}
	u := &upload{s, store.URL(s.opts.Endpoint, container+"/"+name), replace}
	return store.NewWriter(ctx, u, inFlight), nil
}

// put makes a request that stores p, under the condition of the blob where it makes
// that appear.
func (u *upload) put(ctx context.Context, query url.Values, p []byte, header http.Header,
	appears bool) error {
	address := u.address
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	sum := md5.Sum(p)
	header.Set("Content-MD5", base64.StdEncoding.EncodeToString(sum[:]))
	if appears && !u.replace {
		header.Set("If-None-Match", "*")
	}
	if p == nil {
		p = []byte{}
	}
	_, _, err := u.store.client.Send(ctx, http.MethodPut, address, header, p, maxAnswer)
	var status *remote.StatusError
	if errors.As(err, &status) && (status.Code == http.StatusPreconditionFailed ||
		status.Reason == "BlobAlreadyExists") {
		return fmt.Errorf("az: %w", fs.ErrExist)
	}
	return store.Denied(err, u.store.provider)
}

func (u *upload) Whole(ctx context.Context, p []byte) error {
	return u.put(ctx, nil, p, http.Header{"X-Ms-Blob-Type": {"BlockBlob"}}, true)
}

func (u *upload) Begin(context.Context) error { return nil }

// blockID is the name of a block; all have the same length.
func blockID(n int) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%06d",
		n))
}

func (u *upload) Part(ctx context.Context, n int, p []byte) error {
	return u.put(ctx, url.Values{"comp": {"block"}, "blockid": {blockID(n)}}, p, http.Header{},
		false)
}

func (u *upload) Complete(ctx context.Context, n int) error {
	list := struct {
		XMLName     xml.Name `xml:"BlockList"`
		Uncommitted []string
	}{}
	for i := range n {
		list.Uncommitted = append(list.Uncommitted, blockID(i+1))
	}
	body, err := xml.Marshal(list)
	if err != nil {
		return err
	}
	return u.put(ctx, url.Values{"comp": {"blocklist"}}, body,
		http.Header{"Content-Type": {"application/xml"}}, true)
}

func (u *upload) Abort(context.Context) error { return nil }
