package az

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"sync"
	"testing"

	"github.com/tensorfile/tensorfile/cloud/internal/storetest"
	"github.com/tensorfile/tensorfile/remote"
)

func TestCreateWritesBlobsWholeOrNotAtAll(t *testing.T) {
	var mu sync.Mutex
	blocks := map[string][]byte{}
	refused := ""
	s := start(t, func(*http.Request) bool { return true })
	s.Behave(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		body, _ := io.ReadAll(r.Body)
		sum := md5.Sum(body)
		mu.Lock()
		defer mu.Unlock()
		comp := r.URL.Query().Get("comp")
		_, exists := s.Objects[r.URL.Path]
		switch {
		case r.Header.Get("Content-MD5") != base64.StdEncoding.EncodeToString(sum[:]):
			storetest.Fail(w, http.StatusBadRequest, "Md5Mismatch")
		case comp == refused && refused != "":
			storetest.Fail(w, http.StatusForbidden, "AuthorizationPermissionMismatch")
		case exists && r.Header.Get("If-None-Match") == "*":
			storetest.Fail(w, http.StatusConflict, "BlobAlreadyExists")
		case comp == "block":
			blocks[r.URL.Query().Get("blockid")] = body
			w.WriteHeader(http.StatusCreated)
		case comp == "blocklist":
			var list struct{ Uncommitted []string }
			var whole []byte
			err := xml.Unmarshal(body, &list)
			for _, id := range list.Uncommitted {
				if _, ok := blocks[id]; err != nil || !ok {
					storetest.Fail(w, http.StatusBadRequest, "InvalidBlockList")
					return true
				}
				whole = append(whole, blocks[id]...)
			}
			s.Objects[r.URL.Path] = whole
			w.WriteHeader(http.StatusCreated)
		case r.Header.Get("X-Ms-Blob-Type") == "BlockBlob":
			s.Objects[r.URL.Path] = body
			w.WriteHeader(http.StatusCreated)
		default:
			storetest.Fail(w, http.StatusBadRequest, "MissingRequiredHeader")
		}
		return true
	})
	store, err := New(&Options{Endpoint: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	const created = "/container/new/a b+c"
	object := func() []byte {
		mu.Lock()
		defer mu.Unlock()
		return s.Objects[created]
	}
	put := func(data []byte, replace bool) error {
		w, err := store.Create(context.Background(), "az:/"+created, replace)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		if _, err := w.Write(data); err != nil {
			return err
		}
		return w.Close()
	}
	for _, size := range []int{0, 1, 8<<20 + 1, 30_000_000} {
		delete(s.Objects, created)
		data := storetest.Data(size)
		if err := put(data, false); err != nil || !bytes.Equal(object(), data) {
			t.Errorf("%d bytes: %d, %v", size, len(object()), err)
		}
		if err := put(data, false); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a blob that exists: %v", err)
		}
		if err := put([]byte("new"), true); err != nil || string(object()) != "new" {
			t.Errorf("replacing: %v", err)
		}
	}
	delete(s.Objects, created)
	for _, refused = range []string{"block", "blocklist"} {
		err := put(storetest.Data(30_000_000), false)
		var status *remote.StatusError
		if _, ok := s.Objects[created]; ok || !errors.Is(err, fs.ErrPermission) ||
			!errors.As(err, &status) || status.Reason != "AuthorizationPermissionMismatch" {
			t.Errorf("a refused %s: %v", refused, err)
		}
	}
	if _, err := store.Create(t.Context(), "az://container/", false); !errors.Is(err,
		fs.ErrInvalid) {
		t.Error(err)
	}
}
