//go:build unix

package atomicfile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe in place of a journal is not opened: that would wait for a writer.
func TestPipesAreNoJournals(t *testing.T) {
	dir := journalFor(t, "", setIndex, "m-00002.zt")
	if err := os.Remove(journalName(dir, setIndex)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(journalName(dir, setIndex), 0o666); err != nil {
		t.Skip(err)
	}
	if err := Unfinished(filepath.Join(dir, setIndex)); err != nil {
		t.Error(err)
	}
	if err := UnfinishedFS(os.DirFS(dir), setIndex); err != nil {
		t.Error(err)
	}
	if list, err := Clean(t.Context(), dir, &CleanOptions{Remove: true, Age: 1}); err != nil ||
		len(list) > 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := NewSet(filepath.Join(dir, setIndex)); err == nil {
		t.Error("a set begins")
	}
	onlyFiles(t, dir, setIndex, "m-00002.zt", journalBase)
}
