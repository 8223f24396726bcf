package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// Sources, sequences and targets that fail.

// streamed returns a tensor whose data open gives.
func (x Target) streamed(name string,
	open func(data []byte) (io.ReadCloser, error)) *tensor.Tensor {
	t := x.plain(name)
	data, _ := t.Data.ReadAll()
	t.Data = tensor.BlobFunc(int64(len(data)), func() (io.ReadCloser, error) { return open(data) })
	return t
}

// A badSource opens a stream that is not the data that was promised.
type badSource struct {
	name string
	open func(data []byte) (io.ReadCloser, error)
	want error
}

func badSources() []badSource {
	reader := func(b []byte) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b)), nil
	}
	return []badSource{
		{"a source that is short", func(b []byte) (io.ReadCloser, error) {
			return reader(b[:len(b)-1])
		}, io.ErrUnexpectedEOF},
		{"a source that is empty", func(b []byte) (io.ReadCloser, error) {
			return reader(nil)
		}, io.ErrUnexpectedEOF},
		{"a source that is long", func(b []byte) (io.ReadCloser, error) {
			return reader(append(b[:len(b):len(b)], 0))
		}, tensor.ErrMalformed},
		{"a source that fails", func(b []byte) (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(bytes.NewReader(b[:1]), failing{})), nil
		}, readtest.ErrInjected},
		{"a source that is not opened", func(b []byte) (io.ReadCloser, error) {
			return nil, readtest.ErrInjected
		}, readtest.ErrInjected},
	}
}

// sources tests a Writer on sources that break their promise.
func (x Target) sources(t *testing.T) {
	for _, c := range badSources() {
		t.Run(c.name, func(t *testing.T) {
			w, _ := x.begin(t)
			if !x.One {
				if err := w.Add(x.plain("first")); err != nil {
					t.Fatal(err)
				}
			}
			err := w.Add(x.streamed("it's me", c.open))
			if closed := w.Close(); err == nil {
				err = closed
			} else if closed == nil {
				t.Error("Close succeeds after an error of writing")
			}
			x.check(t, c.name, err, c.want)
			if !strings.Contains(fmt.Sprint(err), "it's me") {
				t.Errorf("the error does not name the tensor: %v", err)
			}
			if again := w.Close(); again == nil || again.Error() != w.Close().Error() {
				t.Errorf("Close again: %v", again)
			}
		})
	}
	t.Run("memory that changes", func(t *testing.T) {
		w, written := x.begin(t)
		a := x.plain("a")
		before, _ := a.Data.ReadAll()
		if err := w.Add(a); err != nil {
			t.Fatal(err)
		}
		memory, _ := a.Data.Memory()
		memory[0] ^= 1
		err := w.Close()
		if x.Streams {
			x.check(t, "memory that changes", err, nil)
			a.Data = tensor.BlobOf(before)
			x.equal(t, written(), []*tensor.Tensor{a})
			return
		}
		x.check(t, "memory that changes", err, tensor.ErrChecksum)
	})
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, readtest.ErrInjected }

// sequences tests AddAll on a sequence or a context that ends early.
func (x Target) sequences(t *testing.T) {
	names := []string{"a", "b", "c"}
	if x.One {
		names = names[:1]
	}
	ts := func(end func(i int) error) iter.Seq2[*tensor.Tensor, error] {
		return func(yield func(*tensor.Tensor, error) bool) {
			for i, name := range names {
				if err := end(i); err != nil {
					yield(nil, err)
					return
				}
				if !yield(x.plain(name), nil) {
					return
				}
			}
		}
	}
	w, _ := x.begin(t)
	last := len(names) - 1
	err := w.AddAll(t.Context(), ts(func(i int) error {
		if i == last {
			return readtest.ErrInjected
		}
		return nil
	}))
	x.check(t, "a sequence that fails", err, readtest.ErrInjected)
	w.Abort()

	for _, at := range []int{0, last} {
		ctx, cancel := context.WithCancel(t.Context())
		w, _ = x.begin(t)
		err = w.AddAll(ctx, ts(func(i int) error {
			if i == at {
				cancel()
			}
			return nil
		}))
		cancel()
		x.check(t, fmt.Sprintf("a context that ends at tensor %d of %d", at, last+1), err,
			context.Canceled)
		w.Abort()
	}

	var files [2][]byte
	for i := range files {
		w, written := x.begin(t)
		if err := errors.Join(w.AddAll(t.Context(), ts(func(int) error { return nil })),
			w.Close()); err != nil {
			t.Fatal(err)
		}
		files[i] = written()
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("the same tensors make other bytes the second time")
	}
	var want []*tensor.Tensor
	for _, name := range names {
		want = append(want, x.plain(name))
	}
	x.equal(t, files[0], want)
}

// targets tests a Writer on an io.Writer that fails, is short, or miscounts.
func (x Target) targets(t *testing.T) {
	plain := x.plain("b")
	write := func(out io.Writer, a *tensor.Tensor) (Writer, error) {
		w := x.NewWriter(out)
		err := w.Add(a)
		if err == nil && !x.One {
			err = w.Add(plain)
		}
		if closed := w.Close(); err == nil {
			err = closed
		}
		return w, err
	}
	small := x.sample("a", tensor.F32, tensor.Shape{2, 3})
	if err := readtest.FailedWrites(func(out io.Writer) error {
		_, err := write(out, small)
		return err
	}); err != nil {
		t.Error(err)
	}
	var sound bytes.Buffer
	large := x.sample("a", tensor.F32, tensor.Shape{300, 400}) // more than any buffer
	if _, err := write(&sound, large); err != nil {
		t.Fatal(err)
	}
	size := int64(sound.Len())
	for _, at := range []int64{0, 1, 10, size / 2, size - 1} {
		_, err := write(readtest.ShortWriter(io.Discard, at), large)
		x.check(t, "an io.Writer that is short", err, io.ErrShortWrite)
		for _, l := range readtest.LyingWriters(at) {
			var w Writer
			err := readtest.Survives(t, func() (err error) {
				w, err = write(l.Writer, large)
				return err
			}, "%s", l.Name)
			if err == nil {
				t.Errorf("%s, at %d: no error", l.Name, at)
			} else if again := w.Close(); again == nil {
				t.Errorf("%s, at %d: Close again succeeds", l.Name, at)
			}
		}
	}
}

// files tests the directory after Create.
func (x Target) files(t *testing.T) {
	dir := t.TempDir()
	list := func() (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	for name, want := range map[string]error{
		filepath.Join(dir, "missing", "file"): fs.ErrNotExist,
		dir:                                   fs.ErrInvalid,
		"":                                    fs.ErrInvalid,
	} {
		w, err := x.Create(name)
		if err == nil {
			w.Abort()
		}
		x.check(t, "Create "+strings.Replace(name, dir, "DIR", 1), err, want)
	}
	name := filepath.Join(dir, "file")
	old := []byte("old")
	if err := os.WriteFile(name, old, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, end := range map[string]func(w Writer){
		"Abort": func(w Writer) { w.Abort() },
		"a source that fails": func(w Writer) {
			err := w.Add(x.streamed("b", func([]byte) (io.ReadCloser, error) {
				return nil, readtest.ErrInjected
			}))
			if closed := w.Close(); err == nil && closed == nil {
				t.Error("a source that fails is no error")
			}
		},
	} {
		w, err := x.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if !x.One {
			if err := w.Add(x.plain("a")); err != nil {
				t.Fatal(err)
			}
		}
		end(w)
		b, err := os.ReadFile(name)
		if names := list(); err != nil || !bytes.Equal(b, old) || len(names) != 1 {
			t.Errorf("after %s: %q, with %q in it, %v", what, names, b, err)
		}
	}
	w, err := x.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Add(x.plain("a")), w.Close()); err != nil {
		t.Fatal(err)
	}
	if names := list(); len(names) != 1 {
		t.Errorf("%q", names)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	x.equal(t, b, []*tensor.Tensor{x.plain("a")})
}
