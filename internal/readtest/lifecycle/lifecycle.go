// Package lifecycle is one test for the readers of all formats: what each of them
// survives from opening to after Close.
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
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Reader is what the readers of all formats have.
type Reader interface {
	io.Closer
	Version() string
	Size() int64
	Len() int
	Tensors() iter.Seq[*tensor.Tensor]
	Tensor(name string) *tensor.Tensor
	Blobs() iter.Seq2[string, tensor.Blob]
	Attributes() iter.Seq2[string, string]
	Warnings() []error
	Spans() iter.Seq[tensor.Span]
	Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error)
}

// Test reads files, which are sound and have data, from every form of source: whole,
// failing, ending early, changing, truncated while it is open, closed while it is
// read.
func Test[R Reader](t *testing.T, api readtest.API[R], files ...string) {
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(file), func(t *testing.T) { test(t, api, data) })
	}
}

func test[R Reader](t *testing.T, api readtest.API[R], data []byte) {
	t.Run("every source reads the same", func(t *testing.T) {
		if text := api.Same(t, data, describe); !strings.Contains(text, "payload") {
			t.Fatalf("there is no data in it: %s", text)
		}
	})
	t.Run("goroutines read the same", func(t *testing.T) {
		api.Each(t, data, func(t *testing.T, r R) { readTogether(t, r) })
	})
	t.Run("nothing is read after Close", func(t *testing.T) {
		api.Each(t, data, func(t *testing.T, r R) { closeWhileReading(t, r) })
	})
	t.Run("sources that fail are errors", func(t *testing.T) {
		size := int64(len(data))
		readtest.Misread(t, data, []int64{0, 1, 7, 8, size / 3, size / 2, size - 1},
			func(r io.ReaderAt, size int64) error { return openAndRead(api, r, size) })
		for _, at := range []int64{0, size / 2, size - 1} {
			failing := readtest.Failing(bytes.NewReader(data), at)
			if err := openAndRead(api, failing, size); !errors.Is(err, readtest.ErrInjected) {
				t.Errorf("failing at %d, the source's error became %v", at, err)
			}
		}
	})
	t.Run("sources that change do not panic", func(t *testing.T) {
		readtest.Survives(t, func() error {
			return openAndRead(api, readtest.Changing(bytes.NewReader(data)), int64(len(data)))
		}, "changing")
	})
	t.Run("a file truncated while open is an error", func(t *testing.T) {
		truncateWhileOpen(t, api, data)
	})
	t.Run("only regular files are opened", func(t *testing.T) {
		missing := filepath.Join(t.TempDir(), "missing")
		for _, name := range []string{t.TempDir(), os.DevNull, missing} {
			for _, noMap := range []bool{false, true} {
				if r, err := api.Open(name, noMap); err == nil {
					r.Close()
					t.Errorf("%s was opened", name)
				}
			}
		}
	})
}

// payloads are the blobs of a file: data and parts of tensors, and named ones.
func payloads(r Reader) (all []tensor.Blob) {
	add := func(b tensor.Blob) {
		if b.Size() != 0 {
			all = append(all, b)
		}
	}
	for x := range r.Tensors() {
		if x.External {
			continue
		}
		if x.Dense() {
			add(x.Data)
		}
		for _, p := range x.Parts {
			add(p.Data)
		}
	}
	for _, b := range r.Blobs() {
		add(b)
	}
	return all
}

// readAll reads all of a file, also what only Verify reads.
func readAll(r Reader) error {
	var errs []error
	for _, b := range payloads(r) {
		_, err := b.ReadAll()
		errs = append(errs, err)
	}
	_, err := r.Verify(context.Background(), nil)
	return errors.Join(append(errs, err)...)
}

func openAndRead[R Reader](api readtest.API[R], r io.ReaderAt, size int64) error {
	x, err := api.NewReader(r, size)
	if err != nil {
		return err
	}
	defer x.Close()
	return readAll(x)
}

// describe says all that a file is, payloads included.
func describe[R Reader](r R) string {
	var s strings.Builder
	fmt.Fprintln(&s, r.Version(), r.Size(), r.Len(), r.Warnings())
	for x := range r.Tensors() {
		fmt.Fprintln(&s, x.Name, x.DType, x.Shape, x.Order, x.Scheme, x.Check())
	}
	for k, v := range r.Attributes() {
		fmt.Fprintln(&s, k, v)
	}
	for span := range r.Spans() {
		fmt.Fprintln(&s, span)
	}
	for _, b := range payloads(r) {
		p, err := b.ReadAll()
		fmt.Fprintln(&s, "payload", len(p), p[:min(len(p), 1<<10)], err)
	}
	report, err := r.Verify(context.Background(), nil)
	fmt.Fprintln(&s, report.Findings, err)
	return s.String()
}

func readTogether[R Reader](t *testing.T, r R) {
	var wg sync.WaitGroup
	texts := make([]string, 4)
	for i := range texts {
		wg.Go(func() { texts[i] = describe(r) })
	}
	wg.Wait()
	if len(slices.Compact(texts)) != 1 {
		t.Error("goroutines that read a file at once read different things")
	}
}

func closeWhileReading[R Reader](t *testing.T, r R) {
	all, names := payloads(r), []string{}
	for x := range r.Tensors() {
		names = append(names, x.Name)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				for _, b := range all[:min(len(all), 8)] {
					if _, err := b.ReadAll(); err != nil && !errors.Is(err, fs.ErrClosed) {
						t.Error(err)
					}
				}
			}
		})
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if err := r.Close(); err != nil {
		t.Errorf("Close, again: %v", err)
	}
	for _, b := range all {
		if _, err := b.ReadAll(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("ReadAll after Close: %v", err)
		}
		if _, err := b.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("ReadAt after Close: %v", err)
		}
		if _, err := b.WriteTo(io.Discard); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("WriteTo after Close: %v", err)
		}
		if _, ok := b.Bytes(); ok {
			t.Error("Bytes after Close")
		}
	}
	if _, err := r.Verify(t.Context(), nil); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Verify after Close: %v", err)
	}
	for x := range r.Tensors() { // the metadata is the reader's
		names = slices.DeleteFunc(names, func(n string) bool { return n == x.Name })
		if r.Tensor(x.Name) == nil {
			t.Errorf("%q is not found after Close", x.Name)
		}
	}
	if len(names) > 0 {
		t.Errorf("%q are gone after Close", names)
	}
}

// truncateWhileOpen cuts a file off that is mapped, or not.
func truncateWhileOpen[R Reader](t *testing.T, api readtest.API[R], data []byte) {
	if runtime.GOOS == "windows" {
		t.Skip("files that are open are not truncated there")
	}
	name := filepath.Join(t.TempDir(), "file")
	for _, noMap := range []bool{false, true} {
		if os.Getenv("TENSORFILE_EMULATOR") != "" && !noMap {
			continue // qemu does not pass faults of a mapping on
		}
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := api.Open(name, noMap)
		if err != nil {
			t.Fatal(err)
		}
		n := r.Len()
		if err := os.Truncate(name, 0); err != nil {
			t.Fatal(err)
		}
		if err := readAll(r); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("not mapped %v: %v", noMap, err)
		}
		_, err = r.Verify(t.Context(), nil) // nil where all was metadata, which is a copy
		if err != nil && tensor.ClassOf(err) != tensor.ClassTruncated {
			t.Errorf("not mapped %v: Verify: %v", noMap, err)
		}
		for range r.Tensors() {
			n--
		}
		if n != 0 {
			t.Error("the tensors went with the file")
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
