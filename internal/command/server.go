package command

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/tensorfile/tensorfile/internal/page"
	"github.com/tensorfile/tensorfile/internal/page/web"
)

const (
	// maxRequest is the largest size of a call in bytes.
	maxRequest = 64 << 10
	// requestTimeout is the time limit for a header, and for the body of a call.
	requestTimeout = 10 * time.Second
)

// A pageServer serves one page to a browser on this machine. A client must know
// the token in the address, and must be the page itself: requests for another host, or
// from another site, are refused.
type pageServer struct {
	session  *page.Session
	listener net.Listener
	host     string
	token    string
}

// listen returns a pageServer on a free port of the loopback interface.
func listen(s *page.Session) (*pageServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &pageServer{s, l, l.Addr().String(), rand.Text()}, nil
}

// address returns the address for a browser. It has the token, so it is a secret.
func (s *pageServer) address() string { return "http://" + s.host + "/" + s.token + "/" }

// serve answers requests until ctx ends.
func (s *pageServer) serve(ctx context.Context) error {
	server := &http.Server{
		Handler:           s,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: requestTimeout,
		MaxHeaderBytes:    maxRequest,
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeHTTP serves the files of the page, and calls by POST.
func (s *pageServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	token, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case r.Host != s.host:
		http.Error(w, "another host", http.StatusMisdirectedRequest)
	case !s.isOwn(r):
		http.Error(w, "another origin", http.StatusForbidden)
	case subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1:
		http.Error(w, "no such page", http.StatusNotFound)
	case r.Method == http.MethodPost && name == "call":
		s.call(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, "no such method", http.StatusMethodNotAllowed)
	default:
		serveFile(w, r, name)
	}
}

// isOwn reports whether a request does not come from another site. Browsers send the
// origin with every POST.
func (s *pageServer) isOwn(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return false
	}
	return origin == "http://"+s.host || origin == "" && r.Method != http.MethodPost
}

func serveFile(w http.ResponseWriter, r *http.Request, name string) {
	if name == "" {
		name = "index.html"
	}
	b, err := fs.ReadFile(web.Files, name)
	if err != nil {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	if name == "index.html" {
		b = page.For("http", b)
	}
	kind := map[string]string{".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
	w.Header().Set("Content-Type", kind[path.Ext(name)]+"; charset=utf-8")
	w.Write(b)
}

// A callMessage is one line of the response to a call: progress, or in the last line the
// result or an error.
type callMessage struct {
	Progress []int64     `json:"progress,omitempty"` // done and total
	Result   any         `json:"result,omitempty"`
	Error    *page.Error `json:"error,omitempty"`
}

// call runs a method, and cancels it if the browser closes the connection.
func (s *pageServer) call(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	// The deadline is for the body only: the call may take longer.
	lines, control := json.NewEncoder(w), http.NewResponseController(w)
	err := control.SetReadDeadline(time.Now().Add(requestTimeout))
	var body []byte
	if err == nil {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	}
	if err == nil {
		err = errors.Join(control.SetReadDeadline(time.Time{}), json.Unmarshal(body, &request))
	}
	if err != nil {
		http.Error(w, "no call", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	result, err := s.session.Call(r.Context(), request.Method, request.Params,
		func(done, total int64) {
			lines.Encode(callMessage{Progress: []int64{done, total}})
			control.Flush()
		})
	last := callMessage{Result: result}
	if err != nil {
		last = callMessage{Error: page.ErrorOf(err)}
	}
	if err := lines.Encode(last); err != nil && r.Context().Err() == nil {
		lines.Encode(callMessage{Error: page.ErrorOf(err)}) // of encoding: nothing was written
	}
}
