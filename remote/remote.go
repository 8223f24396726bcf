// Package remote reads parts of files over https: a Reader is an io.ReaderAt that
// requests ranges of a file, so that listing the tensors of a file of 40 GB takes one or
// two small requests.
//
//	r, err := remote.Open(ctx, "https://example.org/model.pte", nil)
//	defer r.Close()
//	f, err := tensorfile.NewReader(r, r.Size(), nil)
//
// See the examples of the package and [Open].
//
// The server is not trusted. It must answer a request for a range with that range, of a
// file whose size and version stay the same; bytes beyond the range are not read.
// Credentials go to the host that they were given for, and to no other. Temporary
// failures are retried, a silent server times out, and everything is limited.
package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// ErrChanged is the error of reading a file whose size or version on the server has
// changed since it was opened.
var ErrChanged = errors.New("the file changed on the server")

// ErrNotEncrypted is the error of an address, or of a redirect, that is http and not of
// this machine, without Options.AllowHTTP.
var ErrNotEncrypted = errors.New("not encrypted: http is for servers of this machine")

// ErrNoRanges is the error of a server that sends whole files only. errors.Is also finds
// errors.ErrUnsupported in it.
var ErrNoRanges = fmt.Errorf("%w: the server sends files only as a whole", errors.ErrUnsupported)

// Options control requests. The zero value, and nil, are the defaults.
type Options struct {
	// Header is sent with each request to the host of the address, and not to others
	// where it redirects: Authorization, for example. A range, its conditions and
	// encodings are set by this package.
	Header http.Header

	// Client does the requests. Nil means one of our own, which behaves as
	// http.DefaultTransport does, environment variables for proxies included. Its
	// CheckRedirect is not asked: redirects are followed here, ten at most.
	Client *http.Client

	// AllowHTTP lets addresses and redirects be http, without encryption. Otherwise
	// only addresses of this machine (localhost, 127.0.0.1, ::1) may. A server elsewhere
	// can never redirect to this machine.
	AllowHTTP bool

	// PublicOnly refuses to connect to addresses that are not public, such as addresses
	// of this machine and of private networks: for untrusted addresses. It requires
	// Client to be nil, and uses no proxy.
	PublicOnly bool

	// MaxBytes is how many bytes of content may be fetched in all; going beyond is
	// tensor.ErrLimit. Zero means no limit.
	MaxBytes int64

	// CacheBytes is how much of what small reads fetched is kept; zero means 8 MiB,
	// less than 256 KiB counts as that.
	CacheBytes int64

	// InFlight is how many requests reading ahead, or one large read, has under way at
	// once, each of 8 MiB; zero means 16. Reading ahead keeps no more than so many, for
	// all files of a Client together, in memory.
	InFlight int

	// Attempts is how often a request is tried before its failure counts, if the
	// failure may pass; zero means 5.
	Attempts int

	// Timeout is how long the server may be silent, or send less than 256 bytes, before
	// it is asked again; zero means 30 seconds. How long a transfer takes as a whole is
	// for the context to say.
	Timeout time.Duration

	// Sign is called with each request to the host of the address, each attempt anew,
	// when all but its own headers are set: with a signature, or a token that expires.
	// It may change the query, too. It must be safe for concurrent use.
	Sign func(*http.Request) error

	// HF is where addresses that begin with hf:// are, and the token for it.
	HF HF
}

// A Reader reads a file on a server. It is safe for concurrent use. It keeps the
// context that it was opened with, and fails when that is done.
type Reader struct {
	opts   Options
	client *Client
	owns   bool                                             // client is of this Reader alone
	wait   func(ctx context.Context, d time.Duration) error // between attempts
	parent context.Context                                  // what Open was given
	ctx    context.Context                                  // ends with it, and with Close
	cancel context.CancelCauseFunc
	url    *url.URL

	// Facts of the first answer, which every later one must have.
	size         int64
	etag         string
	lastModified string
	versioned    *url.URL // which address gave it

	fetching sync.WaitGroup // blocks

	mu       sync.Mutex
	linked   int64    // the size that a listing or a redirect of the Hub says; -1: none
	runs     []*run   // the last used first
	blocks   []*block // read ahead
	taken    int64    // bytes that were read of blocks
	resolved *url.URL // where redirects led to, so that they need not be followed each time
	cache    cache
	flights  []*flight // fetches into the cache that are under way
	next     int64     // where the last fetch into the cache ended
	ahead    int64     // how much is fetched at least
	spent    int64     // of Options.MaxBytes
	stats    Stats
}

// Stats counts the requests of a Reader and the bytes that it received.
type Stats struct {
	Requests int64 // redirects and failures included
	Bytes    int64 // of content received
}

// A flight is a fetch into the cache that is under way.
type flight struct {
	off, end int64
	done     chan struct{} // closed at its end
	err      error         // valid then
}

const (
	// window is what is fetched at least, and with the first request: the metadata of
	// most files fit.
	window = 64 << 10
	// mostAhead bounds how far sequential reading runs ahead, as does half of the cache.
	mostAhead = 4 << 20
	// direct is what is not worth keeping: it goes straight to the caller.
	direct = 1 << 20
)

// Open asks for the file at address, which must be https (see Options.AllowHTTP), and for
// its first 64 KiB at once. A file that keeps its directory at the end, which zTensor's
// and zip's names tell, is asked for its last 64 KiB with the same request. Reads fail
// when ctx is done. An address of the Hub, hf://, is the address of a file: its revision
// is resolved to a commit with one more request.
func Open(ctx context.Context, address string, opts *Options) (*Reader, error) {
	if IsHub(address) {
		if name, err := HubPath(address); err == nil && name == "" {
			return nil, fmt.Errorf("remote: %s: %w: a repository, not a file of one",
				naming.Quote(address), fs.ErrInvalid)
		}
		h, err := openHub(ctx, address, opts)
		if err != nil {
			return nil, err
		}
		r, err := h.open(h.path, -1)
		if err != nil {
			h.client.Close()
			return nil, err
		}
		r.owns = true
		return r, nil
	}
	r, err := newReader(ctx, address, opts)
	if err != nil {
		return nil, err
	}
	if err := r.first(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// newReader makes a Reader with a client of its own, and asks for nothing yet.
func newReader(ctx context.Context, address string, opts *Options) (*Reader, error) {
	c, err := NewClient(opts)
	if err != nil {
		return nil, err
	}
	r, err := c.reader(ctx, address)
	if err == nil {
		r.owns = true
	}
	return r, err
}

// sleep waits for d, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// Size returns the size of the file in bytes when it was opened.
func (r *Reader) Size() int64 { return r.size }

// ReadsAhead marks a reader for package tensorfile: the start and the end of the file are
// read ahead and kept, so that nothing else need do so.
func (r *Reader) ReadsAhead() {}

// Version returns what identifies the content of the file on its server: the ETag, or the
// time of its last change; "" where the server says neither.
func (r *Reader) Version() string { return cmp.Or(r.etag, r.lastModified) }

// Stats returns the number of requests and bytes so far.
func (r *Reader) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

// Close cancels requests and frees the cache. Reads fail with fs.ErrClosed
// afterwards. A second Close does nothing.
func (r *Reader) Close() error {
	r.cancel(fs.ErrClosed)
	r.mu.Lock()
	r.cache = cache{}
	for i := len(r.blocks) - 1; i >= 0; i-- {
		if b := r.blocks[i]; b.b != nil {
			r.drop(b)
		}
	}
	r.mu.Unlock()
	r.fetching.Wait()
	if r.owns {
		return r.client.Close()
	}
	return nil
}

// Name returns the last element of the address's path.
func (r *Reader) Name() string { return path.Base(r.url.Path) }

// Companion opens a file next to this one, with the same options and context: a shard,
// external weights. Its name is a path with slashes that does not lead out of the
// directory. The result is an io.Closer too; Close of r does not close it. It
// makes a Reader a tensor.Companion.
func (r *Reader) Companion(name string) (io.ReaderAt, int64, error) {
	if !fs.ValidPath(name) || name == "." {
		return nil, 0, &fs.PathError{Op: "open", Path: name,
			Err: fmt.Errorf("%w: it leads out of the directory", fs.ErrInvalid)}
	}
	u := *r.url
	// they were for this file
	u.RawQuery, u.Fragment = "", ""
	// not path.Join: // may be meant
	u.Path, u.RawPath = u.Path[:strings.LastIndexByte(u.Path, '/')+1]+name, ""
	if err := r.done(); err != nil {
		return nil, 0, err
	}
	c, err := r.client.Open(r.parent, u.String())
	if err != nil {
		return nil, 0, err
	}
	return c, c.Size(), nil
}

// ReadAt fills p from offset off, as io.ReaderAt specifies. A small read fetches 64 KiB,
// and reading that goes on in order fetches more and more ahead, until Options.InFlight
// requests of 8 MiB are under way. A read of 1 MiB or more fetches no more than that at
// first; one of more than 8 MiB is several requests at once.
func (r *Reader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("remote: negative offset %d", off)
	}
	short := int64(len(p)) > r.size-off
	if short {
		p = p[:max(0, r.size-off)]
	}
	for n < len(p) {
		m, err := r.readSome(p[n:], off+int64(n))
		if err != nil {
			return n, err
		}
		n += m
	}
	if err := r.done(); err != nil {
		return 0, err // even if all of it was in the cache
	}
	if short {
		return n, io.EOF
	}
	return n, nil
}

// readSome fills the beginning of p, with as much of it as takes one request at most.
func (r *Reader) readSome(p []byte, off int64) (int, error) {
	end := off + int64(len(p))
	r.mu.Lock()
	if b := r.cache.from(off); len(b) > 0 {
		n := copy(p, b)
		r.follow(off, off+int64(n))
		r.mu.Unlock()
		return n, nil
	}
	if n := r.follow(off, end); n != nil && end-off < 2*blockSize {
		r.readAhead(n, off)
	}
	if b := r.blockAt(off); b != nil {
		if b.b != nil {
			defer r.mu.Unlock()
			return r.take(b, p, off), nil
		}
		r.mu.Unlock()
		return 0, r.await(b.done, &b.err)
	}
	for _, f := range r.flights {
		if f.off <= off && off < f.end { // somebody is fetching it
			r.mu.Unlock()
			return 0, r.await(f.done, &f.err)
		}
	}
	next := r.nextBlock(off)
	end = min(r.cache.before(off, end), next)
	if end-off >= direct {
		r.mu.Unlock()
		return int(end - off), r.fetchLarge(p[:end-off], off)
	}

	// Reads that go on where the last one ended will be followed by others.
	ahead := int64(window)
	if off == r.next {
		ahead = r.ahead
		r.ahead = min(2*r.ahead, mostAhead, r.cache.most/2)
	} else {
		r.ahead = window
	}
	from, to := off, min(max(end, off+ahead), r.size)
	to = max(end, min(to, r.cache.start(end), next))
	for _, f := range r.flights {
		if f.off >= end {
			to = min(to, f.off)
		}
	}
	if to == r.size { // at the end of the file, what comes before is wanted next
		from = r.cache.after(max(0, min(off, to-window)), off)
		for _, b := range r.blocks {
			if b.end <= off {
				from = max(from, b.end)
			}
		}
	}
	if to-from > r.budget() { // nothing ahead, then
		from, to = off, end
	}
	f := &flight{off: from, end: to, done: make(chan struct{})}
	r.flights = append(r.flights, f)
	r.next = to
	r.mu.Unlock()

	b := make([]byte, to-from)
	err := r.fetch(b, from)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.flights {
		if r.flights[i] == f {
			r.flights = append(r.flights[:i], r.flights[i+1:]...)
			break
		}
	}
	f.err = err
	close(f.done)
	if err != nil {
		return 0, err
	}
	if r.ctx.Err() == nil {
		r.cache.put(from, b)
	}
	return copy(p, b[off-from:]), nil
}

// await waits for a fetch by somebody else, whose error is *err.
func (r *Reader) await(done <-chan struct{}, err *error) error {
	select {
	case <-done:
		return *err // and look again
	case <-r.ctx.Done():
		return r.done()
	}
}

// budget is how many bytes may still be asked for. The caller holds mu.
func (r *Reader) budget() int64 {
	if r.opts.MaxBytes == 0 {
		return math.MaxInt64
	}
	return r.opts.MaxBytes - r.spent
}

// spend takes n bytes off the budget, or fails.
func (r *Reader) spend(n int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > r.budget() {
		return fmt.Errorf("remote: %s: %w: %d bytes after %d of %d", r.name(), tensor.ErrLimit,
			n, r.spent, r.opts.MaxBytes)
	}
	r.spent += n
	return nil
}

// done returns why reading is over, nil if it is not: fs.ErrClosed, or what the context
// says.
func (r *Reader) done() error {
	if r.ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("remote: %s: %w", r.name(), context.Cause(r.ctx))
}

// name is the address for messages, without what may be secret in it: the password, and
// the query, which is where signed addresses have their signature.
func (r *Reader) name() string { return redacted(r.url) }

func redacted(u *url.URL) string {
	c := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return c.String()
}
