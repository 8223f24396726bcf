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
	return s, func() { s.Close(); os.Remove(f.Name()) }, nil
}
