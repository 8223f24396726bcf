package model

import (
	"bytes"
	"io"
	"path"

	"github.com/tensorfile/tensorfile"
)

// headSize is how much of a file shows what it is.
const headSize = 4 << 10

// sniff searches the start of a file that its format's reader refused for something else
// than the name says; nil where it finds nothing.
func (d *directory) sniff(f *file) (*Finding, error) {
	in, err := d.fsys.Open(d.path(f.name))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	head := make([]byte, min(headSize, f.size))
	n, err := io.ReadFull(in, head)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return nil, err
	}
	head = head[:n]
	if isPointer(head) {
		x := pointer(f.name)
		return &x, nil
	}
	what := otherFormat(head, f)
	if what == "" {
		return nil, nil
	}
	x := finding(WrongFormat, f.name, "", "%s under this name", what)
	return &x, nil
}

// otherFormat returns what a file is by its start, where that is not what its name says.
func otherFormat(head []byte, f *file) string {
	text := bytes.TrimLeft(head, " \t\r\n\ufeff")
	switch {
	case path.Ext(f.name) == safetensorsExt && len(head) > 8 && head[8] == '{':
		return "" // its length may begin with any byte
	case len(text) > 0 && text[0] == '<':
		return "HTML or XML"
	case len(text) > 0 && (text[0] == '{' || text[0] == '['):
		return "JSON"
	}
	got, err := tensorfile.Detect(prefix{bytes.NewReader(head)}, f.size)
	switch want := formatOf(f.name); {
	case err == nil && got != want && !(isPickle(f.name) && got == tensorfile.Torch):
		return got.Title()
	case want == 0 || err == nil:
		return ""
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return "a zip archive"
	case len(head) > 1 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5:
		return "a pickle"
	}
	return ""
}

// isPointer reports whether a file is what Git has of one that is in LFS.
func isPointer(b []byte) bool { return bytes.HasPrefix(b, []byte("version https://git-lfs")) }

func pointer(name string) Finding {
	return finding(PointerFile, name, "", "a pointer of Git LFS: the file itself was not fetched")
}

// A prefix is the start of a longer file: detection reads no more, whatever the format.
type prefix struct{ *bytes.Reader }

func (p prefix) ReadAt(b []byte, off int64) (int, error) {
	n, err := p.Reader.ReadAt(b, off)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
