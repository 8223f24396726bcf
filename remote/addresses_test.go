package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestCredentialsStayAtHome(t *testing.T) {
	secret := http.Header{"Authorization": {"Bearer s3cret"}, "X-Api-Key": {"s3cret"},
		"Cookie": {"s3cret"}}
	s := serve(t, 300_000)
	var other http.Header
	cdn := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		other = r.Header.Clone()
		if r.URL.Path == "/back" {
			http.Redirect(w, r, s.URL+"/at-home", http.StatusFound)
			return
		}
		s.good(w, r)
	}))
	defer cdn.Close()
	var home []string
	s.behave(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		home = append(home, r.URL.Path+" "+r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"))
		switch r.URL.Path {
		case "/f":
			http.Redirect(w, r, cdn.URL+"/blob?signature=s1gned", http.StatusFound)
		case "/round":
			http.Redirect(w, r, cdn.URL+"/back", http.StatusTemporaryRedirect)
		case "/here":
			http.Redirect(w, r, "at-home", http.StatusPermanentRedirect)
		default:
			return false
		}
		return true
	})
	r := s.mustOpen("f", &Options{Header: secret})
	s.wantRead(r, 200_000, 10)
	if all := fmt.Sprint(other); strings.Contains(all, "s3cret") || other.Get("Referer") != "" ||
		other.Get("Range") == "" {
		t.Errorf("another host got %v", other)
	}
	if fmt.Sprint(home) != "[/f Bearer s3crets3cret]" {
		t.Errorf("the redirect was asked for again: %q", home)
	}
	for _, name := range []string{"round", "here"} {
		home = nil
		r = s.mustOpen(name, &Options{Header: secret})
		s.wantRead(r, 200_000, 10)
		if len(home) != 3 || !strings.HasPrefix(home[1], "/at-home Bearer s3cret") {
			t.Errorf("%s: at home: %q", name, home)
		}
	}
	// A password in the address is no other matter.
	pass := strings.Replace(s.URL, "http://", "http://user:s3cret@", 1)
	r, err := Open(t.Context(), pass+"/f", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if strings.Contains(fmt.Sprint(other), "s3cret") || other.Get("Authorization") != "" {
		t.Errorf("another host got %v", other)
	}
}

func TestMessagesKeepSecrets(t *testing.T) {
	s := serve(t, 300_000)
	port := strings.TrimPrefix(s.URL, "http://")
	for _, instead := range []func(http.ResponseWriter, *http.Request){
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://example.org/?token=s3cret", http.StatusFound)
		},
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://localhost/%zz?s3cret")
			w.WriteHeader(302)
		},
		func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.String(),
				http.StatusFound)
		},
	} {
		s.behave(func(_ int, w http.ResponseWriter,
			r *http.Request) bool {
			instead(w, r)
			return true
		})
		_, err := Open(t.Context(), "http://user:s3cret@"+port+"/f?token=s3cret",
			&Options{Attempts: 1})
		if err == nil || strings.Contains(err.Error(), "s3cret") ||
			!strings.Contains(err.Error(), "/f") {
			t.Errorf("%v", err)
		}
	}
	for _, address := range []string{"https://user:s3cret@host:port/%zz", "s3cret",
		"http://s3cret@example.org/", "://s3cret", "https://h\x00?s3cret"} {
		if _, err := Open(t.Context(), address, nil); err == nil ||
			strings.Contains(err.Error(), "s3cret@") ||
			strings.Contains(err.Error(), "s3cret:") ||
			strings.Contains(err.Error(), "?s3cret") {
			t.Errorf("%v", err)
		}
	}
}

func TestWrongRedirectsAreNotFollowed(t *testing.T) {
	s := serve(t, 1000)
	for name, to := range map[string]string{
		"in a circle":      s.URL + "/f",
		"to a file":        "file:///etc/passwd",
		"without security": "http://example.org/f",
		"nowhere":          "",
		"nonsense":         "http://[::1",
		"no host":          "http:///f",
		"opaque":           "https:f",
		"another scheme":   "ftp://localhost/f",
	} {
		s.behave(func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			if to != "" {
				w.Header().Set("Location", to)
			}
			w.WriteHeader(http.StatusFound)
			return true
		})
		_, waited, err := s.open("f", nil)
		if err == nil || len(*waited) != 0 {
			t.Errorf("%s: %v, waited %v", name, err, *waited)
		}
		if n := len(strings.Fields(s.ranges())); n > mostHops+1 {
			t.Errorf("%s: %d requests", name, n)
		}
	}
	r, err := newReader(t.Context(), "https://example.org/f", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, to := range []string{
		"https://localhost/f", "https://LOCALHOST./f", "https://a.localhost/f",
		"https://127.0.0.1/f", "https://127.255.0.9:8443/f",
		"https://[::1]/f", "https://[::ffff:127.0.0.1]/f", "https://[::ffff:0.0.0.0]/f",
		"https://[::127.0.0.1]/f",
		"https://[64:ff9b::7f00:1]/f", "https://[2002:7f00:1::]/f", "https://0.0.0.0/f",
		"https://0.1.2.3/f", "https://[::]/f",
		"https://[::1%25lo]/f", "https://0/f", "https://127.1/f", "https://127.0.1/f",
		"https://2130706433/f", "https://0x7f000001/f",
		"https://0x7f.1/f", "https://0177.0.0.1/f", "https://017700000001/f",
		"http://example.org/f",
	} {
		resp := &http.Response{Header: http.Header{location: {to}}}
		if u, err := r.redirect(r.url, resp); err == nil {
			t.Errorf("from a public host to %v", u)
		}
	}
}

// A name that a redirect leads to is looked up, and its address checked where the
// connection is made.
func TestRedirectsToNamesOfThisMachineAreRefused(t *testing.T) {
	for address, refused := range map[string]bool{
		"127.0.0.1:443": true, "[::1]:443": true, "0.0.0.0:443": true,
		"[::ffff:127.0.0.1]:443": true, "[::]:443": true,
		"8.8.8.8:443": false, "10.0.0.1:443": false, "[2606:4700::1111]:443": false,
	} {
		if err := refuseLocal("tcp", address, nil); (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
	s := serve(t, 1000)
	_, p, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	r, err := newReader(t.Context(), "http://example.org/f", &Options{AllowHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// A name that only the resolver knows for this machine stands behind the check of
	// the text.
	to, err := r.redirect(r.url,
		&http.Response{Header: http.Header{location: {"http://example.com:" + p + "/f"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.client.redirected.Load(hostPort(to)); !ok {
		t.Errorf("connections to %s are not checked", hostPort(to))
	}
	r.client.redirected.Store("127.0.0.1:"+p, nil)
	_, err = r.ask(&url.URL{Scheme: "http", Host: "127.0.0.1:" + p, Path: "/f"}, "bytes=0-9")
	var refused *refusedError
	if !errors.As(err, &refused) || s.ranges() != "" {
		t.Errorf("%v, requests %q", err, s.ranges())
	}
}

func TestAddressesOfOtherSchemesAndHostsAreRefused(t *testing.T) {
	for _, address := range []string{"", "f", "/etc/passwd", "file:///etc/passwd",
		"ftp://localhost/f", "http://example.org/f", "http://10.0.0.1/f",
		"http://localhost.example.org/f", "https://", "https:///f", "https:opaque", "http://[::1",
		"javascript:alert(1)"} {
		if r, err := Open(t.Context(), address, nil); err == nil {
			r.Close()
			t.Errorf("%q opened", address)
		}
	}
	for _, o := range []Options{{MaxBytes: -1}, {CacheBytes: -1}, {Attempts: -1}, {Timeout: -1},
		{PublicOnly: true, Client: http.DefaultClient}} {
		if _, err := newReader(t.Context(), "https://example.org/f", &o); err == nil {
			t.Errorf("%+v accepted", o)
		}
	}
	if r, err := newReader(t.Context(), "http://example.org/f",
		&Options{AllowHTTP: true}); err != nil {
		t.Error(err)
	} else {
		r.Close()
	}
}

func TestPublicOnlyRefusesPrivateAddresses(t *testing.T) {
	s := serve(t, 1000)
	_, waited, err := s.open("f", &Options{PublicOnly: true})
	var refused *refusedError
	if !errors.As(err, &refused) || len(*waited) != 0 || s.ranges() != "" {
		t.Errorf("%v, waited %v", err, *waited)
	}
	for address, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "2606:4700::1111": true, "192.1.0.1": true,
		"172.32.0.1": true,
		"127.0.0.1":  false, "::1": false, "10.1.2.3": false, "172.16.0.1": false,
		"192.168.0.1": false, "169.254.169.254": false,
		"fe80::1": false, "fc00::1": false, "fd12::1": false, "0.0.0.0": false, "::": false,
		"0.1.2.3": false, "100.64.0.1": false,
		"224.0.0.1": false, "255.255.255.255": false, "240.0.0.1": false, "::ffff:10.0.0.1": false,
		"::ffff:8.8.8.8": true,
		"64:ff9b::a00:1": false, "2002:a00:1::": false, "ff02::1": false, "198.18.0.1": false,
	} {
		err := refusePrivate("tcp", net.JoinHostPort(address, "443"), nil)
		if (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
		var refused *refusedError
		if a := netip.MustParseAddr(address); err != nil &&
			(!errors.As(err, &refused) || refused.addr != a.Unmap()) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestCompanionIsOpenedWithTheSameOptions(t *testing.T) {
	s := serve(t, 1000)
	var got []string
	s.behave(func(_ int, _ http.ResponseWriter, r *http.Request) bool {
		got = append(got, r.URL.RequestURI()+" "+r.Header.Get("X-Key"))
		return false
	})
	r := s.mustOpen("dir/model.pte?token=1", &Options{Header: http.Header{"X-Key": {"k"}}})
	for _, name := range []string{"weights.ptd", "sub/a?b#c%20 ü.ptd"} {
		c, size, err := r.Companion(name)
		if err != nil || size != 1000 {
			t.Fatalf("%d, %v", size, err)
		}
		defer c.(io.Closer).Close()
		p := make([]byte, 10)
		if _, err := c.ReadAt(p, 5); err != nil || !bytes.Equal(p, s.data[5:15]) {
			t.Errorf("%v", err)
		}
	}
	if want := "/dir/model.pte?token=1 k,/dir/weights.ptd k,/dir/sub/a%3Fb%23c%2520%20%C3%BC.ptd k"; strings.Join(got, ",") != want {
		t.Errorf("asked for %q", got)
	}
	for _, name := range []string{"", ".", "..", "../x", "/x", "a/../../x", "a//b", "//host/x",
		"https://host/x/../../.."} {
		if c, _, err := r.Companion(name); !errors.Is(err, fs.ErrInvalid) || c != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	s.behave(func(_ int, w http.ResponseWriter,
		_ *http.Request) bool {
		w.WriteHeader(404)
		return true
	})
	if c, _, err := r.Companion("missing"); !errors.Is(err, fs.ErrNotExist) || c != nil {
		t.Errorf("%v", err)
	}
	// It outlives the one that opened it.
	s.behave(nil)
	c, _, err := r.Companion("g")
	if err != nil {
		t.Fatal(err)
	}
	defer c.(io.Closer).Close()
	r.Close()
	if _, err := c.ReadAt(make([]byte, 10), 0); err != nil {
		t.Error(err)
	}
}

func TestCertificatesAreVerified(t *testing.T) {
	data := make([]byte, 300_000)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		if r.URL.Path == "/down" {
			http.Redirect(w, r, "http://example.org/f", http.StatusFound)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshakes that fail
	s.StartTLS()
	defer s.Close()
	r, err := Open(t.Context(), s.URL+"/f", &Options{Client: s.Client()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.ReadAt(make([]byte, 10), 200_000); err != nil {
		t.Error(err)
	}
	if _, err := Open(t.Context(), s.URL+"/down", &Options{Client: s.Client()}); err == nil {
		t.Error("a redirect from https to http is followed")
	} else if !errors.Is(err, ErrNotEncrypted) {
		t.Errorf("not the error that Options.AllowHTTP explains: %v", err)
	}
	// A certificate that nobody knows: no second attempt.
	r, err = newReader(t.Context(), s.URL+"/f", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.wait = func(context.Context,
		time.Duration) error {
		t.Error("tried again")
		return errors.New("stop")
	}
	var certificate *tls.CertificateVerificationError
	if err := r.first(); !errors.As(err, &certificate) {
		t.Errorf("%v", err)
	}
	// https to a server that speaks http.
	plain := serve(t, 10)
	r, err = newReader(t.Context(), strings.Replace(plain.URL, "http:", "https:", 1)+"/f", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.wait = func(context.Context,
		time.Duration) error {
		t.Error("tried again")
		return errors.New("stop")
	}
	if err := r.first(); err == nil {
		t.Error("opened")
	}
}
