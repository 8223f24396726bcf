//go:build js

// Command wasm is the library as WebAssembly, for the worker of the static site. It opens
// files that were dropped on the page, reads slices of them, and runs the page's calls.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall/js"

	"github.com/tensorfile/tensorfile/internal/page"
)

// maxSlice is the largest number of bytes of a file that are read at once.
const maxSlice = 8 << 20

func main() {
	w := worker{calls: map[int]context.CancelFunc{}}
	js.Global().Call("ready", js.FuncOf(func(_ js.Value, args []js.Value) any {
		w.handle(args[0])
		return nil
	}))
	select {}
}

// A worker has one page. WebAssembly has one thread, and so its fields have no lock.
type worker struct {
	sources []page.Source
	session *page.Session
	calls   map[int]context.CancelFunc
}

// handle starts what a message requests. It must not wait, which would stop the event
// loop.
func (w *worker) handle(m js.Value) {
	if c := m.Get("cancel"); c.Truthy() {
		if cancel := w.calls[c.Int()]; cancel != nil {
			cancel()
		}
		return
	}
	id := m.Get("id").Int()
	ctx, cancel := context.WithCancel(context.Background())
	w.calls[id] = cancel
	go func() {
		defer delete(w.calls, id)
		defer cancel()
		result, err := w.run(ctx, id, m)
		var text []byte
		if err == nil {
			text, err = json.Marshal(map[string]any{"result": result})
		}
		if err != nil {
			text, _ = json.Marshal(map[string]any{"error": page.ErrorOf(err)})
		}
		js.Global().Call("postMessage", map[string]any{"id": id, "text": string(text)})
	}()
}

func (w *worker) run(ctx context.Context, id int, m js.Value) (any, error) {
	if files := m.Get("files"); files.Truthy() {
		return nil, w.open(files, m.Get("another").Bool())
	}
	if w.session == nil {
		return nil, errors.New("no file is open")
	}
	return w.session.Call(ctx, m.Get("method").String(), []byte(m.Get("params").String()),
		func(done, total int64) {
			js.Global().Call("postMessage",
				map[string]any{"id": id, "progress": []any{float64(done), float64(total)}})
		})
}

// open opens files in place of the open files, or in addition to the first.
func (w *worker) open(files js.Value, another bool) error {
	var contents []page.Content
	for i := range files.Length() {
		f := file{files.Index(i)}
		contents = append(contents, page.Content{ReaderAt: f,
			Name: f.Get("name").String(), Size: int64(f.Get("size").Float())})
	}
	source, err := page.OpenContents(contents...)
	if err != nil {
		return err
	}
	if another && len(w.sources) > 0 {
		w.sources = append(w.sources[:1:1], source)
	} else {
		w.sources = []page.Source{source}
	}
	w.session = page.NewSession(w.sources...)
	return nil
}

// A file is a File of the browser.
type file struct{ js.Value }

// ReadAt reads a slice. The event loop runs meanwhile.
func (f file) ReadAt(p []byte, off int64) (n int, err error) {
	size := int64(f.Get("size").Float())
	for n < len(p) {
		if off >= size {
			return n, io.EOF
		}
		end := min(off+min(int64(len(p)-n), maxSlice), size)
		buffer, err := await(f.Call("slice", float64(off), float64(end)).Call("arrayBuffer"))
		if err != nil {
			return n, err
		}
		got := js.CopyBytesToGo(p[n:], js.Global().Get("Uint8Array").New(buffer))
		if int64(got) != end-off {
			return n + got, io.ErrUnexpectedEOF
		}
		n, off = n+got, end
	}
	return n, nil
}

// await waits for a promise.
func await(promise js.Value) (result js.Value, err error) {
	done := make(chan struct{})
	settle := func(set func(js.Value)) js.Func {
		return js.FuncOf(func(_ js.Value, args []js.Value) any {
			set(args[0])
			close(done)
			return nil
		})
	}
	good := settle(func(v js.Value) { result = v })
	bad := settle(func(v js.Value) {
		err = fmt.Errorf("the browser: %s", v.Get("message").String())
	})
	defer good.Release()
	defer bad.Release()
	promise.Call("then", good, bad)
	<-done
	return result, err
}
