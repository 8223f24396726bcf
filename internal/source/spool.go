package source

import (
	"io"
	"os"
)

// Spool copies what r has into a temporary file and opens that, mapped where the platform can: for bytes that are needed in
// another order than they come in, and are more than memory should hold. remove closes and deletes it.
func Spool(r io.Reader) (s *Source, remove func(), err error) {
	f, err := os.CreateTemp("", "tensorfile-spool-")
	if err != nil {
		return nil, nil, err
	}
	_, err = io.Copy(f, r)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		s, err = Open(f.Name(), false)
	}
	if err != nil {
		os.Remove(f.Name())
		return nil, nil, err
	}
	// Where an open file may lose its name it does so now, and nothing is left behind even by a process that is killed.
	gone := os.Remove(f.Name()) == nil
	return s, func() {
		if s.Close(); !gone {
			os.Remove(f.Name())
		}
	}, nil
}
