package command

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestSecretsOfAddressesAreNotShown checks that no message has a signature or password.
func TestSecretsOfAddressesAreNotShown(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	address := strings.Replace(server.URL, "://", "://user:secret@", 1) + "/a.zt?sig=secret"
	for _, args := range [][]string{{"ls", address}, {"hash", address},
		{"convert", address, "x.npz"}} {
		var out bytes.Buffer
		status := run(t.Context(), args, strings.NewReader(""), &out, &out, os.Getenv)
		if status != 3 || strings.Contains(out.String(), "secret") ||
			!strings.Contains(out.String(), "/a.zt") {
			t.Errorf("%v: %d, %s", args, status, &out)
		}
	}
}

func TestAddressesAreFiles(t *testing.T) {
	var requests atomic.Int64
	files := http.FileServer(http.Dir("../../testdata"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.Header.Get("X-Token") == "wrong" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		if r.URL.Path == "/page.zt" {
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader("<!DOCTYPE html><html>"))
			return
		}
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	whole := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		w.Write(make([]byte, 100<<10))
	}))
	defer whole.Close()
	const name = "/ztensor/crate-1.2.3-digests.zt"
	for _, test := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"ls", server.URL + name}, 0, "float32 crc32c"},
		{[]string{"hash", server.URL + name}, 0, "float32 sha256"},
		{[]string{"du", server.URL + name}, 0, "unused"},
		{[]string{"verify", server.URL + name, "../../testdata" + name}, 0, "ok"},
		{[]string{"diff", server.URL + name, "../../testdata" + name}, 0, "the same"},
		{[]string{"cat", server.URL + "/pte/export-1.5.1-linear.pte", "forward/1"}, 0, "["},
		{[]string{"ls", server.URL + "/absent.zt"}, 3, "404"},
		{[]string{"ls", server.URL + "/absent.zt"}, 3, "try: check the address\n"},
		{[]string{"ls", "--json", server.URL + "/absent.zt"}, 3,
			"404 Not Found\",\n  \"class\": \"io\"\n}"},
		{[]string{"ls", whole.URL + "/whole.zt"}, 3, "try: curl -L"},
		{[]string{"ls", "http://example.org/refused.zt"}, 3,
			"try: check the address and the network"},
		{[]string{"ls", server.URL + "/ztensor/README.md"}, 3, "not a tensor file"},
		{[]string{"ls", "--header", "X-Token: wrong", server.URL + name}, 3, "try: --header"},
		{[]string{"ls", "--header", "X-Token", server.URL + name}, 2, "colon"},
		{[]string{"ls", "--header", "X-Token: a\r\nX-Other: b", server.URL + name}, 2,
			"control character"},
		{[]string{"ls", server.URL + "/page.zt"}, 3, "it is an HTML page"},
		{[]string{"ls", strings.Replace(server.URL, "http", "HTTP", 1) + name}, 0, "float32"},
		{[]string{"ls", "--public-only", server.URL + name}, 3,
			"127.0.0.1 is not a public address"},
		{[]string{"ls", "--limit-input", "100", server.URL + name}, 4, "limit"},
		{[]string{"ls", "--in-flight", "1", server.URL + name}, 0, "float32"},
		{[]string{"ls", "--in-flight", "0", server.URL + name}, 2, "is not a number from 1 to"},
		{[]string{"ls", "http://example.org/model.zt"}, 3, "https"},
	} {
		var out bytes.Buffer
		if s := run(t.Context(), test.args, strings.NewReader(""), &out, &out,
			os.Getenv); s != test.status || !strings.Contains(out.String(), test.want) {
			t.Errorf("%q: exit status %d, want %d and %q:\n%s", test.args, s, test.status,
				test.want, out.String())
		}
	}
	requests.Store(0)
	var out bytes.Buffer
	run(t.Context(), []string{"cat", server.URL + name, "int64 crc32c"}, nil, &out, &out,
		os.Getenv)
	if n := requests.Load(); n > 2 {
		t.Errorf("one tensor took %d requests", n)
	}
}
