// Package az opens blobs of Azure Blob Storage by their addresses, az://CONTAINER/BLOB,
// by its REST API. Names are taken as they are: ?, # and % stand for themselves.
package az

import (
	"context"
	"encoding/base64"
	"encoding/xml"
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

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/tensorfile/tensorfile/cloud/internal/store"
	"github.com/tensorfile/tensorfile/remote"
)

// Options are the storage account and its credentials. Of Key, SAS and Credential one is
// used.
type Options struct {
	// Account is the name of the storage account.
	Account string
	// Endpoint is the address of its containers; "" is
	// https://ACCOUNT.blob.core.windows.net. With http:// nothing is encrypted.
	Endpoint string
	// Key is the account's, which signs the requests.
	Key []byte
	// SAS is a shared access signature, the query of an address.
	SAS string
	// Credential gives tokens for the requests.
	Credential azcore.TokenCredential
	// Remote is how files are read. Its Sign is not used.
	Remote *remote.Options
}

// A Store is a remote.Opener. It is safe for concurrent use.
type Store struct {
	opts     Options
	client   *remote.Client
	provider string

	mu    sync.Mutex
	token azcore.AccessToken
}

// New returns a Store; it makes no request.
func New(opts *Options) (*Store, error) {
	s := &Store{provider: "no credentials, as none were found"}
	if opts != nil {
		s.opts = *opts
	}
	o := &s.opts
	if o.Endpoint == "" {
		if strings.Trim(o.Account, "abcdefghijklmnopqrstuvwxyz0123456789") != "" ||
			o.Account == "" {
			return nil, errors.New(
				"az: no name of a storage account, such as AZURE_STORAGE_ACCOUNT gives")
		}
		o.Endpoint = "https://" + o.Account + ".blob.core.windows.net"
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
		u.User != nil || u.RawQuery != "" {
		return nil, errors.New("az: the endpoint is not an address https://HOST")
	}
	if o.SAS, err = cleanSAS(o.SAS); err != nil {
		return nil, err
	}
	var r remote.Options
	if o.Remote != nil {
		r = *o.Remote
	}
	r.AllowHTTP = r.AllowHTTP || u.Scheme == "http"
	r.Sign = s.sign
	s.client, err = remote.NewClient(&r)
	return s, err
}

func cleanSAS(sas string) (string, error) {
	sas = strings.TrimPrefix(strings.TrimSpace(sas), "?")
	if _, err := url.ParseQuery(sas); err != nil {
		return "", errors.New("az: the shared access signature is not a query") // err quotes it
	}
	return sas, nil
}

// FromEnv returns a Store as the environment says: AZURE_STORAGE_CONNECTION_STRING, else
// AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, or what
// azidentity.DefaultAzureCredential finds.
func FromEnv(opts *remote.Options) (*Store, error) {
	o := &Options{Account: os.Getenv("AZURE_STORAGE_ACCOUNT"), Remote: opts}
	provider := ""
	if text := os.Getenv("AZURE_STORAGE_CONNECTION_STRING"); text != "" {
		if err := o.connect(text); err != nil {
			return nil, err
		}
		provider = "credentials of AZURE_STORAGE_CONNECTION_STRING"
	} else if key := os.Getenv("AZURE_STORAGE_KEY"); key != "" {
		var err error
		if o.Key, err = base64.StdEncoding.DecodeString(key); err != nil {
			return nil, errors.New("az: AZURE_STORAGE_KEY is not in base64")
		}
		provider = "credentials of AZURE_STORAGE_KEY"
	} else if o.SAS = os.Getenv("AZURE_STORAGE_SAS_TOKEN"); o.SAS != "" {
		provider = "credentials of AZURE_STORAGE_SAS_TOKEN"
	} else {
		c, err := azidentity.NewDefaultAzureCredential(nil)
		if err != nil {
			return nil, fmt.Errorf("az: %w", err)
		}
		o.Credential, provider = c, "credentials of azidentity.DefaultAzureCredential"
	}
	s, err := New(o)
	if err == nil {
		s.provider = provider
	}
	return s, err
}

// connect takes a connection string over.
func (o *Options) connect(text string) error {
	fields := map[string]string{}
	for _, f := range strings.Split(text, ";") {
		if k, v, ok := strings.Cut(f, "="); ok {
			fields[strings.ToLower(strings.TrimSpace(k))] = strings.TrimSpace(v)
		}
	}
	o.Account, o.SAS = fields["accountname"], fields["sharedaccesssignature"]
	o.Endpoint = strings.TrimSuffix(fields["blobendpoint"], "/")
	if suffix := fields["endpointsuffix"]; o.Endpoint == "" && suffix != "" {
		o.Endpoint = "https://" + o.Account + ".blob." + suffix
	}
	key, err := base64.StdEncoding.DecodeString(fields["accountkey"])
	if err != nil || o.Account == "" && o.Endpoint == "" {
		// it has secrets
		return errors.New("az: AZURE_STORAGE_CONNECTION_STRING cannot be understood")
	}
	if len(key) > 0 {
		o.Key = key
	}
	return nil
}

// apiVersion is the version of the REST API that answers are understood of.
const apiVersion = "2023-11-03"

// sign adds the credentials.
func (s *Store) sign(req *http.Request) error {
	req.Header.Set("X-Ms-Version", apiVersion)
	switch {
	case len(s.opts.Key) > 0:
		signKey(req, s.opts.Account, s.opts.Key)
	case s.opts.SAS != "":
		req.URL.RawQuery = strings.TrimPrefix(req.URL.RawQuery+"&"+s.opts.SAS, "&")
	case s.opts.Credential != nil:
		t, err := s.bearer(req.Context())
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+t)
	}
	return nil
}

// aheadOfExpiry is how long before their end tokens are renewed.
const aheadOfExpiry = 5 * time.Minute

func (s *Store) bearer(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Until(s.token.ExpiresOn) < aheadOfExpiry {
		t, err := s.opts.Credential.GetToken(ctx,
			policy.TokenRequestOptions{Scopes: []string{"https://storage.azure.com/.default"}})
		if err != nil {
			return "", fmt.Errorf("az: no token: %w", err)
		}
		s.token = t
	}
	return s.token.Token, nil
}

// Open opens a blob. It returns a *remote.Reader.
func (s *Store) Open(ctx context.Context, address string) (io.ReaderAt, int64, error) {
	container, name, err := store.Object(address, "az")
	if err != nil {
		return nil, 0, err
	}
	r, err := s.client.Open(ctx, store.URL(s.opts.Endpoint, container+"/"+name))
	if err != nil {
		return nil, 0, store.Denied(err, s.provider)
	}
	return r, r.Size(), nil
}

// A blob is an element of blobPage.
type blob struct {
	Name struct {
		Encoded bool   `xml:"Encoded,attr"`
		Text    string `xml:",chardata"`
	}
	Properties struct {
		Size         int64  `xml:"Content-Length"`
		ETag         string `xml:"Etag"`
		LastModified string `xml:"Last-Modified"`
		ResourceType string
	}
}

// Entry returns an entry with the name as its address; "" for a directory, which accounts
// with a hierarchy have.
func (b blob) Entry() (e remote.Entry, err error) {
	p := b.Properties
	e.Address, e.Size, e.ETag = b.Name.Text, p.Size, p.ETag
	if b.Name.Encoded {
		if e.Address, err = url.PathUnescape(e.Address); err != nil {
			return e, err
		}
	}
	switch {
	case p.ResourceType == "directory":
		return remote.Entry{}, nil
	case e.Address == "":
		return e, errors.New("a blob without a name")
	}
	// zero where the store has another form
	e.Modified, _ = time.Parse(http.TimeFormat, p.LastModified)
	return e, nil
}

// blobPage is a response of List Blobs.
type blobPage struct {
	XMLName    xml.Name `xml:"EnumerationResults"`
	NextMarker string
	Blobs      struct{ Blob store.Rows[blob] }
}

// List lists the blobs whose addresses begin with prefix.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[remote.Entry, error] {
	container, name, err := store.Split(prefix, "az")
	if err != nil {
		return func(yield func(remote.Entry, error) bool) { yield(remote.Entry{}, err) }
	}
	root := "az://" + container + "/"
	return s.client.Pages(root+name, func(next string, limit int64) (remote.Page, error) {
		query := url.Values{"restype": {"container"}, "comp": {"list"}, "prefix": {name}}
		if next != "" {
			query.Set("marker", next)
		}
		b, _, err := s.client.Fetch(ctx, store.URL(s.opts.Endpoint, container)+"?"+
			strings.ReplaceAll(query.Encode(), "+", "%20"), limit)
		if err != nil {
			return remote.Page{}, store.Denied(err, s.provider)
		}
		var page blobPage
		if err := xml.Unmarshal(b, &page); err != nil {
			return remote.Page{}, store.Malformed(root, err)
		}
		entries := page.Blobs.Blob
		for i := range entries {
			entries[i].Address = root + entries[i].Address
		}
		return remote.Page{Entries: entries, Next: page.NextMarker, Size: int64(len(b))}, nil
	})
}
