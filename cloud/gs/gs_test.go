package gs

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/oauth2"

	"github.com/tensorfile/tensorfile/cloud/internal/storetest"
)

// clearEnv hides the credentials of whoever runs the test, and the machine's.
func clearEnv(t *testing.T) {
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("CLOUDSDK_CONFIG", t.TempDir())
	machine := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(machine.Close)
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(machine.URL, "http://"))
}

func TestStoreOpensAndListsObjects(t *testing.T) {
	s := start(t, "ya29.secret")
	store, err := New(&Options{Endpoint: s.URL,
		Tokens: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "ya29.secret"})})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, s, store, "gs://bucket/", "403", "ya29")
}

func TestEmulatorOfTheEnvironmentIsUsed(t *testing.T) {
	clearEnv(t)
	s := start(t, "")
	t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(s.URL, "http://"))
	store, err := FromEnv(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, size, err := store.Open(t.Context(), "gs://bucket/m/big.bin"); err != nil ||
		size != 300_000 {
		t.Errorf("%d bytes, %v", size, err)
	}
}

func TestCredentialsOfTheEnvironmentAreUsed(t *testing.T) {
	clearEnv(t)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	asked, scope := 0, ""
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		claims, _ := base64.RawURLEncoding.DecodeString(
			strings.Split(r.FormValue("assertion"), ".")[1])
		var c struct{ Scope string }
		if err := json.Unmarshal(claims, &c); err != nil {
			t.Error(err)
		}
		scope = c.Scope
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token": "ya29.secret", "token_type": "Bearer", "expires_in": 240}`)
	}))
	defer tokens.Close()
	b, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "reader@example.iam", "token_uri": tokens.URL,
		"project_id":  "p",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}

	s := start(t, "ya29.secret")
	open := func() error {
		d := &defaults{scope: readOnly}
		store, err := New(&Options{Endpoint: s.URL, Tokens: d})
		if err != nil {
			t.Fatal(err)
		}
		store.provider = d
		_, _, err = store.Open(t.Context(), "gs://bucket/m/big.bin")
		if err == nil {
			_, _, err = store.Open(t.Context(), "gs://bucket/m/config.json")
		}
		return err
	}
	if err := open(); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("without credentials: %v", err)
	} else if !strings.Contains(err.Error(), anonymous) {
		t.Errorf("the message does not say that there are no credentials: %v", err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	if err := open(); err != nil {
		t.Error(err)
	}
	if asked != 2 { // the token ends within five minutes
		t.Errorf("asked for %d tokens", asked)
	}
	store, err := FromEnv(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		store *Store
		scope string
	}{{store, readOnly}, {store.writing, readWrite}} {
		if _, err := test.store.provider.(*defaults).Token(); err != nil || scope != test.scope {
			t.Errorf("scope %q, want %q; %v", scope, test.scope, err)
		}
	}
	if err := os.WriteFile(file, []byte(`{"private_key": "secret`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open(); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a file that is damaged: %v", err)
	}
}
