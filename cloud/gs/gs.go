// Package gs opens objects of Google Cloud Storage by their addresses, gs://BUCKET/KEY,
// by its XML API, and writes them by its JSON API. Keys are taken as they are: ?, # and %
// stand for themselves.
package gs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/tensorfile/tensorfile/cloud/internal/store"
	"github.com/tensorfile/tensorfile/remote"
)

// Options are the address of the store and the credentials. The zero value is Google's,
// without credentials.
type Options struct {
	// Endpoint is the address of both APIs; "" is https://storage.googleapis.com.
	// With http:// nothing is encrypted.
	Endpoint string
	// Tokens are sent with the requests; nil sends none.
	Tokens oauth2.TokenSource
	// Remote is how files are read. Its Sign is not used.
	Remote *remote.Options
}

// A Store is a remote.Creator. It is safe for concurrent use.
type Store struct {
	base     string
	client   *remote.Client
	provider fmt.Stringer // of the tokens; nil: the token of the options
	writing  *Store       // with tokens that may write; nil: this one
}

// New returns a Store; it makes no request.
func New(opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	s := &Store{base: cmp.Or(o.Endpoint, "https://storage.googleapis.com")}
	u, err := url.Parse(s.base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
		u.User != nil || u.RawQuery != "" {
		return nil, errors.New("gs: the endpoint is not an address https://HOST")
	}
	var r remote.Options
	if o.Remote != nil {
		r = *o.Remote
	}
	r.AllowHTTP = r.AllowHTTP || u.Scheme == "http"
	r.Sign = func(req *http.Request) error {
		if o.Tokens == nil {
			return nil
		}
		t, err := o.Tokens.Token()
		if err != nil {
			return fmt.Errorf("gs: no token: %w", err)
		}
		if t.AccessToken != "" {
			t.SetAuthHeader(req)
		}
		return nil
	}
	s.client, err = remote.NewClient(&r)
	return s, err
}

// FromEnv returns a Store as the environment says: with STORAGE_EMULATOR_HOST an
// emulator, without credentials; else Google's with its application default
// credentials: from GOOGLE_APPLICATION_CREDENTIALS, of gcloud's file or of the
// machine, the first that there are; else none.
func FromEnv(opts *remote.Options) (*Store, error) {
	if host := os.Getenv("STORAGE_EMULATOR_HOST"); host != "" {
		if !strings.Contains(host, "://") {
			host = "http://" + host
		}
		return New(&Options{Endpoint: host, Remote: opts})
	}
	withScope := func(scope string) (*Store, error) {
		d := &defaults{scope: scope}
		s, err := New(&Options{Tokens: d, Remote: opts})
		if err == nil {
			s.provider = d
		}
		return s, err
	}
	s, err := withScope(readOnly)
	if err == nil {
		s.writing, err = withScope(readWrite)
	}
	return s, err
}

// defaults are the application default credentials, looked for whenever a token is
// needed.
type defaults struct {
	scope string
	mu    sync.Mutex
	name  string
	token *oauth2.Token
}

const (
	readOnly      = "https://www.googleapis.com/auth/devstorage.read_only"
	readWrite     = "https://www.googleapis.com/auth/devstorage.read_write"
	aheadOfExpiry = 5 * time.Minute // of tokens, when they are renewed
	anonymous     = "no credentials, as none were found"
)

// Token returns an empty token where there are no credentials.
func (d *defaults) Token() (*oauth2.Token, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.token != nil && (d.token.Expiry.IsZero() || time.Until(d.token.Expiry) > aheadOfExpiry) {
		return d.token, nil
	}
	name, token := anonymous, &oauth2.Token{}
	isNamed := os.Getenv("GOOGLE_APPLICATION_CREDENTIALS") != ""
	c, err := google.FindDefaultCredentials(context.Background(), d.scope)
	if err != nil && isNamed {
		// err may quote it
		return nil, errors.New("the file of GOOGLE_APPLICATION_CREDENTIALS has no credentials")
	}
	if err == nil {
		t, err := c.TokenSource.Token()
		isMachine := len(c.JSON) == 0
		switch {
		case err != nil && isMachine: // it has no service account
		case err != nil:
			return nil, err
		case isNamed:
			name, token = "credentials of GOOGLE_APPLICATION_CREDENTIALS", t
		case isMachine:
			name, token = "credentials of the machine", t
		default:
			name, token = "credentials of gcloud", t
		}
	}
	d.name, d.token = name, token
	return token, nil
}

func (d *defaults) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.name
}

// Open opens an object. It returns a *remote.Reader.
func (s *Store) Open(ctx context.Context, address string) (io.ReaderAt, int64, error) {
	bucket, key, err := store.Object(address, "gs")
	if err != nil {
		return nil, 0, err
	}
	r, err := s.client.Open(ctx, store.URL(s.base, bucket+"/"+key))
	if err != nil {
		return nil, 0, s.denied(err)
	}
	return r, r.Size(), nil
}

// List lists the objects whose addresses begin with prefix.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[remote.Entry, error] {
	bucket, key, err := store.Split(prefix, "gs")
	if err != nil {
		return func(yield func(remote.Entry, error) bool) { yield(remote.Entry{}, err) }
	}
	return store.ListObjects(s.client, "gs://"+bucket+"/", key,
		func(query string, limit int64) ([]byte, error) {
			page, _, err := s.client.Fetch(ctx, store.URL(s.base, bucket)+"?"+query, limit)
			return page, s.denied(err)
		})
}

func (s *Store) denied(err error) error {
	if s.provider == nil {
		return err
	}
	return store.Denied(err, s.provider.String())
}
