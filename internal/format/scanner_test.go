package format

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestScannerFindsTheFirstByteThatIsSet(t *testing.T) {
	data := make([]byte, 3<<20)
	data[2<<20+5] = 1
	var done, total int64
	found := NewFindings(&tensor.VerifyOptions{Progress: func(d, n int64) {
		done, total = d, n
	}})
	s := NewScanner(t.Context(), "test", source.OfBytes(data), found)
	if at, err := s.NonZero(0, 2<<20, "padding"); at != -1 || err != nil || total != 0 {
		t.Errorf("%d, %v, progress to %d", at, err, total)
	}
	s.Total = int64(len(data))
	if at, err := s.NonZero(10, s.Total, "padding"); at != 2<<20+5 || err != nil {
		t.Errorf("%d, %v", at, err)
	}
	s.Done = 0
	if err := s.Read(0, s.Total, "all", nil); err != nil || done != s.Total || total != s.Total {
		t.Errorf("%v, %d of %d", err, done, total)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewScanner(ctx, "test", source.OfBytes(data), found).Read(0, 1, "",
		nil); !errors.Is(err,
		context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}

func TestScannerReportsWhereAFileEnds(t *testing.T) {
	src, err := source.OfReaderAt(bytes.NewReader(make([]byte, 10)), 20)
	if err != nil {
		t.Fatal(err)
	}
	found := NewFindings(nil)
	if err := NewScanner(t.Context(), "test", src, found).Read(5, 20, "payload", nil); err != nil {
		t.Fatal(err)
	}
	var fe *tensor.FormatError
	if err := found.Err(); !errors.As(err, &fe) || fe.Field != "payload" || fe.Offset != 5 ||
		!errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
}
