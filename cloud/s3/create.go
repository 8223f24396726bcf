package s3

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/xml"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/tensorfile/tensorfile/cloud/internal/store"
	"github.com/tensorfile/tensorfile/remote"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	maxAnswer   = 1 << 20 // of what is answered to what is sent
	maxAttempts = 3       // at completing an object
	inFlight    = 4       // parts that are sent at once
	pause       = 200 * time.Millisecond
)

// upload is an object in parts, each with a checksum that the store compares.
type upload struct {
	store       *Store
	bucket, key string
	replace     bool
	id          string
	mu          sync.Mutex
	parts       map[int]part
}

type part struct {
	PartNumber     int
	ETag           string
	ChecksumCRC32C string
}

// Create begins an object. It appears when its Writer is closed, or not at all.
func (s *Store) Create(ctx context.Context, address string, replace bool) (remote.ObjectWriter,
	error) {
	bucket, key, err := store.Object(address, "s3")
	if err != nil {
		return nil, err
	}
	return store.NewWriter(ctx, &upload{store: s, bucket: bucket, key: key, replace: replace,
		parts: map[int]part{}}, inFlight), nil
}

// send makes a request about the object.
func (u *upload) send(ctx context.Context, method string, query url.Values, header http.Header,
	body []byte) (b []byte, h http.Header, err error) {
	err = u.store.in(u.bucket, func(in *bucket) (err error) {
		address := store.URL(in.base, u.key)
		if len(query) > 0 {
			address += "?" + query.Encode()
		}
		b, h, err = in.client.Send(ctx, method, address, header, body, maxAnswer)
		return err
	})
	var status *remote.StatusError
	if errors.As(err, &status) && status.Code == http.StatusPreconditionFailed {
		return nil, nil, fmt.Errorf("s3: %w", fs.ErrExist)
	}
	return b, h, err
}

// condition keeps an object that is there.
func (u *upload) condition() http.Header {
	h := http.Header{}
	if !u.replace {
		h.Set("If-None-Match", "*")
	}
	return h
}

// crc32c is the checksum of p as headers have it.
func crc32c(p []byte) string {
	sum := crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

func (u *upload) Whole(ctx context.Context, p []byte) error {
	h := u.condition()
	h.Set("X-Amz-Checksum-Crc32c", crc32c(p))
	if p == nil {
		p = []byte{}
	}
	_, _, err := u.send(ctx, http.MethodPut, nil, h, p)
	return err
}

func (u *upload) Begin(ctx context.Context) error {
	b, _, err := u.send(ctx, http.MethodPost, url.Values{"uploads": {""}},
		http.Header{"X-Amz-Checksum-Algorithm": {"CRC32C"}}, []byte{})
	if err != nil {
		return err
	}
	var answer struct {
		XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
		UploadId string
	}
	if err := xml.Unmarshal(b, &answer); err != nil || answer.UploadId == "" {
		return fmt.Errorf("s3: %w: the store names no upload", tensor.ErrMalformed)
	}
	u.id = answer.UploadId
	return nil
}

func (u *upload) Part(ctx context.Context, n int, p []byte) error {
	sum := crc32c(p)
	query := url.Values{"partNumber": {fmt.Sprint(n)}, "uploadId": {u.id}}
	_, h, err := u.send(ctx, http.MethodPut, query, http.Header{"X-Amz-Checksum-Crc32c": {sum}}, p)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.parts[n] = part{n, h.Get("ETag"), sum}
	return nil
}

func (u *upload) Complete(ctx context.Context, n int) error {
	list := struct {
		XMLName xml.Name `xml:"CompleteMultipartUpload"`
		Part    []part
	}{}
	for i := range n {
		list.Part = append(list.Part, u.parts[i+1])
	}
	body, err := xml.Marshal(list)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		b, h, err := u.send(ctx, http.MethodPost, url.Values{"uploadId": {u.id}}, u.condition(),
			body)
		if err != nil {
			return err
		}
		// A failure after the answer has begun is an error in its text.
		var failed struct {
			XMLName xml.Name `xml:"Error"`
			Code    string
		}
		if xml.Unmarshal(b, &failed) != nil {
			return nil
		}
		passes := failed.Code == "InternalError" || failed.Code == "SlowDown" ||
			failed.Code == "RequestTimeout"
		if !passes || attempt == maxAttempts {
			return fmt.Errorf("s3: the store cannot complete the object: %w",
				&remote.StatusError{Code: http.StatusOK, Header: h, Reason: failed.Code})
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(attempt) * pause):
		}
	}
}

func (u *upload) Abort(ctx context.Context) error {
	_, _, err := u.send(ctx, http.MethodDelete, url.Values{"uploadId": {u.id}}, nil, nil)
	return err
}
