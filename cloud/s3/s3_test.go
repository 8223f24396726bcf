package s3

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/tensorfile/tensorfile/cloud/internal/storetest"
	"github.com/tensorfile/tensorfile/remote"
	"github.com/tensorfile/tensorfile/tensor"
)

// clearEnv hides the credentials of whoever runs the test.
func clearEnv(t *testing.T) {
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

func TestStoreOpensAndListsObjects(t *testing.T) {
	clearEnv(t)
	s := start(t, "eu-west-3", "token/of+session")
	t.Setenv("AWS_ENDPOINT_URL", s.URL)
	t.Setenv("AWS_REGION", "eu-west-3")
	t.Setenv("AWS_ACCESS_KEY_ID", testID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", testSecret)
	t.Setenv("AWS_SESSION_TOKEN", "token/of+session")
	store, err := FromEnv(nil)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, s, store, "s3://bucket/", "credentials of AWS_ACCESS_KEY_ID", testSecret,
		"token/of", testID)
}

func TestWrongCredentialsAreAPermissionError(t *testing.T) {
	clearEnv(t)
	s := start(t, "us-east-1", "")
	for name, c := range map[string]*credentials.Credentials{
		"SignatureDoesNotMatch": credentials.NewStaticV4(testID, "guessed", ""),
		"InvalidAccessKeyId":    credentials.NewStaticV4("other", testSecret, ""),
		"RequestTimeTooSkewed":  nil, // no signature at all
	} {
		store, err := New(&Options{Endpoint: s.URL, Credentials: c})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = store.Open(t.Context(), "s3://bucket/m/big.bin")
		var status *remote.StatusError
		if !errors.Is(err, fs.ErrPermission) || !errors.As(err, &status) ||
			status.Reason != name || strings.Contains(err.Error(), "guessed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRegionThatTheStoreNamesIsUsed(t *testing.T) {
	s := start(t, "ap-south-1", "")
	store, err := New(&Options{Endpoint: s.URL, Credentials: credentials.NewStaticV4(testID,
		testSecret, "")})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Open(t.Context(), "s3://bucket/m/big.bin"); err != nil {
		t.Error(err)
	}
	for _, err := range store.List(t.Context(), "s3://bucket/m/") {
		if err != nil {
			t.Error(err)
		}
	}
	for region, want := range map[string]string{"": "us-east-1", "x.evil.example/": "us-east-1",
		"eu-north-1": "eu-north-1"} {
		var scopes []string
		s := storetest.Start(t, nil)
		s.Check = func(w http.ResponseWriter, r *http.Request) bool {
			scopes = append(scopes, strings.Split(r.Header.Get("Authorization"), "/")[2])
			w.Header().Set("X-Amz-Bucket-Region", region)
			storetest.Fail(w, http.StatusMovedPermanently, "PermanentRedirect")
			return false
		}
		store, err := New(&Options{Endpoint: s.URL,
			Credentials: credentials.NewStaticV4(testID, testSecret, "")})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = store.Open(t.Context(), "s3://bucket/x")
		var status *remote.StatusError
		if !errors.As(err, &status) || status.Code != 301 || scopes[len(scopes)-1] != want ||
			len(scopes) > 2 {
			t.Errorf("%q: %v, asked for %q", region, err, scopes)
		}
	}
}

func TestHostsOfAmazonFollowBucketAndRegion(t *testing.T) {
	for _, test := range []struct{ bucket, region, want string }{
		{"models", "", "https://models.s3.us-east-1.amazonaws.com/"},
		{"models", "eu-central-1", "https://models.s3.eu-central-1.amazonaws.com/"},
		{"my.models", "", "https://s3.us-east-1.amazonaws.com/my.models/"},
	} {
		store, err := New(&Options{Region: test.region})
		if err != nil {
			t.Fatal(err)
		}
		if b, err := store.bucket(test.bucket, ""); err != nil || b.base != test.want {
			t.Errorf("%v: %+v, %v", test, b, err)
		}
	}
	for _, endpoint := range []string{"localhost:9000", "ftp://x", "https://user:secret@x",
		"://"} {
		if _, err := New(&Options{Endpoint: endpoint}); err == nil ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}

func TestListingsThatLieAreRefused(t *testing.T) {
	s := storetest.Start(t, nil)
	body := ""
	s.List = func(w http.ResponseWriter, r *http.Request) bool {
		io.WriteString(w,
			body)
		return true
	}
	store, err := New(&Options{Endpoint: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	for _, body = range []string{
		"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
		"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken></ListBucketResult>",
		"<ListBucketResult><Contents><Key>other/x</Key></Contents></ListBucketResult>",
		"<ListBucketResult><Contents><Key>m/../x</Key></Contents></ListBucketResult>",
		"<ListBucketResult><Contents><Key>m/x</Key><Size>-1</Size></Contents></ListBucketResult>",
		"<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>m/%zz</Key></Contents></ListBucketResult>",
		"<EnumerationResults/>",
	} {
		if _, err := remote.OpenFS(t.Context(), store, "s3://bucket/m"); !errors.Is(err,
			tensor.ErrMalformed) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// The order is the order of AWS's tools, and the first that has credentials counts.
func TestFirstCredentialsInTheOrderOfAWSAreUsed(t *testing.T) {
	clearEnv(t)
	get := func() (id, from string, err error) {
		c := &chain{}
		v, err := credentials.New(c).GetWithContext(
			&credentials.CredContext{Client: http.DefaultClient})
		return v.AccessKeyID, c.String(), err
	}
	want := func(id, from string) {
		t.Helper()
		if gotID, gotFrom, err := get(); err != nil || gotID != id || gotFrom != from {
			t.Errorf("%q of %q, %v; want %q of %q", gotID, gotFrom, err, id, from)
		}
	}
	want("", anonymous)
	asked := 0
	container := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; r.Header.Get("Authorization") != "pod" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, `{"AccessKeyId": "of-container", "SecretAccessKey": "s", "Token": "t", "Expiration": %q}`,
			time.Now().Add(4*time.Minute).UTC().Format(time.RFC3339))
	}))
	defer container.Close()
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", container.URL)
	if _, from, err := get(); !errors.Is(err, fs.ErrPermission) || asked != 1 {
		t.Errorf("a container that refuses: %q, %v", from, err)
	} else if !strings.Contains(err.Error(), "of the container") {
		t.Errorf("the message does not name the credentials: %v", err)
	}
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "pod")
	want("of-container", "credentials of the container")
	asked = 0
	c := credentials.New(&chain{})
	for range 2 { // they end within five minutes
		c.GetWithContext(&credentials.CredContext{Client: http.DefaultClient})
	}
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "credentials")
	if err := os.WriteFile(file,
		[]byte("[team]\naws_access_key_id = of-profile\naws_secret_access_key = s\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	want("of-container", "credentials of the container")
	t.Setenv("AWS_PROFILE", "absent")
	if _, _, err := get(); err == nil {
		t.Error("a profile that is absent is no error")
	}
	t.Setenv("AWS_PROFILE", "team")
	want("of-profile", "credentials of the profile")
	t.Setenv("AWS_ACCESS_KEY_ID", "of-env")
	want("of-profile", "credentials of the profile") // an identifier alone is none
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
	want("of-env", "credentials of AWS_ACCESS_KEY_ID")
}
