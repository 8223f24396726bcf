package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// A Client opens files and fetches small responses with the same options over the same
// connections: what an Opener is made of. It is safe for concurrent use.
type Client struct {
	opts       Options
	http       *http.Client
	redirected sync.Map // host:port of redirects from a server that is not this machine
	closeIdle  func()

	requests, retries atomic.Int64
	blocks            atomic.Int64 // in use, of Options.InFlight
	buffers           buffers
}

// NewClient returns a Client; it makes no request.
func NewClient(opts *Options) (*Client, error) {
	c := &Client{http: &http.Client{}, closeIdle: func() {}}
	if opts != nil {
		c.opts = *opts
	}
	o := &c.opts
	switch {
	case o.MaxBytes < 0:
		return nil, fmt.Errorf("remote: Options.MaxBytes is negative: %d", o.MaxBytes)
	case o.CacheBytes < 0:
		return nil, fmt.Errorf("remote: Options.CacheBytes is negative: %d", o.CacheBytes)
	case o.InFlight < 0:
		return nil, fmt.Errorf("remote: Options.InFlight is negative: %d", o.InFlight)
	case o.Attempts < 0:
		return nil, fmt.Errorf("remote: Options.Attempts is negative: %d", o.Attempts)
	case o.Timeout < 0:
		return nil, fmt.Errorf("remote: Options.Timeout is negative: %v", o.Timeout)
	case o.PublicOnly && o.Client != nil:
		return nil, errors.New("remote: Options.PublicOnly cannot watch over a Client of your own")
	}
	o.Header = o.Header.Clone()
	if o.CacheBytes == 0 {
		o.CacheBytes = 8 << 20
	}
	if o.InFlight == 0 {
		o.InFlight = 16
	}
	if o.Attempts == 0 {
		o.Attempts = 5
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Client != nil {
		*c.http = *o.Client
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok {
		c.transport(t.Clone())
	}
	if c.http.Transport == nil {
		c.http.Transport = http.DefaultTransport
	}
	c.http.Transport = noFollow{c.http.Transport}
	return c, nil
}

// transport makes t the client's own. Hosts in redirected must not turn out to be this
// machine.
func (c *Client) transport(t *http.Transport) {
	publicOnly := c.opts.PublicOnly
	t.MaxResponseHeaderBytes = 64 << 10
	t.DisableCompression = true
	t.MaxIdleConnsPerHost = c.opts.InFlight
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true) // HTTP/2 has all requests share the bandwidth of one connection
	if publicOnly {
		t.Proxy = nil
	}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		d := &net.Dialer{Timeout: 30 * time.Second}
		if publicOnly {
			d.Control = refusePrivate
		} else if _, ok := c.redirected.Load(address); ok {
			d.Control = refuseLocal
		}
		return d.DialContext(ctx, network, address)
	}
	c.http.Transport, c.closeIdle = t, t.CloseIdleConnections
}

// Open opens a file as the function Open does, but for addresses of the Hub.
func (c *Client) Open(ctx context.Context, address string) (*Reader, error) {
	r, err := c.reader(ctx, address)
	if err != nil {
		return nil, err
	}
	if err := r.first(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Fetch returns a response of at most limit bytes that is not a part of a file, such as
// a page of a listing, and its header.
func (c *Client) Fetch(ctx context.Context, address string, limit int64) ([]byte, http.Header,
	error) {
	r, err := c.reader(ctx, address)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	return r.whole(limit)
}

// Close closes idle connections. Open files stay usable until they are closed.
func (c *Client) Close() error {
	c.closeIdle()
	c.buffers.clear()
	return nil
}

func (c *Client) reader(ctx context.Context, address string) (*Reader, error) {
	u, err := url.Parse(address)
	if err != nil {
		// not err: it quotes the address, secrets included
		return nil, errors.New("remote: the address cannot be understood")
	}
	return c.readerOf(ctx, u)
}

// readerOf makes a Reader that asks for nothing yet.
func (c *Client) readerOf(ctx context.Context, u *url.URL) (*Reader, error) {
	r := &Reader{opts: c.opts, url: u, client: c, ahead: window, size: -1, linked: -1, wait: sleep}
	r.cache.most = max(c.opts.CacheBytes, 4*window)
	if err := r.permitted(u); err != nil {
		return nil, err
	}
	r.parent = ctx
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	return r, nil
}

// freeRetries and one in ten requests may be retries: a server in trouble is left alone.
const freeRetries = 20

// retry reports whether one more request may be tried again.
func (c *Client) retry() bool {
	return c.retries.Add(1) <= freeRetries+c.requests.Load()/10
}

// noFollow keeps http.Client from following redirects, and from quoting in an error
// where they lead to, by putting the address where only we look for it.
type noFollow struct{ http.RoundTripper }

const location = "Tensorfile-Location"

func (t noFollow) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(req)
	if resp != nil {
		delete(resp.Header, location)
		if to, ok := resp.Header["Location"]; ok {
			resp.Header[location] = to
			delete(resp.Header, "Location")
		}
	}
	return resp, err
}
