package command

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/page"
	"github.com/tensorfile/tensorfile/tensor"
)

const evil = "</script><img src=x onerror=alert(1)>\u202e"

// serve returns the address of a server that ends with the test.
func serve(t *testing.T) string {
	t.Helper()
	data := make([]float32, 1<<20)
	s, err := listen(page.NewSession(page.Source{Name: evil,
		File: tensorfile.FromTensors([]*tensor.Tensor{
			tensor.New(evil, tensor.Shape{1 << 20}, data)}, nil)}))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- s.serve(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil { // the context of the test has ended
			t.Error(err)
		}
	})
	return s.address()
}

// ask sends a request with headers; Host is one of them.
func ask(t *testing.T, method, address, body string, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	r.Host = r.Header.Get("Host")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	w, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Body.Close() })
	return w
}

// originOf is an address without its path.
func originOf(address string) string { return strings.Join(strings.Split(address, "/")[:3], "/") }

func TestOnlyThePageMayAsk(t *testing.T) {
	address := serve(t)
	origin := originOf(address)
	facts := `{"method":"facts","params":{}}`
	other := strings.Replace(origin, "127.0.0.1", "localhost", 1)
	for _, c := range []struct {
		name, method, address, body string
		headers                     []string
		status                      int
	}{
		{"the page", "GET", address, "", nil, 200},
		{"a module", "GET", address + "main.js", "", nil, 200},
		{"a call", "POST", address + "call", facts, []string{"Origin", origin}, 200},
		{"a call without origin", "POST", address + "call", facts, nil, 403},
		{"a call from another site", "POST", address + "call", facts,
			[]string{"Origin", "https://example.com"}, 403},
		{"a call from no site", "POST", address + "call", facts,
			[]string{"Origin", "null"}, 403},
		{"a call from another name of this machine", "POST", address + "call", facts,
			[]string{"Origin", other}, 403},
		{"an image of another site", "GET", address, "",
			[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"another host", "GET", address, "", []string{"Host", "example.com"}, 421},
		{"no token", "GET", origin + "/", "", nil, 404},
		{"no token in a call", "POST", origin + "/call", facts,
			[]string{"Origin", origin}, 404},
		{"another token", "GET", origin + "/" + strings.Repeat("A", 26) + "/", "", nil, 404},
		{"a part of the token", "GET", address[:len(address)-2] + "/", "", nil, 404},
		{"a file that is not of the page", "GET", address + "web.go", "", nil, 404},
		{"a file outside", "GET", address + "%2e%2e/main.js", "", nil, 404},
		{"a call by GET", "GET", address + "call", "", nil, 404},
		{"another method", "PUT", address, "", []string{"Origin", origin}, 405},
		{"a call that is no JSON", "POST", address + "call", "{", []string{"Origin", origin}, 400},
		{"a long call", "POST", address + "call", strings.Repeat(" ", 1<<20) + facts,
			[]string{"Origin", origin}, 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := ask(t, c.method, c.address, c.body, c.headers...)
			if w.StatusCode != c.status {
				t.Errorf("status %d, want %d", w.StatusCode, c.status)
			}
			if w.Header.Get("X-Content-Type-Options") != "nosniff" ||
				w.Header.Get("Cache-Control") != "no-store" ||
				w.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("headers: %v", w.Header)
			}
		})
	}
}

func TestEachServerHasAnotherToken(t *testing.T) {
	token := func() string {
		a := serve(t)
		return strings.Split(a, "/")[3]
	}
	if a, b := token(), token(); a == b || len(a) < 26 {
		t.Error(a, b)
	}
}

func TestNamesOfTheFileAreJSONOnly(t *testing.T) {
	address := serve(t)
	index, err := io.ReadAll(ask(t, "GET", address, "").Body)
	if err != nil || strings.Contains(string(index), "onerror") {
		t.Errorf("%s %v", index, err)
	}
	if !strings.Contains(string(index), `name="backend" content="http"`) {
		t.Error("the page does not know how to ask")
	}
	w := ask(t, "POST", address+"call", `{"method":"tensors","params":{}}`, "Origin",
		originOf(address))
	text, err := io.ReadAll(w.Body)
	if err != nil || strings.Contains(string(text), "<") {
		t.Errorf("%s %v", text, err)
	}
	var m struct{ Result []struct{ Name string } }
	if err := json.Unmarshal(text, &m); err != nil || m.Result[0].Name != evil {
		t.Errorf("%v %v", m, err)
	}
}

func TestACallReportsProgressThenItsResult(t *testing.T) {
	address := serve(t)
	origin := originOf(address)
	w := ask(t, "POST", address+"call", `{"method":"stats","params":{}}`, "Origin", origin)
	lines := bufio.NewScanner(w.Body)
	progress, results := 0, 0
	for lines.Scan() {
		var m struct {
			Progress []int64
			Result   []any
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		switch {
		case results > 0:
			t.Error("a line after the result")
		case m.Result != nil:
			results++
		case len(m.Progress) == 2:
			progress++
		}
	}
	if progress == 0 || results != 1 {
		t.Errorf("%d of progress, %d results", progress, results)
	}
	w = ask(t, "POST", address+"call", `{"method":"none","params":{}}`, "Origin", origin)
	text, _ := io.ReadAll(w.Body)
	if !strings.Contains(string(text), `"error"`) {
		t.Errorf("%s", text)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	s, err := listen(page.NewSession())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.serve(ctx) }()
	conn, err := net.Dial("tcp", strings.Split(s.address(), "/")[2])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\n"); err != nil { // and no more
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A slowClient is a request whose body notes whether there is a deadline when it is read,
// and the response to it.
type slowClient struct {
	*httptest.ResponseRecorder
	deadline time.Time
	during   []bool // whether there was a deadline at each read of the body
}

func (c *slowClient) SetReadDeadline(t time.Time) error {
	c.deadline = t
	return nil
}

func (c *slowClient) Read([]byte) (int, error) {
	c.during = append(c.during, !c.deadline.IsZero())
	return 0, os.ErrDeadlineExceeded
}

// A body that does not come holds a connection for a while only; a call may take longer.
func TestABodyHasADeadline(t *testing.T) {
	s, err := listen(page.NewSession(page.Source{File: tensorfile.FromTensors(nil, nil)}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	defer s.serve(ctx) // which closes it
	post := func(c *slowClient, body io.Reader) {
		r := httptest.NewRequest(http.MethodPost, s.address()+"call", body)
		r.Header.Set("Origin", "http://"+r.Host)
		s.ServeHTTP(c, r)
	}
	c := &slowClient{ResponseRecorder: httptest.NewRecorder()}
	if post(c, c); len(c.during) != 1 || !c.during[0] || c.Code != http.StatusBadRequest {
		t.Errorf("a body that does not come: deadlines %v, status %d", c.during, c.Code)
	}
	c = &slowClient{ResponseRecorder: httptest.NewRecorder()}
	if post(c, strings.NewReader(`{"method":"files"}`)); !c.deadline.IsZero() ||
		c.Code != http.StatusOK {
		t.Errorf("a call: status %d, deadline %v", c.Code, c.deadline)
	}
}
