package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/tensorfile/tensorfile/tensor"
)

// A Creator is an Opener that writes objects, too.
type Creator interface {
	Opener
	// Create begins an object. Where replace is false and there is one already, that is
	// an error of Create or of Close: fs.ErrExist.
	Create(ctx context.Context, address string, replace bool) (ObjectWriter, error)
}

// An ObjectWriter writes an object, which appears whole with Close or not at all. It is
// for one goroutine.
type ObjectWriter interface {
	io.Writer
	Close() error // completes the object; a second call returns the same
	Abort()       // drops it; does nothing after Close
}

// Send makes a request with a body and returns a response of at most limit bytes. The
// request is retried as requests that read are, so it must be one that may arrive twice.
// A response with another status than 2xx and 308 is a *StatusError.
func (c *Client) Send(ctx context.Context, method, address string, header http.Header,
	body []byte, limit int64) ([]byte, http.Header, error) {
	u, err := url.Parse(address)
	if err != nil {
		// err quotes it, secrets included
		return nil, nil, errors.New("remote: the address cannot be understood")
	}
	r, err := c.readerOf(ctx, u)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	var answer []byte
	var got http.Header
	err = r.again(func() (int64, error) {
		resp, err := r.exchange(method, u, body, func(h http.Header) {
			for k, v := range header {
				h[k] = v
			}
		})
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		if code := resp.StatusCode; code/100 != 2 && code != http.StatusPermanentRedirect {
			return 0, r.refusal(resp)
		}
		answer, err = io.ReadAll(io.LimitReader(resp.Body, limit+1))
		if err != nil {
			return 0, &failure{err: err}
		}
		if int64(len(answer)) > limit {
			return 0, fmt.Errorf("%w: an answer of more than %d bytes", tensor.ErrLimit, limit)
		}
		got = resp.Header
		if to := got.Get(location); to != "" {
			got.Set("Location", to)
		}
		return 0, nil
	})
	return answer, got, err
}
