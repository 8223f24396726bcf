package remote_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/remote"
)

// The properties of a distant server.
const (
	latency   = 40 * time.Millisecond
	bandwidth = 100e6 // bytes a second, of one connection
)

// slowConn writes no faster than bandwidth.
type slowConn struct {
	net.Conn
	free time.Time // when the connection has sent what was written
}

func (c *slowConn) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		var m int
		m, err = c.Conn.Write(p[:min(len(p), 64<<10)])
		n, p = n+m, p[m:]
		if now := time.Now(); c.free.Before(now) {
			c.free = now
		}
		c.free = c.free.Add(time.Duration(float64(m) / bandwidth * 1e9))
		if d := time.Until(c.free); d > 5*time.Millisecond {
			time.Sleep(d)
		}
	}
	return n, err
}

type slowListener struct{ net.Listener }

func (l slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &slowConn{Conn: c}, err
}

// repeated is a file of a header and the same bytes again and again.
type repeated struct {
	header, unit []byte
	size         int64
}

func (r *repeated) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) && off < r.size {
		from := r.header[min(off, int64(len(r.header))):]
		if len(from) == 0 {
			from = r.unit[(off-int64(len(r.header)))%int64(len(r.unit)):]
		}
		m := copy(p[n:min(int64(len(p)), int64(n)+r.size-off)], from)
		n, off = n+m, off+int64(m)
	}
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}

// slowServer serves a safetensors file of tensors of that size, 1 GiB in all.
func slowServer(tb testing.TB, tensor int) (address string, size int64) {
	const total = 1 << 30
	var h bytes.Buffer
	h.WriteByte('{')
	for i := range total / tensor {
		if i > 0 {
			h.WriteByte(',')
		}
		fmt.Fprintf(&h, `"t%06d":{"dtype":"F32","shape":[%d],"data_offsets":[%d,%d]}`, i,
			tensor/4, i*tensor, (i+1)*tensor)
	}
	h.WriteByte('}')
	header := append(binary.LittleEndian.AppendUint64(nil, uint64(h.Len())), h.Bytes()...)
	data := &repeated{header, bytes.Repeat([]byte("weights."), 128<<10),
		int64(len(header)) + total}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		time.Sleep(latency)
		w.Header().Set("ETag", `"v1"`)
		http.ServeContent(w, r, "", time.Time{}, io.NewSectionReader(data, 0, data.size))
	}))
	s.Listener = slowListener{s.Listener}
	s.Start()
	tb.Cleanup(s.Close)
	return s.URL + "/model.safetensors", data.size
}

func TestADistantFileIsReadFast(t *testing.T) {
	readtest.Measure(t)
	timed := func(do func() error) float64 {
		t.Helper()
		start := time.Now()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		return time.Since(start).Seconds()
	}
	ctx := context.Background()
	open := func(address string, inFlight int) *tensorfile.File {
		r, err := remote.Open(ctx, address, &remote.Options{InFlight: inFlight})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		f, err := tensorfile.NewReader(r, r.Size(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	address, size := slowServer(t, 16<<20)
	one := timed(func() error {
		resp, err := http.Get(address)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		n, err := io.Copy(io.Discard, resp.Body)
		if n != size {
			return fmt.Errorf("%d bytes: %w", n, err)
		}
		return err
	})
	t.Logf("one connection: %.1f s", one)
	for _, test := range []struct {
		name     string
		tensor   int
		inFlight int
		most     float64
		do       func(f *tensorfile.File) error
	}{
		{"tensors of 16 MiB one after the other", 16 << 20, 0, 0.2, stream},
		{"the same with 8 requests under way", 16 << 20, 8, 0.3, stream},
		{"tensors of 256 KiB one after the other", 256 << 10, 0, 0.2, stream},
		{"into memory", 16 << 20, 0, 0.2, func(f *tensorfile.File) error {
			for t := range f.Tensors() {
				if _, err := t.Data.ReadAll(); err != nil {
					return err
				}
			}
			return nil
		}},
		{"hash", 16 << 20, 0, 0.5, func(f *tensorfile.File) error {
			for all, err := range inspect.HashEach(ctx, f.Tensors(), nil) {
				if err = cmp.Or(err, all[0].Err); err != nil {
					return err
				}
			}
			return nil
		}},
		{"convert to .ptd", 16 << 20, 0, 0.4, func(f *tensorfile.File) error {
			p, err := convert.NewPlan(ctx, f, tensorfile.PTD, nil)
			if err != nil {
				return err
			}
			return p.WriteFile(ctx, filepath.Join(t.TempDir(), "out.ptd"))
		}},
	} {
		address, _ := slowServer(t, test.tensor)
		took := timed(func() error { return test.do(open(address, test.inFlight)) })
		t.Logf("%s: %.1f s, %.2f of one connection", test.name, took, took/one)
		if took/one > test.most {
			t.Errorf("%s: %.2f of one connection, want %.2f", test.name, took/one, test.most)
		}
	}
}

func stream(f *tensorfile.File) error {
	for t := range f.Tensors() {
		if _, err := t.Data.WriteTo(io.Discard); err != nil {
			return err
		}
	}
	return nil
}
