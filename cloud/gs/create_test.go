package gs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/oauth2"

	"github.com/tensorfile/tensorfile/cloud/internal/storetest"
	"github.com/tensorfile/tensorfile/tensor"
)

// sessions is the writing half of the JSON API, over the objects of a server.
type sessions struct {
	s       *storetest.Server
	open    bool
	data    []byte // of the session
	kept    int    // how much of a chunk is kept; 0: all
	aborted int
	sum     string // instead of the CRC-32C of the object
	// instead answers a request before the store does.
	instead func(w http.ResponseWriter, r *http.Request) bool
}

const created = "/bucket/new/a b+c"

func (m *sessions) serve(_ int, w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || m.instead != nil && m.instead(w, r) {
		return r.Method != http.MethodGet
	}
	q := r.URL.Query()
	body, _ := io.ReadAll(r.Body)
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/upload/storage/v1/b/bucket/o" &&
		q.Get("uploadType") == "resumable" && q.Get("name") == created[len("/bucket/"):]:
		if _, exists := m.s.Objects[created]; exists && q.Get("ifGenerationMatch") == "0" {
			storetest.Fail(w, http.StatusPreconditionFailed, "conditionNotMet")
			return true
		}
		m.open, m.data = true, nil
		w.Header().Set("Location", m.s.URL+"/session?upload_id=a%2Fb")
	case r.Method == http.MethodDelete && q.Get("generation") == "7":
		delete(m.s.Objects, created)
	case r.URL.Path != "/session" || q.Get("upload_id") != "a/b" || !m.open:
		storetest.Fail(w, http.StatusNotFound, "notFound")
	case r.Method == http.MethodDelete:
		m.open, m.aborted = false, m.aborted+1
		w.WriteHeader(499)
	default:
		m.put(w, r.Header.Get("Content-Range"), body)
	}
	return true
}

func (m *sessions) put(w http.ResponseWriter, contentRange string, body []byte) {
	var first, last, total int
	place, size, _ := strings.Cut(strings.TrimPrefix(contentRange, "bytes "), "/")
	first, last = len(m.data), len(m.data)-1
	if place != "*" {
		fmt.Sscanf(place, "%d-%d", &first, &last)
	}
	if first != len(m.data) || last-first+1 != len(body) ||
		size == "*" && (len(body) == 0 || len(body)%(256<<10) != 0) {
		storetest.Fail(w, http.StatusBadRequest, "badRange")
		return
	}
	if m.kept > 0 {
		body = body[:min(m.kept, len(body))]
	}
	m.data = append(m.data, body...)
	if total, _ = strconv.Atoi(size); size == "*" || total != len(m.data) {
		w.Header().Set("Range", fmt.Sprintf("bytes=0-%d", len(m.data)-1))
		w.WriteHeader(http.StatusPermanentRedirect)
		return
	}
	sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(m.data, castagnoli))
	m.s.Objects[created], m.open = m.data, false
	json.NewEncoder(w).Encode(map[string]string{"size": size, "generation": "7",
		"crc32c": cmp.Or(m.sum, base64.StdEncoding.EncodeToString(sum))})
}

func startSessions(t *testing.T) (*sessions, *Store) {
	s := start(t, "ya29.secret")
	m := &sessions{s: s}
	s.Behave(m.serve)
	store, err := New(&Options{Endpoint: s.URL,
		Tokens: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "ya29.secret"})})
	if err != nil {
		t.Fatal(err)
	}
	return m, store
}

func put(ctx context.Context, t *testing.T, store *Store, data []byte, replace bool) error {
	t.Helper()
	w, err := store.Create(ctx, "gs:/"+created, replace)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if _, err := w.Write(data); err != nil {
		return err
	}
	return w.Close()
}

func TestCreateWritesObjectsWholeOrNotAtAll(t *testing.T) {
	for _, kept := range []int{0, 1 << 20} {
		m, store := startSessions(t)
		for _, size := range []int{0, 1, 8 << 20, 8<<20 + 1, 16 << 20, 20_000_000} {
			m.kept = 0
			if size > 8<<20 {
				m.kept = kept
			}
			delete(m.s.Objects, created)
			data := storetest.Data(size)
			if err := put(t.Context(), t, store, data, false); err != nil {
				t.Fatal(err)
			}
			if got, ok := m.s.Objects[created]; !ok || !bytes.Equal(got, data) {
				t.Errorf("%d bytes: other bytes, or none", size)
			}
			if err := put(t.Context(), t, store, data[:size/2], false); !errors.Is(err,
				fs.ErrExist) {
				t.Errorf("%d bytes: an object that exists: %v", size, err)
			}
			if got := m.s.Objects[created]; len(got) != size {
				t.Errorf("%d bytes: it was replaced", size)
			}
			if err := put(t.Context(), t, store, []byte("new"), true); err != nil ||
				string(m.s.Objects[created]) != "new" {
				t.Errorf("%d bytes: replacing: %v", size, err)
			}
		}
	}
	_, store := startSessions(t)
	if _, err := store.Create(t.Context(), "gs://bucket/", false); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
}

func TestFailedCreateAbortsTheUpload(t *testing.T) {
	isPut := func(r *http.Request) bool { return r.Method == http.MethodPut }
	location := func(address string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Location", address)
			return r.Method == http.MethodPost
		}
	}
	puts := 0
	for name, test := range map[string]struct {
		instead func(w http.ResponseWriter, r *http.Request) bool
		sum     string
		want    error // nil where it passes
		aborted int
	}{
		"a chunk is refused": {func(w http.ResponseWriter, r *http.Request) bool {
			if isPut(r) {
				storetest.Fail(w, http.StatusForbidden, "AccessDenied")
			}
			return isPut(r)
		}, "", fs.ErrPermission, 1},
		"a chunk fails once": {func(w http.ResponseWriter, r *http.Request) bool {
			if isPut(r) {
				puts++
			}
			if puts == 2 {
				storetest.Fail(w, http.StatusServiceUnavailable, "backendError")
				puts++
				return true
			}
			return false
		}, "", nil, 0},
		"the store keeps nothing": {func(w http.ResponseWriter, r *http.Request) bool {
			if isPut(r) {
				w.WriteHeader(http.StatusPermanentRedirect)
			}
			return isPut(r)
		}, "", tensor.ErrMalformed, 1},
		"the store has more than was sent": {func(w http.ResponseWriter, r *http.Request) bool {
			if isPut(r) {
				w.Header().Set("Range", "bytes=0-99999999")
				w.WriteHeader(http.StatusPermanentRedirect)
			}
			return isPut(r)
		}, "", tensor.ErrMalformed, 1},
		"the session is at another host": {location("http://evil.example/session"), "",
			tensor.ErrMalformed, 0},
		"there is no session":   {location(""), "", tensor.ErrMalformed, 0},
		"the object is another": {nil, "AAAAAA==", tensor.ErrChecksum, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, store := startSessions(t)
			m.instead, m.sum = test.instead, test.sum
			data := storetest.Data(20_000_000)
			err := put(t.Context(), t, store, data, false)
			got, ok := m.s.Objects[created]
			if test.want == nil && (err != nil || !bytes.Equal(got, data)) {
				t.Errorf("%d bytes, %v", len(got), err)
			} else if test.want != nil && (!errors.Is(err, test.want) || ok) {
				t.Errorf("an object: %v, %v", ok, err)
			}
			if m.aborted != test.aborted {
				t.Errorf("aborted %d times", m.aborted)
			}
		})
	}
}

func TestInterruptedCreateLeavesNoObject(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m, store := startSessions(t)
	m.instead = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			io.Copy(io.Discard, r.Body) // else the server does not notice that nobody waits
			cancel()
			<-r.Context().Done()
		}
		return r.Method == http.MethodPut
	}
	err := put(ctx, t, store, storetest.Data(20_000_000), false)
	if _, ok := m.s.Objects[created]; ok || !errors.Is(err, context.Canceled) || m.aborted != 1 {
		t.Errorf("an object: %v, aborted %d times, %v", ok, m.aborted, err)
	}
}
