package remote

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"testing"
)

// keepsBodies is a transport that reads bodies after it returned, as transports may.
type keepsBodies struct {
	http.RoundTripper
	bodies []io.ReadCloser
}

func (k *keepsBodies) RoundTrip(req *http.Request) (*http.Response, error) {
	k.bodies = append(k.bodies, req.Body)
	kept := *req
	kept.Body = io.NopCloser(req.Body)
	return k.RoundTripper.RoundTrip(&kept)
}

// The caller may change a body once Send has returned.
func TestSendLetsGoOfItsBody(t *testing.T) {
	s := serve(t, 0)
	var got []string
	s.behave(func(n int, w http.ResponseWriter, r *http.Request) bool {
		if n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable) // the body is not read
			return true
		}
		b, err := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.Header.Get("X")+" "+string(b[:5]))
		if err != nil || len(b) != 5<<20 {
			t.Errorf("%d bytes, %v", len(b), err)
		}
		io.WriteString(w, "answer")
		return true
	})
	k := &keepsBodies{RoundTripper: http.DefaultTransport}
	c, err := NewClient(&Options{Client: &http.Client{Transport: k}})
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(strings.Repeat("bytes", 1<<20))
	answer, _, err := c.Send(t.Context(), http.MethodPut, s.URL+"/f", http.Header{"X": {"y"}},
		body, 6)
	if err != nil || string(answer) != "answer" || len(got) != 1 || got[0] != "PUT y bytes" {
		t.Errorf("%q, %v, requests %q", answer, err, got)
	}
	for i, b := range k.bodies {
		if n, err := b.Read(make([]byte, 10)); n > 0 || err == nil {
			t.Errorf("attempt %d still reads: %d, %v", i+1, n, err)
		}
	}
	if _, _, err := c.Send(t.Context(), http.MethodPut, s.URL+"/f", nil, body, 5); err == nil {
		t.Error("a long answer is no error")
	}
	s.behave(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		http.Error(w, "no", http.StatusForbidden)
		return true
	})
	if _, _, err := c.Send(t.Context(), http.MethodPut, s.URL+"/f", nil, body, 5); !errors.Is(err,
		fs.ErrPermission) {
		t.Error(err)
	}
}
