package ztensor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/v1"
)

// A reader that is slow, or blocks, is not asked again once the context
// has ended.
func TestCancelledReadersAreNotAskedAgain(t *testing.T) {
	data := write(t, &WriterOptions{Version: "1.0", Digest: CRC32C}, func(w *Writer) {
		for i := range 4 {
			w.Add(tensor.New(fmt.Sprint(i), tensor.Shape{8 << 20}, make([]uint8, 8<<20)))
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var after atomic.Int64 // bytes asked for afterwards
	r, err := NewReader(readtest.ReaderFunc(func(p []byte, off int64) (int, error) {
		if off > 10<<20 && off < 30<<20 {
			cancel()
		}
		if ctx.Err() != nil {
			after.Add(int64(len(p)))
		}
		return copy(p, data[off:]), nil
	}), int64(len(data)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if most := int64(runtime.GOMAXPROCS(0)+1) << 21; after.Load() > most {
		t.Errorf("%d bytes read after the end of the context", after.Load())
	}
}

// Another file takes the name, or the file grows, while it is open: what
// was opened is what is read.
func TestOpenFilesSurviveReplacementAndExtension(t *testing.T) {
	old := write(t, &WriterOptions{Version: "1.0", Digest: CRC32C},
		func(w *Writer) { w.AddAll(t.Context(), tensor.Of(samples()...)) })
	for _, noMap := range []bool{false, true} {
		if runtime.GOOS == "windows" {
			t.Skip("an open file keeps its name there")
		}
		name := store(t, old)
		r, err := Open(name, &ReaderOptions{NoMap: noMap})
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.Write([]byte("more"))
		f.Close()
		if _, err := r.Verify(t.Context(), nil); err != nil {
			t.Errorf("extended: %v", err)
		}
		if s, err := Open(name, nil); err == nil {
			t.Error("a file with something behind its end opens")
			s.Close()
		}
		if err := WriteFile(t.Context(), name, tensor.Of(samples()[:1]...),
			&WriterOptions{Version: "1.0"}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Verify(t.Context(), nil); err != nil || r.Len() != len(samples()) {
			t.Errorf("replaced: %v", err)
		}
		r.Close()
	}
}

// The file is cut off while it is open.
func TestTruncatedFileIsAnErrorWhileOpen(t *testing.T) {
	data := write(t, &WriterOptions{Version: "1.0"}, func(w *Writer) {
		w.Add(tensor.New("w", tensor.Shape{1 << 20}, make([]uint8, 1<<20)))
		w.Add(tensor.New("x", tensor.Shape{1 << 20}, make([]uint8, 1<<20)))
	})
	for _, noMap := range []bool{false, true} {
		name := store(t, data)
		r, err := Open(name, &ReaderOptions{NoMap: noMap})
		if err != nil {
			t.Fatal(err)
		}
		if runtime.GOOS == "windows" && !noMap {
			r.Close()
			continue // a mapped file cannot be cut there
		}
		if err := os.Truncate(name, 1<<16); err != nil {
			t.Fatal(err)
		}
		for ten := range r.Tensors() {
			if _, err := ten.Data.ReadAll(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: %v", ten.Name, err)
			}
		}
		if _, err := r.Verify(t.Context(), nil); err == nil {
			t.Error("a truncated file verifies")
		}
		r.Close()
	}
}

// Files that are not regular, and files that are larger than memory.
func TestOnlyRegularFilesOpenOfAnySize(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir, nil); err == nil {
		t.Error("a directory opens")
	}
	if _, err := Open(filepath.Join(dir, "none"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	for _, name := range []string{"/dev/zero", "/dev/null", "/proc/self/maps"} {
		if _, err := Open(name, nil); err == nil {
			t.Errorf("%s opens", name)
		}
	}
	// A sparse file of 8 TiB: a hole for a manifest, and a manifest of holes.
	name := filepath.Join(dir, "huge")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 8 << 40
	if err := f.Truncate(size); err != nil {
		t.Skip("no sparse files here:", err)
	}
	f.WriteAt([]byte(v1.Magic1), 0)
	for _, n := range []int64{1 << 20, 1 << 30, 1<<30 + 1, size - 24} {
		f.WriteAt(slices.Concat(word(8, uint64(n)), []byte(v1.Magic1)), size-16)
		for _, noMap := range []bool{false, true} {
			if n == 1<<30 && (noMap || testing.Short()) {
				continue // reads it all, as it may
			}
			if _, err := Open(name,
				&ReaderOptions{NoMap: noMap,
					Limits: tensor.Limits{MaxMetadata: 64 << 20}}); err == nil {
				t.Errorf("%d bytes of holes are a manifest", n)
			}
		}
	}
	// And a file beyond 32 bits whose tensors are read.
	m := encode(manifest12(map[string]any{"w": object12("dense", []any{8},
		map[string]any{"data": component12("u8", 0, 8, "offset", int64(5<<30))})}))
	name = filepath.Join(dir, "large")
	g, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	const at = 6 << 30
	g.WriteAt([]byte(v1.Magic1), 0)
	g.WriteAt([]byte("abcdefgh"), 5<<30)
	g.WriteAt(slices.Concat(m, word(8, uint64(len(m))), []byte(v1.Magic1)), at)
	r, err := Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := r.Tensor("w").Data.ReadAll(); err != nil || string(b) != "abcdefgh" {
		t.Errorf("%q, %v", b, err)
	}
}

// A file that is two.
func TestPolyglotsAreRefusedOrFoundIfStrict(t *testing.T) {
	valid := good12(func(t, c map[string]any) {})
	zip := append(slices.Clone(valid),
		"PK\x05\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
	if _, err := OpenBytes(zip, nil); err == nil {
		t.Error("an archive behind the footer")
	}
	hidden := slices.Clone(valid)
	copy(hidden[16:], "%PDF-1.7 hidden in the padding")
	r, err := OpenBytes(hidden, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(t.Context(), nil); err != nil {
		t.Error("padding is only a warning:", err)
	}
	if _, err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); !errors.Is(err,
		tensor.ErrMalformed) {
		t.Errorf("hidden bytes, strict: %v", err)
	}
}
