package remote

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/tensorfile/tensorfile/tensor"
)

// A failure is an error that may pass.
type failure struct {
	err   error
	after time.Duration // what the server asks to wait; 0 when it does not say
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

const (
	firstPause = 200 * time.Millisecond
	mostPause  = 10 * time.Second
	mostAfter  = 2 * time.Minute // a server that asks for more is not waited for
	// progress is what a request must bring before the next failure counts as the first
	// again: else a server that sends a byte at a time would be asked without end.
	progress = 256 << 10
	// minPart is what an answer must have that is shorter than the range: else a window
	// could take a request a byte.
	minPart = 16 << 10
	// multipartOverhead is what an answer of two parts may have in addition to them:
	// boundaries and headers.
	multipartOverhead = 8 << 10
)

// again runs do until it succeeds, fails permanently, or has failed too often. The bytes
// that do has received are its progress.
func (r *Reader) again(do func() (received int64, err error)) error {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		n, err := do()
		if err == nil {
			return nil
		}
		if over := r.done(); over != nil {
			return over
		}
		if n >= progress {
			attempt, pause = 1, firstPause
		}
		var f *failure
		if !errors.As(err, &f) {
			return fmt.Errorf("remote: %s: %w", r.name(), err)
		}
		if attempt >= r.opts.Attempts {
			return fmt.Errorf("remote: %s: given up after %d attempts: %w", r.name(), attempt, err)
		}
		if f.after > mostAfter {
			return fmt.Errorf("remote: %s: %w; the server asks to wait %v", r.name(), err,
				f.after.Round(time.Second))
		}
		if n < progress && !r.client.retry() {
			return fmt.Errorf("remote: %s: given up, as too many requests to the server fail: %w",
				r.name(), err)
		}
		// Not all that failed together come back together.
		if over := r.wait(r.ctx, max(f.after, pause/2+rand.N(pause/2))); over != nil {
			return fmt.Errorf("remote: %s: %w", r.name(), over)
		}
		pause = min(2*pause, mostPause)
	}
}

// fetch fills p from off.
func (r *Reader) fetch(p []byte, off int64) error {
	if err := r.spend(int64(len(p))); err != nil {
		return err
	}
	return r.transfer(p, off)
}

// transfer is fetch for bytes that were taken off the budget.
func (r *Reader) transfer(p []byte, off int64) error {
	return r.again(func() (received int64, err error) {
		for len(p) > 0 { // the server may answer with less than was asked for
			n, err := r.get(p, off)
			p, off, received = p[n:], off+int64(n), received+int64(n)
			if err == nil && len(p) > 0 && n < minPart {
				err = fmt.Errorf("the server sends %d bytes where more were asked for", n)
				err = &failure{err: err}
			}
			if err != nil {
				return received, err
			}
		}
		return received, nil
	})
}

// get fills the beginning of p from off, with one request.
func (r *Reader) get(p []byte, off int64) (n int, err error) {
	resp, err := r.do(fmt.Sprintf("bytes=%d-%d", off, off+int64(len(p))-1))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if err := r.same(resp); err != nil {
		return 0, err
	}
	s, err := r.part(resp)
	if err != nil {
		return 0, err
	}
	if s.off != off || s.end > off+int64(len(p)) || s.size != r.size {
		if s.size != r.size {
			return 0, fmt.Errorf("%w: it has %d bytes now, and had %d", ErrChanged, s.size, r.size)
		}
		return 0, fmt.Errorf("the server was asked for bytes %d to %d and sends %d to %d", off,
			off+int64(len(p))-1, s.off, s.end-1)
	}
	return r.receive(resp.Body, p[:s.end-off], resp.ContentLength >= 0)
}

// receive fills p from body. Where its length was not announced it must end there.
func (r *Reader) receive(body io.Reader, p []byte, announced bool) (n int, err error) {
	n, err = io.ReadFull(body, p)
	r.mu.Lock()
	r.stats.Bytes += int64(n)
	r.mu.Unlock()
	if err != nil {
		return n, &failure{err: err}
	}
	if !announced { // read to the end, so that the connection can be used again
		var one [1]byte
		if m, _ := body.Read(one[:]); m > 0 {
			return 0, errors.New("the server sends more than it said")
		}
	}
	return n, nil
}

// first makes the first request, which has the size and the version of the file, and
// fills the cache.
func (r *Reader) first() error {
	if name := path.Ext(r.url.Path); name != ".zt" && name != ".npz" || !r.ends() {
		if err := r.done(); err != nil {
			return err
		}
		most := int64(window)
		if r.opts.MaxBytes > 0 {
			most = max(1, min(most, r.opts.MaxBytes-r.spent))
		}
		if err := r.again(func() (int64, error) { return r.head(most) }); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.linked >= 0 && r.linked != r.size {
		return fmt.Errorf("remote: %s: %w: it has %d bytes, and is listed with %d", r.name(),
			ErrChanged, r.size, r.linked)
	}
	return nil
}

// head asks for the first most bytes.
func (r *Reader) head(most int64) (received int64, err error) {
	if err := r.spend(most); err != nil {
		return 0, err
	}
	resp, err := r.do(fmt.Sprintf("bytes=0-%d", most-1))
	if err != nil {
		var e *StatusError
		if errors.As(err, &e) && e.empty { // no byte of an empty file can be asked for
			r.size = 0
			return 0, nil
		}
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK && resp.ContentLength == 0 {
		// as others answer for an empty file
		r.pin(resp, 0)
		return 0, nil
	}
	if n := resp.ContentLength; resp.StatusCode == http.StatusOK && 0 < n && n <= most {
		// small files are often sent whole, whatever was asked
		return r.begin(resp, span{0, n, n}, most)
	}
	s, err := r.part(resp)
	if err != nil {
		return 0, err
	}
	if s.off != 0 || s.end > most {
		return 0, fmt.Errorf("the server was asked for the first %d bytes and sends %d to %d",
			most, s.off, s.end-1)
	}
	return r.begin(resp, s, most)
}

// begin takes over what the first answer says, and has, when asked bytes were asked for.
func (r *Reader) begin(resp *http.Response, s span, asked int64) (received int64, err error) {
	b := make([]byte, s.end-s.off)
	n, err := r.receive(resp.Body, b, resp.ContentLength >= 0)
	if err != nil {
		return int64(n), err
	}
	r.spend(int64(n) - asked) // what the file does not have was not fetched
	r.pin(resp, s.size)
	r.keep(s.off, b)
	return int64(n), nil
}

// whole fetches a response of at most limit bytes that is not a part of a file.
func (r *Reader) whole(limit int64) (b []byte, h http.Header, err error) {
	if r.opts.MaxBytes > 0 {
		limit = min(limit, r.opts.MaxBytes)
	}
	err = r.again(func() (int64, error) {
		resp, err := r.do("")
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("the server answers %s when asked for the whole", resp.Status)
		}
		b, err = io.ReadAll(io.LimitReader(resp.Body, limit+1))
		switch {
		case err != nil:
			return 0, &failure{err: err} // the next attempt begins anew
		case int64(len(b)) > limit:
			return 0, fmt.Errorf("%w: more than %d bytes", tensor.ErrLimit, limit)
		}
		h = resp.Header
		return 0, nil
	})
	if err != nil {
		return nil, nil, err
	}
	return b, h, r.spend(int64(len(b)))
}

// ends asks for both ends of the file, and says whether the answer was of use. Two
// ranges in one request are allowed, but not every server knows them.
func (r *Reader) ends() bool {
	const start = 4 << 10
	if r.opts.MaxBytes > 0 && r.opts.MaxBytes < 2*(start+window) {
		return false // too much of the budget for a try
	}
	resp, err := r.do(fmt.Sprintf("bytes=0-%d,-%d", start-1, window))
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusPartialContent || r.spend(start+window) != nil {
		return false
	}
	kind, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/byteranges" {
		// the ranges overlapped, or only one of them is sent
		s, err := r.part(resp)
		if err != nil || s.off != 0 || s.end > start+window {
			return false
		}
		_, err = r.begin(resp, s, start+window)
		return err == nil
	}
	var spans []span
	var parts [][]byte
	for m := multipart.NewReader(io.LimitReader(resp.Body, start+window+multipartOverhead),
		params["boundary"]); ; {
		p, err := m.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil || len(parts) == 2 {
			return false
		}
		s, err := parseRange(p.Header.Get("Content-Range"))
		if most := []int64{start, window}[len(parts)]; err != nil || s.end-s.off > most {
			return false
		}
		b := make([]byte, s.end-s.off)
		if _, err := r.receive(p, b, false); err != nil {
			return false
		}
		spans, parts = append(spans, s), append(parts, b)
	}
	if len(spans) != 2 || spans[0].off != 0 || spans[0].size != spans[1].size ||
		spans[1].end != spans[1].size {
		return false
	}
	r.pin(resp, spans[0].size)
	for i := range spans {
		r.keep(spans[i].off, parts[i])
	}
	return true
}

// keep puts b into the cache.
func (r *Reader) keep(off int64, b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cache.put(off, b)
	r.next = off + int64(len(b))
}

// pin remembers what every later answer must say.
func (r *Reader) pin(resp *http.Response, size int64) {
	r.size, r.etag = size, resp.Header.Get("ETag")
	r.lastModified = resp.Header.Get("Last-Modified")
	r.mu.Lock()
	r.versioned = r.resolved
	r.mu.Unlock()
}

// same fails when the answer is about another version of the file than the first one was.
func (r *Reader) same(resp *http.Response) error {
	if etag := resp.Header.Get("ETag"); etag != r.etag {
		return fmt.Errorf("%w: its version is %q now, and was %q", ErrChanged, etag, r.etag)
	}
	if r.etag == "" || strings.HasPrefix(r.etag, "W/") {
		// With If-Range, servers need not say it again.
		if m := resp.Header.Get("Last-Modified"); m != "" && m != r.lastModified {
			return fmt.Errorf("%w: it is of %q now, and was of %q", ErrChanged, m, r.lastModified)
		}
	}
	return nil
}

// A span is what a Content-Range says: the bytes from off to end of size.
type span struct{ off, end, size int64 }

// part returns which part of the file an answer has, and fails unless it is a part.
func (r *Reader) part(resp *http.Response) (span, error) {
	if resp.StatusCode != http.StatusPartialContent {
		return span{}, fmt.Errorf("%w: it answers %s when asked for a part", ErrNoRanges,
			resp.Status)
	}
	if e := resp.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return span{}, fmt.Errorf("%w: the server sends a part with Content-Encoding %q",
			errors.ErrUnsupported, e)
	}
	s, err := parseRange(resp.Header.Get("Content-Range"))
	if err != nil {
		return span{}, err
	}
	if n := resp.ContentLength; n >= 0 && n != s.end-s.off {
		return span{}, fmt.Errorf("the server announces bytes %d to %d, and sends %d", s.off,
			s.end-1, n)
	}
	return s, nil
}

// parseRange reads "bytes 0-99/1234".
func parseRange(header string) (s span, err error) {
	bad := fmt.Errorf("the server says Content-Range %q", header)
	rest, ok := strings.CutPrefix(header, "bytes ")
	if !ok {
		return s, bad
	}
	pos, size, ok1 := strings.Cut(rest, "/")
	off, last, ok2 := strings.Cut(pos, "-")
	if !ok1 || !ok2 {
		return s, bad
	}
	for _, n := range []struct {
		text string
		to   *int64
	}{{off, &s.off}, {last, &s.end}, {size, &s.size}} {
		v, err := strconv.ParseUint(n.text, 10, 63) // no signs
		if err != nil {
			return s, bad
		}
		*n.to = int64(v)
	}
	if s.off > s.end || s.end >= s.size {
		return s, bad
	}
	s.end++
	return s, nil
}
