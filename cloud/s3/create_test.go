package s3

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/tensorfile/tensorfile/cloud/internal/storetest"
	"github.com/tensorfile/tensorfile/remote"
	"github.com/tensorfile/tensorfile/tensor"
)

// multipart is the writing half of S3, over the objects of a server.
type multipart struct {
	s       *storetest.Server
	mu      sync.Mutex
	parts   map[string][]byte // by number, while an upload is open
	aborted int
	// instead answers a request before the store does.
	instead func(w http.ResponseWriter, r *http.Request) bool
}

func (m *multipart) serve(_ int, w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || m.instead != nil && m.instead(w, r) {
		return r.Method != http.MethodGet
	}
	q := r.URL.Query()
	body, _ := io.ReadAll(r.Body)
	m.mu.Lock()
	defer m.mu.Unlock()
	_, exists := m.s.Objects[r.URL.Path]
	if exists && r.Header.Get("If-None-Match") == "*" {
		storetest.Fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return true
	}
	sum := r.Header.Get("X-Amz-Checksum-Crc32c")
	switch {
	case r.Method == http.MethodPut && sum != crc32c(body):
		storetest.Fail(w, http.StatusBadRequest, "BadDigest")
	case r.Method == http.MethodPost && q.Has("uploads"):
		m.parts = map[string][]byte{}
		fmt.Fprint(w, "<InitiateMultipartUploadResult><UploadId>a/b+c</UploadId></InitiateMultipartUploadResult>")
	case r.Method == http.MethodPut && !q.Has("uploadId"):
		m.s.Objects[r.URL.Path] = body
	case q.Get("uploadId") != "a/b+c" || m.parts == nil:
		storetest.Fail(w, http.StatusNotFound, "NoSuchUpload")
	case r.Method == http.MethodPut:
		m.parts[q.Get("partNumber")] = body
		w.Header().Set("ETag", `"`+q.Get("partNumber")+`"`)
	case r.Method == http.MethodDelete:
		m.parts, m.aborted = nil, m.aborted+1
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPost:
		var list struct{ Part []part }
		var whole []byte
		err := xml.Unmarshal(body, &list)
		for i, p := range list.Part {
			data, ok := m.parts[fmt.Sprint(p.PartNumber)]
			if err != nil || !ok || p.PartNumber != i+1 || p.ETag != fmt.Sprintf(`"%d"`, i+1) ||
				p.ChecksumCRC32C != crc32c(data) {
				storetest.Fail(w, http.StatusBadRequest, "InvalidPart")
				return true
			}
			whole = append(whole, data...)
		}
		m.s.Objects[r.URL.Path], m.parts = whole, nil
		fmt.Fprint(w, "<CompleteMultipartUploadResult/>")
	}
	return true
}

func startMultipart(t *testing.T) (*multipart, *Store) {
	s := start(t, "us-east-1", "")
	m := &multipart{s: s}
	s.Behave(m.serve)
	store, err := New(&Options{Endpoint: s.URL, Credentials: credentials.NewStaticV4(testID,
		testSecret, "")})
	if err != nil {
		t.Fatal(err)
	}
	return m, store
}

// put writes data in pieces.
func put(t *testing.T, ctx context.Context, store *Store, data []byte, replace bool) error {
	t.Helper()
	w, err := store.Create(ctx, "s3://bucket/new/a b+c", replace)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for p := data; len(p) > 0; {
		n := min(len(p), 3_000_000)
		if m, err := w.Write(p[:n]); err != nil || m != n {
			return fmt.Errorf("%d of %d bytes: %w", m, n, err)
		}
		p = p[n:]
	}
	return w.Close()
}

const created = "/bucket/new/a b+c"

func TestCreateWritesObjectsWholeOrNotAtAll(t *testing.T) {
	m, store := startMultipart(t)
	for _, size := range []int{0, 1, 8 << 20, 8<<20 + 1, 50_000_000} {
		delete(m.s.Objects, created)
		data := storetest.Data(size)
		if err := put(t, t.Context(), store, data, false); err != nil {
			t.Fatal(err)
		}
		if got, ok := m.s.Objects[created]; !ok || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: other bytes, or none", size)
		}
		if err := put(t, t.Context(), store, data[:size/2], false); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%d bytes: an object that exists: %v", size, err)
		}
		if got := m.s.Objects[created]; len(got) != size {
			t.Errorf("%d bytes: it was replaced", size)
		}
		if err := put(t, t.Context(), store, []byte("new"), true); err != nil ||
			string(m.s.Objects[created]) != "new" {
			t.Errorf("%d bytes: replacing: %v", size, err)
		}
	}
	if m.parts != nil {
		t.Error("parts are left")
	}
	if _, err := store.Create(t.Context(), "s3://bucket/", false); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
}

func TestFailedCreateAbortsTheUpload(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	isPart := func(r *http.Request) bool { return r.URL.Query().Has("partNumber") }
	isComplete := func(r *http.Request) bool {
		return r.Method == http.MethodPost &&
			r.URL.Query().Has("uploadId")
	}
	for name, test := range map[string]struct {
		instead func(w http.ResponseWriter, r *http.Request) bool
		want    error  // nil where it passes, or has a reason
		reason  string // of the store
		aborted int
	}{
		"a part is refused": {func(w http.ResponseWriter, r *http.Request) bool {
			if isPart(r) && r.URL.Query().Get("partNumber") == "2" {
				storetest.Fail(w, http.StatusForbidden, "AccessDenied")
				return true
			}
			return false
		}, fs.ErrPermission, "AccessDenied", 1},
		"parts fail once": {func(w http.ResponseWriter, r *http.Request) bool {
			if n++; isPart(r) && n == 3 {
				storetest.Fail(w, http.StatusServiceUnavailable, "SlowDown")
				return true
			}
			return false
		}, nil, "", 0},
		"completing fails in its text, and passes": {func(w http.ResponseWriter,
			r *http.Request) bool {
			if isComplete(r) {
				if n++; n == 1 {
					fmt.Fprint(w, `<?xml version="1.0"?><Error><Code>InternalError</Code></Error>`)
					return true
				}
			}
			return false
		}, nil, "", 0},
		"completing fails in its text": {func(w http.ResponseWriter, r *http.Request) bool {
			if isComplete(r) {
				fmt.Fprint(w, "<Error><Code>InvalidPart</Code></Error>")
			}
			return isComplete(r)
		}, nil, "InvalidPart", 1},
		"the store names no upload": {func(w http.ResponseWriter, r *http.Request) bool {
			return r.URL.Query().Has("uploads")
		}, tensor.ErrMalformed, "", 0},
		"it is interrupted": {func(w http.ResponseWriter, r *http.Request) bool {
			if isPart(r) {
				io.Copy(io.Discard, r.Body) // else the server does not notice that nobody waits
				cancel()
				<-r.Context().Done()
			}
			return isPart(r)
		}, context.Canceled, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			m, store := startMultipart(t)
			var mu sync.Mutex
			n = 0
			m.instead = func(w http.ResponseWriter, r *http.Request) bool {
				if strings.Contains(name, "interrupted") {
					return test.instead(w, r)
				}
				mu.Lock()
				defer mu.Unlock()
				return test.instead(w, r)
			}
			data := storetest.Data(30_000_000)
			err := put(t, ctx, store, data, false)
			got, ok := m.s.Objects[created]
			var status *remote.StatusError
			if test.want == nil && test.reason == "" {
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
			} else if ok || test.want != nil && !errors.Is(err, test.want) ||
				test.reason != "" && (!errors.As(err, &status) || status.Reason != test.reason) {
				t.Errorf("an object: %v, %v", ok, err)
			}
			if m.aborted != test.aborted || m.parts != nil {
				t.Errorf("aborted %d times, parts %v", m.aborted, m.parts != nil)
			}
		})
		ctx, cancel = context.WithCancel(t.Context())
	}
	cancel()
}
