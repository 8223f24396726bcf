package gs

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/cloud/internal/storetest"
)

// The helpers of tests in several files.

// start starts a server that lists two keys a page, and requires the token unless that
// is "".
func start(t *testing.T, token string) *storetest.Server {
	s := storetest.Start(t, storetest.Objects("/bucket/"))
	s.Check = func(w http.ResponseWriter, r *http.Request) bool {
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			storetest.Fail(w, http.StatusUnauthorized, "AuthenticationRequired")
			return false
		}
		return true
	}
	s.List = func(w http.ResponseWriter, r *http.Request) bool {
		q := r.URL.Query()
		if r.URL.Path != "/bucket" || q.Get("list-type") != "2" {
			return false
		}
		var keys []string
		for name := range s.Objects {
			if key := strings.TrimPrefix(name, "/bucket/"); strings.HasPrefix(key,
				q.Get("prefix")) && key > q.Get("continuation-token") {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		fmt.Fprintf(w, "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>%v</IsTruncated>", len(keys) > 2)
		if len(keys) > 2 {
			fmt.Fprintf(w, "<NextContinuationToken>%s</NextContinuationToken>",
				strings.NewReplacer("&", "&amp;", "'", "&#39;").Replace(keys[1]))
		}
		for _, k := range keys[:min(2, len(keys))] {
			fmt.Fprintf(w, `<Contents><Key>%s</Key><Size>%d</Size><ETag>"x"</ETag><LastModified>2026-01-02T03:04:05Z</LastModified></Contents>`,
				url.QueryEscape(k), len(s.Objects["/bucket/"+k]))
		}
		fmt.Fprint(w, "</ListBucketResult>")
		return true
	}
	return s
}
