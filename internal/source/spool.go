package source

import (
	"bytes"
	"context"
	"io"
	"os"
)

// A Temp is a temporary file, for bytes that are needed in another order than they come
// in, and are more than memory should hold. Where an open file may lose its name it has
// none from the start, and nothing is left behind even by a process that is killed;
// elsewhere Close removes it.
type Temp struct {
	*os.File
	named bool
}

// NewTemp makes an empty one, in the system's place for them.
func NewTemp() (*Temp, error) {
	f, err := os.CreateTemp("", "tensorfile-spool-")
	if err != nil {
		return nil, err
	}
	return &Temp{f, os.Remove(f.Name()) != nil}, nil
}

// Close deletes the file.
func (t *Temp) Close() error {
	err := t.File.Close()
	t.remove()
	return err
}

func (t *Temp) remove() {
	if t.named {
		os.Remove(t.Name())
	}
}

// Spool copies what r has into a temporary file and opens that, mapped where the
// platform can. remove closes and deletes it.
func Spool(r io.Reader) (s *Source, remove func(), err error) {
	t, err := NewTemp()
	if err != nil {
		return nil, nil, err
	}
	if _, err := io.Copy(t.File, r); err != nil {
		t.Close()
		return nil, nil, err
	}
	path := t.Name()
	if !t.named {
		path = descriptorPath(t.File)
	}
	s = new(Source)
	if err := s.ofFile(t.File, t.Name(), path); err != nil {
		t.remove()
		return nil, nil, err
	}
	return s, func() { s.Close(); t.remove() }, nil
}

// held is what memory holds of a stream before a file does: making one takes no longer
// than to decode as much.
const held = 1 << 20

// Hold takes all that r has, until ctx ends: into memory, or into a temporary file
// where it is more than 1 MiB.
func Hold(ctx context.Context, r io.Reader) (s *Source, release func(), err error) {
	r = &until{ctx, r}
	head := make([]byte, 0, 512)
	for err == nil && len(head) <= held {
		if len(head) == cap(head) {
			head = append(make([]byte, 0, min(4*len(head), held+1)), head...)
		}
		var n int
		n, err = ReadPiece(r, head[len(head):cap(head)])
		head = head[:len(head)+n]
	}
	switch err {
	case io.EOF:
		return OfBytes(head), func() {}, nil
	case nil:
		return Spool(io.MultiReader(bytes.NewReader(head), r))
	}
	return nil, nil, err
}

// until is a reader that ends with ctx.
type until struct {
	ctx context.Context
	r   io.Reader
}

func (u *until) Read(p []byte) (int, error) {
	if err := context.Cause(u.ctx); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}
