package tensorfile

import (
	"io/fs"
	"path/filepath"
	"testing"
)

// The helpers of tests in several files.

// samples are the files of testdata that the reference tools made, by format.
func samples(t testing.TB) map[Format][]string {
	all := map[Format][]string{}
	for _, f := range Formats() {
		dir := f.String()
		if f == NPZ {
			dir = NPY.String()
		}
		names, err := filepath.Glob(filepath.Join("testdata", dir, "*"+f.Ext()))
		if err != nil || len(names) == 0 {
			t.Fatalf("no files of %v: %v", f, err)
		}
		if f == PTE {
			bundles, _ := filepath.Glob("testdata/pte/*.bpte")
			names = append(names, bundles...)
		}
		all[f] = names
	}
	return all
}

type closingFS struct {
	fs.FS
	opened, closed int
}

func (c *closingFS) Open(name string) (fs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	c.opened++
	return closing{f, &c.closed}, nil
}

// closing counts whether a file of an fs.FS is closed.
type closing struct {
	fs.File
	closed *int
}

func (c closing) Close() error { *c.closed++; return c.File.Close() }
