// Package s3 opens objects of Amazon S3 and of compatible stores by their addresses,
// s3://BUCKET/KEY. Keys are taken as they are: ?, # and % stand for themselves.
//
//	store, err := s3.FromEnv(nil)
//	r, size, err := store.Open(ctx, "s3://models/llama.gguf")
//	f, err := tensorfile.NewReader(r, size, nil)
package s3

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

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/tensorfile/tensorfile/cloud/internal/store"
	"github.com/tensorfile/tensorfile/remote"
)

// Options are the address of the store and the credentials. The zero value is Amazon's,
// without credentials.
type Options struct {
	// Endpoint is the address of a compatible store, which is asked for
	// ENDPOINT/BUCKET/KEY; "" is Amazon's. With http:// nothing is encrypted.
	Endpoint string
	// Region is where buckets are until the store says otherwise; "" is us-east-1.
	Region string
	// Credentials sign the requests; nil sends them unsigned.
	Credentials *credentials.Credentials
	// Remote is how files are read. Its Sign is not used.
	Remote *remote.Options
}

// A Store is a remote.Opener. It is safe for concurrent use.
type Store struct {
	opts     Options
	provider fmt.Stringer // of the credentials; nil: the keys of the options

	mu      sync.Mutex
	buckets map[string]*bucket
}

// A bucket has a client of its own, since its region is a part of each signature.
type bucket struct {
	name, region string
	base         string // what the key follows, for this bucket alone
	client       *remote.Client
}

// New returns a Store; it makes no request.
func New(opts *Options) (*Store, error) {
	s := &Store{buckets: map[string]*bucket{}}
	if opts != nil {
		s.opts = *opts
	}
	s.opts.Region = cmp.Or(s.opts.Region, "us-east-1")
	if s.opts.Endpoint == "" {
		return s, nil
	}
	u, err := url.Parse(s.opts.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
		u.User != nil || u.RawQuery != "" {
		return nil, errors.New("s3: the endpoint is not an address https://HOST")
	}
	return s, nil
}

// FromEnv returns a Store as the environment says: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
// AWS_REGION, AWS_DEFAULT_REGION, and credentials of AWS_ACCESS_KEY_ID, a profile, a web
// identity, the container or the instance, the first that there are; else none.
func FromEnv(opts *remote.Options) (*Store, error) {
	c := &chain{}
	s, err := New(&Options{
		Endpoint:    cmp.Or(os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL")),
		Region:      cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")),
		Credentials: credentials.New(c),
		Remote:      opts,
	})
	if err != nil {
		return nil, err
	}
	s.provider = c
	return s, nil
}

// Open opens an object. It returns a *remote.Reader.
func (s *Store) Open(ctx context.Context, address string) (io.ReaderAt, int64, error) {
	name, key, err := store.Object(address, "s3")
	if err != nil {
		return nil, 0, err
	}
	var r *remote.Reader
	err = s.in(name, func(b *bucket) (err error) {
		r, err = b.client.Open(ctx, store.URL(b.base, key))
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return r, r.Size(), nil
}

// List lists the objects whose addresses begin with prefix.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[remote.Entry, error] {
	name, key, err := store.Split(prefix, "s3")
	var first *bucket
	if err == nil {
		first, err = s.bucket(name, "")
	}
	if err != nil {
		return func(yield func(remote.Entry, error) bool) { yield(remote.Entry{}, err) }
	}
	return store.ListObjects(first.client, "s3://"+name+"/", key,
		func(query string, limit int64) (page []byte, err error) {
			err = s.in(name, func(b *bucket) (err error) {
				page, _, err = b.client.Fetch(ctx, b.base+"?"+query, limit)
				return err
			})
			return page, err
		})
}

// in calls do for a bucket, and once more where the store names another region for it.
func (s *Store) in(name string, do func(*bucket) error) error {
	b, err := s.bucket(name, "")
	if err != nil {
		return err
	}
	err = do(b)
	var status *remote.StatusError
	if errors.As(err, &status) {
		region := status.Header.Get("X-Amz-Bucket-Region")
		if isRegion(region) && region != b.region {
			if b, err = s.bucket(name, region); err != nil {
				return err
			}
			err = do(b)
		}
	}
	if s.provider != nil {
		err = store.Denied(err, s.provider.String())
	}
	return err
}

// isRegion reports whether what a server sends can be a region: it becomes a part of a
// host.
func isRegion(s string) bool {
	return s != "" && len(s) < 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// bucket returns the bucket of a name, in another region unless that is "".
func (s *Store) bucket(name, region string) (*bucket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.buckets[name]; b != nil && (region == "" || region == b.region) {
		return b, nil
	}
	b := &bucket{name: name, region: cmp.Or(region, s.opts.Region)}
	var o remote.Options
	if s.opts.Remote != nil {
		o = *s.opts.Remote
	}
	switch host := "s3." + b.region + ".amazonaws.com"; {
	case s.opts.Endpoint != "":
		b.base = store.URL(s.opts.Endpoint, name) + "/"
		o.AllowHTTP = o.AllowHTTP || strings.HasPrefix(s.opts.Endpoint, "http://")
	case strings.HasPrefix(b.region, "cn-"):
		b.base = "https://" + host + ".cn/" + name + "/"
	case strings.Contains(name, "."): // no certificate is for such a host
		b.base = "https://" + host + "/" + name + "/"
	default:
		b.base = "https://" + name + "." + host + "/"
	}
	o.Sign = func(req *http.Request) error { return s.sign(req, b.region) }
	var err error
	b.client, err = remote.NewClient(&o)
	if err == nil {
		s.buckets[name] = b
	}
	return b, err
}

// sign adds a signature, which covers host, path, range and conditions.
func (s *Store) sign(req *http.Request, region string) error {
	if s.opts.Credentials == nil {
		return nil
	}
	v, err := s.opts.Credentials.GetWithContext(&credentials.CredContext{
		Client: http.DefaultClient, Context: req.Context()})
	if err != nil || v.SignerType.IsAnonymous() {
		return err
	}
	req.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	// changes the header, which both share
	signer.SignV4(*req, v.AccessKeyID, v.SecretAccessKey, v.SessionToken, region)
	return nil
}
