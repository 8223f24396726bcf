package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A StatusError is a response that is neither content nor a redirect. errors.Is matches
// it as fs.ErrNotExist, fs.ErrPermission or ErrChanged where its status is of that
// kind.
type StatusError struct {
	Code   int
	Header http.Header
	Reason string // the word for it in answers of object stores, such as NoSuchKey; else ""
	class  error  // nil when there is none
	empty  bool   // the file is empty: that is why the range was refused
}

func (e *StatusError) Error() string {
	s := strings.TrimRight(fmt.Sprintf("the server answers %d %s", e.Code,
		http.StatusText(e.Code)), " ")
	if e.Reason != "" {
		s += " (" + e.Reason + ")"
	}
	return s
}

func (e *StatusError) Unwrap() error { return e.class }

// maxReason is how much of an answer is searched for its reason.
const maxReason = 4 << 10

var reasonElement = regexp.MustCompile(`<Code>([A-Za-z0-9.]{1,64})</Code>`)

// reason finds the code that object stores put in a header or in the XML of an answer.
func reason(resp *http.Response) string {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxReason))
	if code := resp.Header.Get("x-ms-error-code"); code != "" {
		b = []byte("<Code>" + code + "</Code>")
	}
	if m := reasonElement.FindSubmatch(b); m != nil {
		return string(m[1])
	}
	return ""
}

const mostHops = 10

// do asks for the ranges, follows redirects, and returns an answer that has content.
// Its body ends with an error when the server is silent for too long, or r is closed.
func (r *Reader) do(ranges string) (*http.Response, error) {
	r.mu.Lock()
	u := r.resolved
	r.mu.Unlock()
	if u == nil {
		u = r.url
	}
	hops := 0
	for {
		resp, err := r.ask(u, ranges)
		if err != nil {
			return nil, err
		}
		switch code := resp.StatusCode; {
		case code == http.StatusOK || code == http.StatusPartialContent:
			r.mu.Lock()
			r.resolved = u
			r.mu.Unlock()
			return resp, nil
		case code == http.StatusMovedPermanently || code == http.StatusFound ||
			code == http.StatusSeeOther ||
			code == http.StatusTemporaryRedirect || code == http.StatusPermanentRedirect:
			if resp.Header.Get(location) == "" && r.opts.Sign != nil { // S3's for another region
				err := r.refusal(resp)
				resp.Body.Close()
				return nil, err
			}
			if resp.ContentLength >= 0 && resp.ContentLength <= 4<<10 {
				io.Copy(io.Discard, resp.Body) // so that the connection can be used again
			}
			resp.Body.Close()
			next, err := r.redirect(u, resp)
			if err != nil {
				return nil, err
			}
			if err := r.link(u, resp); err != nil {
				return nil, err
			}
			if hops++; hops > mostHops {
				return nil, fmt.Errorf("more than %d redirects", mostHops)
			}
			u = next
		case u != r.url && hops == 0:
			// An address that a redirect led to earlier may have been for a while only.
			resp.Body.Close()
			r.mu.Lock()
			r.resolved = nil
			r.mu.Unlock()
			u = r.url
		default:
			err := r.refusal(resp)
			resp.Body.Close()
			return nil, err
		}
	}
}

// link takes the size of the file from a redirect of the Hub: where that leads to is
// another host.
func (r *Reader) link(u *url.URL, resp *http.Response) error {
	size, err := strconv.ParseUint(resp.Header.Get("X-Linked-Size"), 10, 63)
	if err != nil || !sameOrigin(u, r.url) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.linked >= 0 && r.linked != int64(size) {
		return fmt.Errorf("%w: it has %d bytes, and is listed with %d", ErrChanged, size, r.linked)
	}
	r.linked = int64(size)
	return nil
}

// refusal makes an error of an answer without content.
func (r *Reader) refusal(resp *http.Response) error {
	e := &StatusError{Code: resp.StatusCode, Header: resp.Header, Reason: reason(resp)}
	switch code := resp.StatusCode; code {
	case http.StatusNotFound, http.StatusGone:
		e.class = fs.ErrNotExist
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		e.class = fs.ErrPermission
	case http.StatusPreconditionFailed:
		e.class = ErrChanged
	case http.StatusRequestedRangeNotSatisfiable:
		if r.size >= 0 {
			e.class = ErrChanged // it was long enough once
		} else {
			e.empty = resp.Header.Get("Content-Range") == "bytes */0"
		}
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		after := retryAfter(resp.Header.Get("Retry-After"), time.Now())
		return &failure{err: e, after: max(after, rateLimit(resp.Header.Get("RateLimit")))}
	}
	return e
}

// retryAfter reads seconds or a date.
func retryAfter(header string, now time.Time) time.Duration {
	if s, err := strconv.ParseUint(header, 10, 31); err == nil {
		return time.Duration(s) * time.Second
	}
	if t, err := http.ParseTime(header); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}

// rateLimit reads the seconds until a quota is renewed, as the Hub gives them:
// "resolvers";r=0;t=120.
func rateLimit(header string) time.Duration {
	for _, param := range strings.Split(header, ";") {
		if t, ok := strings.CutPrefix(strings.TrimSpace(param), "t="); ok {
			return retryAfter(t, time.Time{})
		}
	}
	return 0
}

// redirect returns where an answer of u leads to.
func (r *Reader) redirect(u *url.URL, resp *http.Response) (*url.URL, error) {
	to := resp.Header.Get(location)
	next, err := u.Parse(to)
	if err != nil || to == "" {
		return nil, errors.New("the server redirects to an address that cannot be understood")
	}
	if !sameOrigin(next, r.url) {
		next.User = nil
	}
	if err := r.permitted(next); err != nil {
		return nil, fmt.Errorf("redirected: %w", err)
	}
	if !isLocal(r.url.Hostname()) && !strings.EqualFold(next.Hostname(), r.url.Hostname()) {
		if isLocal(next.Hostname()) {
			return nil, fmt.Errorf("%s redirects to this machine", redacted(u))
		}
		r.client.redirected.Store(hostPort(next), nil)
	}
	return next, nil
}

// permitted fails when u must not be asked.
func (r *Reader) permitted(u *url.URL) error {
	switch {
	case u.Host == "" || u.Opaque != "":
		return fmt.Errorf("remote: %s is not an address of a server", redacted(u))
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && (r.opts.AllowHTTP || isLocal(u.Hostname())):
		return nil
	case u.Scheme == "http":
		return fmt.Errorf("remote: %s: %w", redacted(u), ErrNotEncrypted)
	}
	return fmt.Errorf("remote: %w: addresses with %q", errors.ErrUnsupported, u.Scheme)
}

// ask makes one request for the ranges.
func (r *Reader) ask(u *url.URL, ranges string) (*http.Response, error) {
	return r.exchange(http.MethodGet, u, nil, func(h http.Header) {
		h.Del("Range")
		if ranges != "" {
			h.Set("Range", ranges)
		}
		h.Set("Accept-Encoding", "identity") // parts of what is compressed are of no use
		h.Del("If-Range")
		switch {
		case strings.HasPrefix(r.etag, `"`) && sameOrigin(u, r.versioned):
			h.Set("If-Match", r.etag)
		case strings.HasPrefix(r.etag, `"`):
			h.Set("If-Range", r.etag)
		case r.etag == "" && r.lastModified != "":
			h.Set("If-Range", r.lastModified)
		}
	})
}

// exchange makes one request, whose header set completes.
func (r *Reader) exchange(method string, u *url.URL, body []byte,
	set func(http.Header)) (*http.Response, error) {
	ctx, stop := context.WithCancelCause(r.ctx)
	cancel := stop
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		cancel(nil)
		// err quotes it, secrets included
		return nil, errors.New("the address cannot be asked for")
	}
	if sameOrigin(u, r.url) { // nobody else gets the credentials
		for k, v := range r.opts.Header {
			req.Header[http.CanonicalHeaderKey(k)] = v
		}
		if host := req.Header.Get("Host"); host != "" {
			req.Host = host
		}
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "tensorfile (+https://github.com/tensorfile/tensorfile)")
	}
	set(req.Header)
	// The guard ends what has been silent for too long.
	silent := &failure{err: fmt.Errorf("the server was silent for %v: %w", r.opts.Timeout,
		os.ErrDeadlineExceeded)}
	guard := time.AfterFunc(r.opts.Timeout, func() { stop(silent) })
	if body != nil {
		b := &sent{guard: guard, timeout: r.opts.Timeout, rest: body}
		cancel = func(err error) {
			b.Close()
			stop(err)
		}
		req.Body, req.ContentLength = b, int64(len(body))
	}
	if r.opts.Sign != nil && sameOrigin(u, r.url) {
		if err := r.opts.Sign(req); err != nil {
			guard.Stop()
			cancel(nil)
			return nil, err
		}
	}
	r.mu.Lock()
	r.stats.Requests++
	r.mu.Unlock()
	r.client.requests.Add(1)
	resp, err := r.client.http.Do(req)
	if err != nil {
		guard.Stop()
		why := context.Cause(ctx)
		cancel(nil)
		return nil, asked(err, why)
	}
	resp.Body = &guarded{resp.Body, guard, r.opts.Timeout, trickle, ctx, cancel}
	return resp, nil
}

// asked adds to an error which request failed.
func asked(err, why error) error {
	if why != nil {
		return why
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // which does not quote the address
	}
	var refused *refusedError
	if errors.As(err, &refused) {
		return refused
	}
	var name *net.DNSError
	if errors.As(err, &name) && name.IsNotFound {
		return err // that does not pass
	}
	var certificate *tls.CertificateVerificationError
	var noTLS tls.RecordHeaderError
	if errors.As(err, &certificate) || errors.As(err, &noTLS) ||
		errors.Is(err, http.ErrSchemeMismatch) {
		return err // nor do these
	}
	return &failure{err: err}
}

// sent is the body of a request, of which a server that takes some of it is not silent. A
// transport may read it after the request is over: then it has ended.
type sent struct {
	guard   *time.Timer
	timeout time.Duration

	mu    sync.Mutex
	rest  []byte
	ended bool
}

func (s *sent) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return 0, fs.ErrClosed
	}
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	s.guard.Reset(s.timeout)
	n := copy(p, s.rest[:min(len(s.rest), 64<<10)])
	s.rest = s.rest[n:]
	return n, nil
}

func (s *sent) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	return nil
}

// trickle is what must come before the time for silence begins anew: a server that
// sends a byte now and then is silent, too.
const trickle = 256

// guarded is a body whose reader is not kept waiting for ever.
type guarded struct {
	io.ReadCloser
	guard   *time.Timer
	timeout time.Duration
	since   int // bytes since the guard was set last
	ctx     context.Context
	cancel  context.CancelCauseFunc
}

func (g *guarded) Read(p []byte) (int, error) {
	if g.since >= trickle {
		g.since = 0
		g.guard.Reset(g.timeout)
	}
	n, err := g.ReadCloser.Read(p)
	g.since += n
	if err != nil && err != io.EOF {
		if why := context.Cause(g.ctx); why != nil {
			err = why
		}
	}
	return n, err
}

func (g *guarded) Close() error {
	g.guard.Stop()
	g.cancel(nil)
	return g.ReadCloser.Close()
}
