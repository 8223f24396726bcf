package atomicfile

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestCloseWaitsForAnOpenTarget(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Create(name)
	if err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("new"))
	time.AfterFunc(300*time.Millisecond, func() { reader.Close() })
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	hasContent(t, name, []byte("new"))
}
