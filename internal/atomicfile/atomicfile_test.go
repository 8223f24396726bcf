package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestPiecesOfAnySizeMakeTheSameFile(t *testing.T) {
	whole := content(5<<20 + 123)
	for _, size := range []int{1, 7, 4096, pieceSize - 1, pieceSize, pieceSize + 1, 3 << 20,
		len(whole)} {
		data := whole
		if size < 100 {
			data = whole[:300_000]
		}
		dir := t.TempDir()
		name := filepath.Join(dir, "f")
		f, err := Create(name)
		if err != nil {
			t.Fatal(err)
		}
		for rest := data; len(rest) > 0; {
			n, err := f.Write(rest[:min(size, len(rest))])
			if err != nil || n != min(size, len(rest)) {
				t.Fatalf("pieces of %d: Write = %d, %v", size, n, err)
			}
			rest = rest[n:]
		}
		if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("the file is there before Close: %v", err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		hasContent(t, name, data)
		onlyFiles(t, dir, "f")
	}
}

func TestAbortLeavesTheTargetAlone(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	if err := os.WriteFile(name, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := Create(name)
	if err != nil {
		t.Fatal(err)
	}
	f.Write(content(3 << 20))
	f.Abort()
	f.Abort()
	hasContent(t, name, []byte("old"))
	onlyFiles(t, dir, "f")
	if _, err := f.Write([]byte("x")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Write after Abort: %v", err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("WriteAt after Abort: %v", err)
	}
	if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Close after Abort: %v", err)
	}
}

func TestWriteIsWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	put := func(s string, err error) error {
		return Write(name, func(w io.Writer) error {
			io.WriteString(w, s)
			return err
		})
	}
	if err := put("old", nil); err != nil {
		t.Fatal(err)
	}
	if err := put("new", fs.ErrInvalid); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a function that fails: %v", err)
	}
	hasContent(t, name, []byte("old"))
	onlyFiles(t, dir, "f")
}

func TestAbortAfterCloseDoesNothing(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	f, err := Create(name)
	if err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("new"))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f.Abort()
	if err := f.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := f.Write([]byte("x")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Write after Close: %v", err)
	}
	hasContent(t, name, []byte("new"))
}

func TestWriteAtPatchesAndWriteGoesOnAtTheEnd(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f, err := Create(name)
	if err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("count=?? "))
	if _, err := f.WriteAt([]byte("12"), 6); err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("tail"))
	if _, err := f.WriteAt([]byte("far"), 20); err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("!"))
	if _, err := f.WriteAt([]byte("x"), -1); err == nil {
		t.Error("negative offset accepted")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	hasContent(t, name, []byte("count=12 tail\x00\x00\x00\x00\x00\x00\x00far!"))
}

func TestParallelWriteAtWritesEveryByte(t *testing.T) {
	data := content(24<<20 + 5)
	for _, reserve := range []int64{0, int64(len(data)), int64(len(data)) + 100<<20, 10 << 20} {
		name := filepath.Join(t.TempDir(), "f")
		f, err := Create(name)
		if err != nil {
			t.Fatal(err)
		}
		f.Write(data[:100])
		f.Reserve(reserve)
		var wg sync.WaitGroup
		for i := 100; i < len(data); i += 1 << 20 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				p := data[i:min(i+1<<20, len(data))]
				if n, err := f.WriteAt(p, int64(i)); err != nil || n != len(p) {
					t.Errorf("WriteAt = %d, %v", n, err)
				}
			}()
		}
		wg.Wait()
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		hasContent(t, name, data)
	}
}

func TestCreateNewReplacesNothing(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f, err := CreateNew(name)
	if err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("new"))
	if err := os.WriteFile(name, []byte("other"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); !errors.Is(err, fs.ErrExist) {
		t.Error("Close:", err)
	}
	if b, _ := os.ReadFile(name); string(b) != "other" {
		t.Errorf("%q", b)
	}
	if _, err := CreateNew(name); !errors.Is(err, fs.ErrExist) {
		t.Error("CreateNew:", err)
	}
	os.Remove(name)
	if f, err = CreateNew(name); err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("new"))
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if b, _ := os.ReadFile(name); string(b) != "new" {
		t.Errorf("%q", b)
	}
	if all, _ := os.ReadDir(filepath.Dir(name)); len(all) != 1 {
		t.Errorf("left behind: %v", all)
	}
}
