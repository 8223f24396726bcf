package az

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/tensorfile/tensorfile/cloud/internal/storetest"
	"github.com/tensorfile/tensorfile/remote"
	"github.com/tensorfile/tensorfile/tensor"
)

// fakeCredential counts the tokens that it gives.
type fakeCredential struct {
	given int
	lasts time.Duration
	err   error
}

func (c *fakeCredential) GetToken(context.Context,
	policy.TokenRequestOptions) (azcore.AccessToken, error) {
	c.given++
	return azcore.AccessToken{Token: "eyJ.secret", ExpiresOn: time.Now().Add(c.lasts)}, c.err
}

// clearEnv hides the credentials of whoever runs the test.
func clearEnv(t *testing.T) {
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "AZURE_") {
			t.Setenv(name, "")
		}
	}
}

func TestStoreRenewsTokensBeforeTheyEnd(t *testing.T) {
	s := start(t, func(r *http.Request) bool {
		return r.Header.Get("Authorization") == "Bearer eyJ.secret"
	})
	c := &fakeCredential{lasts: time.Hour}
	store, err := New(&Options{Endpoint: s.URL, Credential: c})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, s, store, "az://container/", "403", "eyJ")
	if c.given != 1 {
		t.Errorf("%d tokens", c.given)
	}
	c = &fakeCredential{lasts: 4 * time.Minute} // which is to be renewed at once
	if store, err = New(&Options{Endpoint: s.URL, Credential: c}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, _, err := store.Open(t.Context(), "az://container/m/big.bin"); err != nil {
			t.Error(err)
		}
	}
	if c.given != 2 {
		t.Errorf("%d tokens", c.given)
	}
	c.err = errors.New("no identity here")
	if _, _, err := store.Open(t.Context(), "az://container/m/big.bin"); !errors.Is(err, c.err) {
		t.Error(err)
	}
}

func TestStoreSendsTheSignatureOfTheQuery(t *testing.T) {
	clearEnv(t)
	s := start(t, func(r *http.Request) bool {
		return r.URL.Query().Get("sig") == "se/cret=" && r.Header.Get("Authorization") == ""
	})
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING",
		"BlobEndpoint="+s.URL+"/;SharedAccessSignature=?sv=2023-11-03&sig=se%2Fcret%3D")
	store, err := FromEnv(nil)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, s, store, "az://container/",
		"credentials of AZURE_STORAGE_CONNECTION_STRING", "se/cret", "se%2Fcret")
}

func TestStoreSignsWithTheKey(t *testing.T) {
	clearEnv(t)
	s := start(t, func(r *http.Request) bool {
		return strings.HasPrefix(r.Header.Get("Authorization"), "SharedKey account:") &&
			r.Header.Get("X-Ms-Date") != ""
	})
	secret := base64.StdEncoding.EncodeToString([]byte("secret"))
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING",
		"DefaultEndpointsProtocol=http;AccountName=account;AccountKey="+secret+";BlobEndpoint="+
			s.URL)
	store, err := FromEnv(nil)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, s, store, "az://container/",
		"credentials of AZURE_STORAGE_CONNECTION_STRING", secret)
	store.opts.Key = nil
	var status *remote.StatusError
	if _, _, err := store.Open(t.Context(), "az://container/m/big.bin"); !errors.Is(err,
		fs.ErrPermission) || !errors.As(err, &status) || status.Reason != "AuthenticationFailed" {
		t.Error(err)
	}
}

func TestEnvironmentNamesAccountAndKey(t *testing.T) {
	clearEnv(t)
	for _, test := range []struct{ variable, value, endpoint string }{
		{"AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=x", "https://acme.blob.core.windows.net"},
		{"AZURE_STORAGE_KEY", "c2VjcmV0", "https://acme.blob.core.windows.net"},
		{"AZURE_STORAGE_CONNECTION_STRING",
			"AccountName=b;AccountKey=c2VjcmV0;EndpointSuffix=core.chinacloudapi.cn",
			"https://b.blob.core.chinacloudapi.cn"},
		{"AZURE_STORAGE_CONNECTION_STRING", "secret", ""},
		{"AZURE_STORAGE_CONNECTION_STRING", "AccountName=b;AccountKey=%secret", ""},
		{"AZURE_STORAGE_KEY", "%secret", ""},
		{"AZURE_STORAGE_SAS_TOKEN", "sig=%zzsecret", ""},
		{"AZURE_STORAGE_ACCOUNT", "a.evil.example/", ""},
		{"AZURE_STORAGE_ACCOUNT", "", ""},
	} {
		t.Run(test.variable, func(t *testing.T) {
			t.Setenv("AZURE_STORAGE_ACCOUNT", "acme")
			t.Setenv(test.variable, test.value)
			store, err := FromEnv(nil)
			if test.endpoint == "" {
				if err == nil || strings.Contains(err.Error(), "secret") {
					t.Error(err)
				}
			} else if err != nil || store.opts.Endpoint != test.endpoint {
				t.Errorf("%+v, %v", store, err)
			}
		})
	}
}

func TestListingsOfOtherFormsAreReadOrRefused(t *testing.T) {
	body := ""
	s := start(t, func(*http.Request) bool { return true })
	s.List = func(w http.ResponseWriter, r *http.Request) bool { fmt.Fprint(w, body); return true }
	store, err := New(&Options{Endpoint: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	body = `<EnumerationResults><Blobs><Blob><Name Encoded="true">m/a%EF%BF%BEb</Name></Blob>
		<Blob><Name>m/dir</Name><Properties><ResourceType>directory</ResourceType></Properties></Blob></Blobs></EnumerationResults>`
	for e, err := range store.List(t.Context(), "az://container/m/") {
		if err != nil || e.Address != "az://container/m/a\uFFFEb" {
			t.Errorf("%+v, %v", e, err)
		}
	}
	for _, body = range []string{
		`<EnumerationResults><Blobs><Blob><Name Encoded="true">m/%zz</Name></Blob></Blobs></EnumerationResults>`,
		`<EnumerationResults><Blobs><Blob><Name>x</Name></Blob></Blobs></EnumerationResults>`,
		`<EnumerationResults><NextMarker>x</NextMarker></EnumerationResults>`,
	} {
		if _, err := remote.OpenFS(t.Context(), store, "az://container/m"); !errors.Is(err,
			tensor.ErrMalformed) {
			t.Errorf("%s: %v", body, err)
		}
	}
}
