package pte

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// Metadata that was read when it was opened stays as it was, whatever becomes of the
// file: written over, longer, another one of the same name, gone.
func TestFileIsReplaced(t *testing.T) {
	data := base(t, "export-1.5.1-state-initial.pte")
	for what, change := range map[string]func(name string) error{
		"written over": func(name string) error {
			return os.WriteFile(name, bytes.Repeat([]byte{0xff}, len(data)), 0o666)
		},
		"longer": func(name string) error {
			return os.WriteFile(name, append(bytes.Clone(data), data...), 0o666)
		},
		"replaced": func(name string) error {
			if err := os.WriteFile(name+".new", base(t, "lean"), 0o666); err != nil {
				return err
			}
			return os.Rename(name+".new", name)
		},
		"gone": os.Remove,
	} {
		for _, noMap := range []bool{false, true} {
			name := filepath.Join(t.TempDir(), "p.pte")
			if err := os.WriteFile(name, data, 0o666); err != nil {
				t.Fatal(err)
			}
			r, err := Open(name, &ReaderOptions{NoMap: noMap})
			if err != nil {
				t.Fatal(err)
			}
			before := plainFacts(t, r)
			if err := change(name); err != nil {
				t.Logf("%s: not here: %v", what, err) // an open file on windows
			}
			if after := plainFacts(t, r); after != before {
				t.Errorf("%s, NoMap %v: the program is another one now", what, noMap)
			}
			for e := range r.Entries() {
				b, err := e.Data.ReadAll()
				if what != "written over" && e.Buffer > 0 &&
					(err != nil || int64(len(b)) != e.Data.Size()) {
					t.Errorf("%s, NoMap %v: %s: %d bytes, %v", what, noMap, e.Name, len(b), err)
				}
			}
			r.Close()
		}
	}
}

// plainFacts is what a program shows without its payloads.
func plainFacts(t *testing.T, r *Reader) string {
	var b strings.Builder
	for m := range r.Program().Methods() {
		fmt.Fprintln(&b, m, m.Operators(), m.Memory().Buffers)
		for v := range m.Values() {
			fmt.Fprintln(&b, v)
		}
	}
	for e := range r.Entries() {
		fmt.Fprintln(&b, e.Name, e.DType, e.Shape)
	}
	return b.String()
}

func TestOpenRefusesWhatIsNotAFile(t *testing.T) {
	for _, name := range []string{t.TempDir(), os.DevNull, "/dev/zero", "/proc/self/status",
		"absent.pte"} {
		if r, err := Open(name, nil); err == nil {
			t.Errorf("%s opens", name)
			r.Close()
		}
	}
	dir := t.TempDir()
	if socket, err := net.Listen("unix", filepath.Join(dir, "socket")); err == nil {
		defer socket.Close()
		if _, err := Open(filepath.Join(dir, "socket"), nil); err == nil {
			t.Error("a socket opens")
		}
	}
	if pipe := filepath.Join(dir, "pipe"); exec.Command("mkfifo", pipe).Run() == nil {
		if _, err := Open(pipe, nil); err == nil {
			t.Error("a pipe opens")
		}
	}
	sparse := filepath.Join(t.TempDir(), "sparse.pte")
	if err := os.WriteFile(sparse, base(t, "lean"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(sparse, 8<<40); err != nil {
		t.Skipf("no file of 8 TiB here: %v", err)
	}
	// Whoever reads 8 TiB does not end.
	r, err := Open(sparse, nil)
	if err != nil {
		if math.MaxInt == math.MaxInt32 {
			return // it cannot be mapped
		}
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	for range r.Spans() {
	}
}

// A program names tensors, never files. Names that look like paths stay names.
func TestNamesAreNotPaths(t *testing.T) {
	b := craft(t, base(t, "rich"), func(c crafted) {
		c.of(16).Child(ptefb.SlotTensorExtraTensorInfo).SetString(
			ptefb.SlotExtraTensorInfoFullyQualifiedName, "../../etc/passwd")
		c.tree.Children(ptefb.SlotProgramNamedData)[0].SetString(ptefb.SlotNamedDataKey,
			"/etc/passwd")
	})
	r, err := OpenBytes(b, &ReaderOptions{Companion: func(name string) (io.ReaderAt, int64,
		error) {
		t.Errorf("%q is opened", name)
		return nil, 0, fs.ErrNotExist
	}})
	if err != nil {
		t.Fatal(err)
	}
	walkAll(t, r)
	writeAll(t, r)
}

func TestPolyglotsAreFoundIfStrict(t *testing.T) {
	zip := "PK\x05\x06" + strings.Repeat("\x00", 18)
	r, err := OpenBytes(append(base(t, "lean"), zip...), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); err == nil {
		t.Error("an archive behind a program is not seen")
	}
}

func TestVerifyIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := openFile(t, "../testdata/pte/export-1.5.1-external.pte")
	for _, o := range []*tensor.VerifyOptions{nil, {Depth: tensor.VerifyCanonical},
		{External: func(string) *tensor.Tensor { return nil }}} {
		if _, err := r.Verify(ctx, o); !errors.Is(err, context.Canceled) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
