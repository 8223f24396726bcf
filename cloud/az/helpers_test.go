package az

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/cloud/internal/storetest"
)

// The helpers of tests in several files.

// start starts a server that lists two blobs a page to requests that isAllowed accepts.
func start(t *testing.T, isAllowed func(*http.Request) bool) *storetest.Server {
	s := storetest.Start(t, storetest.Objects("/container/"))
	s.Check = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("X-Ms-Version") != apiVersion || !isAllowed(r) {
			w.Header().Set("X-Ms-Error-Code", "AuthenticationFailed")
			w.WriteHeader(http.StatusForbidden)
			return false
		}
		return true
	}
	s.List = func(w http.ResponseWriter, r *http.Request) bool {
		q := r.URL.Query()
		if r.URL.Path != "/container" || q.Get("comp") != "list" ||
			q.Get("restype") != "container" {
			return false
		}
		var names []string
		for name := range s.Objects {
			if name := strings.TrimPrefix(name, "/container/"); strings.HasPrefix(name,
				q.Get("prefix")) && name > q.Get("marker") {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		fmt.Fprint(w, `<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>`)
		for _, name := range names[:min(2, len(names))] {
			fmt.Fprint(w, "<Blob><Name>")
			xml.EscapeText(w, []byte(name))
			fmt.Fprintf(w, "</Name><Properties><Content-Length>%d</Content-Length><Etag>x</Etag><Last-Modified>Fri, 02 Jan 2026 03:04:05 GMT</Last-Modified></Properties></Blob>",
				len(s.Objects["/container/"+name]))
		}
		fmt.Fprint(w, "</Blobs><NextMarker>")
		if len(names) > 2 {
			xml.EscapeText(w, []byte(names[1]))
		}
		fmt.Fprint(w, "</NextMarker></EnumerationResults>")
		return true
	}
	return s
}
