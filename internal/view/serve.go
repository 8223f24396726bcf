package view

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Serve answers requests until ctx ends. Each connection has one, which is all that a
// browser on the same machine needs: http.Server would bring HTTP/2, and make the
// command 0.4 MB larger.
func (s *Server) Serve(ctx context.Context) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	defer context.AfterFunc(ctx, func() { s.listener.Close() })()
	for {
		conn, err := s.listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		calls.Go(func() { s.answer(ctx, conn.(*net.TCPConn)) })
	}
}

// answer serves the request of a connection, whose context ends when the browser closes
// it.
func (s *Server) answer(ctx context.Context, conn *net.TCPConn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	r, err := http.ReadRequest(bufio.NewReader(io.LimitReader(conn, 2*maxRequest)))
	if err != nil {
		return
	}
	body, _ := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
	r.Body = io.NopCloser(bytes.NewReader(body))
	conn.SetReadDeadline(time.Time{})
	closed := make(chan struct{})
	go func() {
		io.Copy(io.Discard, conn)
		cancel()
		close(closed)
	}()
	w := &response{conn: conn, header: http.Header{}, head: r.Method == http.MethodHead}
	s.serve(w, r.WithContext(ctx))
	// What has not been read when a connection is closed resets it, and the browser loses
	// the response.
	conn.CloseWrite()
	conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	<-closed
}

// A response is sent as it is written, and ends with its connection.
type response struct {
	conn       net.Conn
	header     http.Header
	head, sent bool
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) {
	if w.sent {
		return
	}
	w.sent = true
	head := http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: w.header,
		ContentLength: -1, Close: true, Body: http.NoBody}
	head.Write(w.conn) // an error is that of the next Write too
}

func (w *response) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.head {
		return len(b), nil
	}
	return w.conn.Write(b)
}
