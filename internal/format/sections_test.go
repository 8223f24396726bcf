package format

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

func write(ctx context.Context, w io.Writer, head string, all []Section, size int64) error {
	return WriteTo(ctx, w, func(out *Output) error {
		return WriteSections(out, []byte(head), all, size)
	})
}

func TestWritePlacesAndPads(t *testing.T) {
	all := []Section{
		{"a", 4, 2, tensor.BlobOf([]byte("ab"))},
		{"none", 6, 0, tensor.Blob{}},
		{"c", 8, 3, blob(3, "cde")},
	}
	var out bytes.Buffer
	err := write(t.Context(), &out, "h", all, 13)
	if err != nil || out.String() != "h\x00\x00\x00ab\x00\x00cde\x00\x00" {
		t.Errorf("%v, %q", err, out.String())
	}
	if err := readtest.FailedWrites(func(w io.Writer) error {
		return write(t.Context(), w, "h", all, 13)
	}); err != nil {
		t.Error(err)
	}
}

func TestWriteRefusesSourcesOfAnotherSize(t *testing.T) {
	for _, b := range []tensor.Blob{blob(-1, "ab"), blob(3, "ab"), tensor.BlobOf([]byte("abcd"))} {
		err := write(t.Context(), io.Discard, "", []Section{{"x", 0, 3, b}}, 3)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		} else if !strings.Contains(err.Error(), `"x"`) {
			t.Errorf("the message does not name the section: %v", err)
		}
	}
}

func TestWriteEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	w := writerFunc(func(p []byte) (int, error) {
		if n += len(p); n > 2<<20 {
			cancel()
		}
		return len(p), nil
	})
	big := tensor.BlobOf(make([]byte, 64<<20))
	err := write(ctx, w, "", []Section{{"x", 0, 64 << 20, big}}, 64<<20)
	if !errors.Is(err, context.Canceled) || n > 4<<20 {
		t.Errorf("%v after %d bytes", err, n)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
