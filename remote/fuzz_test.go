package remote

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A script answers requests with what stands in raw, as it would come over the wire:
// one answer after the other.
type script struct {
	raw      *bufio.Reader
	requests int
}

var errOver = errors.New("the script is over")

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	s.requests++
	if _, err := s.raw.Peek(1); err != nil {
		return nil, errOver
	}
	resp, err := http.ReadResponse(s.raw, req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
	return resp, nil
}

// failing ends with an error, or well where there is none.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}

// FuzzAnswers has a server answer with anything at all. The result of a read is as long
// as it should be or an error, nothing is asked without end, and not more is taken than
// is allowed.
func FuzzAnswers(f *testing.F) {
	part := func(off, last, size int64, headers string) string {
		body := bytes.Repeat([]byte{'x'}, int(last-off+1))
		return fmt.Sprintf("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes %d-%d/%d\r\nETag: \"1\"\r\nContent-Length: %d\r\n%s\r\n%s", off, last, size, len(body), headers, body)
	}
	both := func(size int) string {
		body := fmt.Sprintf("--b\r\nContent-Range: bytes 0-9/%d\r\n\r\n0123456789\r\n--b\r\nContent-Range: bytes %d-%d/%d\r\n\r\n0123456789\r\n--b--\r\n", size, size-10, size-1, size)
		return fmt.Sprintf("HTTP/1.1 206 Partial Content\r\nContent-Type: multipart/byteranges; boundary=b\r\nETag: \"1\"\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	for _, s := range []string{
		part(0, 99, 100, ""),
		part(0, 99, 300, "") + part(100, 299, 300, ""),
		part(0, 99, 300, "") + part(100, 119, 300, "") + part(120, 299, 300, ""),
		part(0, 9, 30, "Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n") + part(10, 29, 30,
			"Content-Encoding: gzip\r\n"),
		part(0, 9, 1<<40, "") + strings.Replace(part(1<<39, 1<<39+9, 1<<40, ""),
			"Content-Length: 10\r\n", "", 1),
		both(50) + part(10, 39, 50, ""),
		both(20),
		"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n" + part(0, 9,
			10, ""),
		"HTTP/1.1 302 Found\r\nLocation: https://other.example/x\r\nContent-Length: 0\r\n\r\n" + part(0, 9, 10, "") + "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 503 Later\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n" + part(0, 9, 10, ""),
		"HTTP/1.1 416 No\r\nContent-Range: bytes */0\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4/9\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
	} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, ends bool) {
		const most = 1 << 20
		answers := &script{raw: bufio.NewReader(bytes.NewReader(raw))}
		name := "https://example.org/f"
		if ends {
			name += ".zt"
		}
		r, err := newReader(t.Context(), name, &Options{Client: &http.Client{Transport: answers},
			MaxBytes: most, Header: http.Header{"Authorization": {"s3cret"}}})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		r.wait = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
		if err := r.first(); err == nil {
			if r.Size() < 0 {
				t.Fatalf("the size is %d", r.Size())
			}
			for _, read := range []struct {
				off int64
				n   int
			}{{0, 8}, {r.Size() - 16, 16}, {0, 200}, {r.Size() / 2, 70_000}, {100, 0}, {1,
				1 << 20}, {r.Size(), 1}} {
				if read.off < 0 {
					continue
				}
				p := make([]byte, read.n)
				if n, err := r.ReadAt(p, read.off); n < 0 || n > len(p) ||
					(n < len(p)) != (err != nil) && err != io.EOF {
					t.Fatalf("ReadAt(%d bytes, %d) = %d, %v", read.n, read.off, n, err)
				} else if err == io.EOF && read.off+int64(read.n) <= r.Size() {
					t.Fatalf("ReadAt(%d bytes, %d) = %d, %v of %d", read.n, read.off, n, err,
						r.Size())
				}
			}
		}
		if st := r.Stats(); st.Bytes > most || st.Requests != int64(answers.requests) ||
			answers.requests > 500 {
			t.Fatalf("%+v after %d requests", st, answers.requests)
		}
	})
}
