package source

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"runtime"
	"strconv"

	"golang.org/x/exp/mmap"
)

// Open opens the named regular file. It is mapped where the platform can, unless
// noMap is set; otherwise reads go to the open file. Anything but a regular file is
// refused, because directories, pipes, devices and files of /proc misbehave in three
// different ways when they are mapped or asked for their size.
func Open(name string, noMap bool) (*Source, error) {
	s := new(Source)
	if err := s.Open(name, noMap); err != nil {
		return nil, err
	}
	return s, nil
}

// Open is the function Open for a Source that is part of something larger. It must be
// new.
func (s *Source) Open(name string, noMap bool) error {
	if !noMap && s.mapAtOnce(name) {
		return nil
	}
	// Looked at before it is opened: opening a device can already do something.
	fi, err := os.Stat(name)
	if err != nil {
		return err
	}
	if err := regular(name, fi); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return err
	}
	path := ""
	switch {
	case noMap:
	case runtime.GOOS == "windows":
		// an open file can neither be renamed nor removed there: the name keeps its
		// meaning
		path = name
	default:
		path = descriptorPath(f)
	}
	return s.ofFile(f, name, path)
}

// OfFile makes a Source of an open file, which it takes over, even when it fails. It is
// mapped unless noMap is set or the platform cannot map an open file.
func OfFile(f *os.File, noMap bool) (*Source, error) {
	path := ""
	if !noMap {
		path = descriptorPath(f)
	}
	s := new(Source)
	if err := s.ofFile(f, f.Name(), path); err != nil {
		return nil, err
	}
	return s, nil
}

// ofFile makes s the Source of an open file, which it takes over, even when it fails.
// It is mapped by path, which is empty if it shall not be.
func (s *Source) ofFile(f *os.File, name, path string) error {
	fi, err := f.Stat() // again: name may have meant something else a moment ago
	if err == nil {
		err = regular(name, fi)
	}
	if err == nil && fi.Size() == 0 {
		err = empty(f, name)
	}
	if err != nil {
		f.Close()
		return err
	}
	s.size = fi.Size()
	if m, data := mapped(path, s.size); m != nil {
		f.Close() // the mapping stays
		s.data, s.closer = data, m
		return nil
	}
	s.r, s.closer = f, f
	return nil
}

func regular(name string, fi fs.FileInfo) error {
	switch mode := fi.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return &fs.PathError{Op: "open", Path: name,
			Err: fmt.Errorf("%w: a directory", fs.ErrInvalid)}
	default:
		return &fs.PathError{Op: "open", Path: name,
			Err: fmt.Errorf("%w: not a regular file (%v)", fs.ErrInvalid, mode)}
	}
}

// empty fails when a file whose size is said to be zero has content, as
// files of /proc do.
func empty(f *os.File, name string) error {
	var b [1]byte
	switch n, err := f.ReadAt(b[:], 0); {
	case n == 0 && (err == nil || err == io.EOF):
		return nil
	case err != nil:
		return err
	}
	return &fs.PathError{Op: "open", Path: name,
		Err: fmt.Errorf("%w: it has content but no size", fs.ErrInvalid)}
}

// mapped maps the file of that path, which is to be open already, so that the path
// means it and nothing else, and returns the mapping with its bytes; nil when that
// cannot be done here: mapping is an optimisation.
func mapped(path string, size int64) (*mmap.ReaderAt, []byte) {
	if path == "" || size != int64(int(size)) {
		return nil, nil // no such path, or larger than the address space
	}
	m, err := mmap.Open(path)
	if err != nil {
		return nil, nil
	}
	// The finalizer would unmap once m is unreachable, while slices of the mapping live
	// on.
	runtime.SetFinalizer(m, nil)
	data := mappedBytes(m)
	if data == nil || int64(len(data)) != size {
		m.Close()
		return nil, nil
	}
	return m, data
}

// descriptorPath is a path that means the open file f, whatever happens to its name
// meanwhile; empty where the system has no such paths, or x/exp/mmap no mapping.
const numbered = "/proc/self/fd/" // on linux: what this process has open, by number

func descriptorPath(f *os.File) string {
	switch runtime.GOOS {
	case "linux", "android":
		return numbered + strconv.Itoa(int(f.Fd()))
	case "darwin", "ios":
		return "/dev/fd/" + strconv.Itoa(int(f.Fd()))
	}
	return ""
}

// mappedBytes returns the slice that m keeps to itself, or nil. The type has no
// accessor for it, but reflection may read an unexported slice of bytes. Where
// x/exp/mmap does not map (bsd, plan9, wasm) the type has no such field, and a later
// version may have another one: both is asked before the slice is.
func mappedBytes(m any) []byte {
	v := reflect.ValueOf(m).Elem().FieldByName("data")
	if !v.IsValid() || v.Kind() != reflect.Slice || v.Type().Elem().Kind() != reflect.Uint8 {
		return nil
	}
	return v.Bytes()
}
