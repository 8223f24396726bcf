package gs

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/cloud/internal/store"
	"github.com/tensorfile/tensorfile/remote"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	maxAnswer = 1 << 20 // of what is answered to what is sent
	// step divides the size of every chunk but the last.
	step = 256 << 10
	// maxPieces bounds the requests for one chunk, of which the store keeps what it
	// likes.
	maxPieces = 100
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// upload is an object that a session of the JSON API takes chunk after chunk. Sessions
// that were given up end after a week.
type upload struct {
	store       *Store
	bucket, key string
	replace     bool
	session     string // its address
	size        int64  // what the store has
	rest        []byte // what it has not, of less than a step where there are chunks
	sum         uint32 // CRC-32C of both
}

// Create begins an object. It appears when its Writer is closed, or not at all. Chunks
// of at least 8 MiB are sent one after the other, while the next is being written.
func (s *Store) Create(ctx context.Context, address string, replace bool) (remote.ObjectWriter,
	error) {
	bucket, key, err := store.Object(address, "gs")
	if err != nil {
		return nil, err
	}
	if s.writing != nil {
		s = s.writing
	}
	return store.NewWriter(ctx, &upload{store: s, bucket: bucket, key: key, replace: replace},
		1), nil
}

func (u *upload) send(ctx context.Context, method, address string, header http.Header,
	body []byte) ([]byte, http.Header, error) {
	b, h, err := u.store.client.Send(ctx, method, address, header, body, maxAnswer)
	var status *remote.StatusError
	if errors.As(err, &status) && status.Code == http.StatusPreconditionFailed {
		return nil, nil, fmt.Errorf("gs: %w", fs.ErrExist)
	}
	return b, h, u.store.denied(err)
}

// Begin opens the session, which the store must have at its own host.
func (u *upload) Begin(ctx context.Context) error {
	query := url.Values{"uploadType": {"resumable"}, "name": {u.key}}
	if !u.replace {
		query.Set("ifGenerationMatch", "0")
	}
	_, h, err := u.send(ctx, http.MethodPost,
		store.URL(u.store.base, "upload/storage/v1/b/"+u.bucket+"/o")+"?"+query.Encode(),
		http.Header{"Content-Type": {"application/json"}}, []byte("{}"))
	if err != nil {
		return err
	}
	base, err := url.Parse(u.store.base)
	if err != nil {
		return err
	}
	session, err := url.Parse(h.Get("Location"))
	if err != nil || session.Scheme != base.Scheme || session.Host != base.Host {
		return fmt.Errorf("gs: %w: the store opens no session at its host", tensor.ErrMalformed)
	}
	u.session = session.String()
	return nil
}

// Part sends the next chunk, of which the store takes whole steps; the rest, which only
// the last one has, is sent by Complete. Bytes that the store has not kept are sent
// again.
func (u *upload) Part(ctx context.Context, _ int, p []byte) error {
	u.sum = crc32.Update(u.sum, castagnoli, p)
	whole := len(p) &^ (step - 1)
	u.rest, p = bytes.Clone(p[whole:]), p[:whole]
	for range maxPieces {
		if len(p) == 0 {
			return nil
		}
		end := u.size + int64(len(p))
		_, h, err := u.send(ctx, http.MethodPut, u.session, http.Header{"Content-Range": {
			fmt.Sprintf("bytes %d-%d/*", u.size, end-1)}}, p)
		if err != nil {
			return err
		}
		last, err := strconv.ParseInt(strings.TrimPrefix(h.Get("Range"), "bytes=0-"), 10, 64)
		if err != nil || last < u.size || last >= end {
			break
		}
		p, u.size = p[last+1-u.size:], last+1
	}
	return fmt.Errorf("gs: %w: the store does not say what it has of the object",
		tensor.ErrMalformed)
}

func (u *upload) Whole(ctx context.Context, p []byte) error {
	if err := u.Begin(ctx); err != nil {
		return err
	}
	u.sum, u.rest = crc32.Checksum(p, castagnoli), p
	return u.Complete(ctx, 1)
}

// Complete ends the session. An object that is not what was sent is removed.
func (u *upload) Complete(ctx context.Context, _ int) error {
	total := u.size + int64(len(u.rest))
	contentRange := fmt.Sprintf("bytes %d-%d/%d", u.size, total-1, total)
	if len(u.rest) == 0 {
		contentRange, u.rest = fmt.Sprintf("bytes */%d", total), []byte{}
	}
	b, _, err := u.send(ctx, http.MethodPut, u.session,
		http.Header{"Content-Range": {contentRange}}, u.rest)
	if err != nil {
		return err
	}
	var object struct{ Size, CRC32C, Generation string }
	if json.Unmarshal(b, &object) != nil || object.Size == "" {
		return fmt.Errorf("gs: %w: the store does not complete the object", tensor.ErrMalformed)
	}
	sum := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, u.sum))
	if object.Size == strconv.FormatInt(total, 10) && object.CRC32C == sum {
		return nil
	}
	err = fmt.Errorf("gs: %w: the object has %q bytes and the CRC-32C %q, not %d and %q",
		tensor.ErrChecksum, object.Size, object.CRC32C, total, sum)
	if object.Generation != "" {
		_, _, failed := u.send(ctx, http.MethodDelete, fmt.Sprintf("%s/storage/v1/b/%s/o/%s?%s",
			strings.TrimSuffix(u.store.base, "/"), u.bucket, url.PathEscape(u.key),
			url.Values{"generation": {object.Generation}}.Encode()), http.Header{}, nil)
		err = errors.Join(err, failed)
	}
	return err
}

func (u *upload) Abort(ctx context.Context) error {
	_, _, err := u.store.client.Send(ctx, http.MethodDelete, u.session, http.Header{}, nil,
		maxAnswer)
	return err
}
