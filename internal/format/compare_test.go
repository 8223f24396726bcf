package format

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestComparerFindsTheFirstDifference(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 10_000)
	for _, at := range []int{0, 1, 64<<10 - 1, 64 << 10, len(data) - 1, len(data)} {
		other := bytes.Clone(data[:min(at+1, len(data))])
		if at < len(data) {
			other[at]++
		}
		for name, r := range map[string]io.Reader{
			"another byte": bytes.NewReader(other), "too short": bytes.NewReader(data[:at]),
		} {
			c := Comparer{R: iotest.HalfReader(r)}
			n, err := c.Write(data)
			if same := at == len(data); c.Same != int64(at) || n != at || c.Differs == same ||
				same != (err == nil) {
				t.Errorf("%s at %d: %d written, %d the same, %v", name, at, n, c.Same, err)
			}
		}
	}
	broken := Comparer{R: iotest.ErrReader(io.ErrUnexpectedEOF)}
	if _, err := broken.Write(data); !errors.Is(err, io.ErrUnexpectedEOF) || broken.Differs {
		t.Errorf("of a reader that fails: %v", err)
	}
}

func TestSameBytesComparesContent(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	for _, c := range []struct {
		a, b tensor.Blob
		want bool
	}{
		{blob(3, "abc"), tensor.BlobOf([]byte("abc")), true},
		{blob(3, "abc"), blob(3, "abd"), false},
		{blob(3, "abc"), blob(4, "abcd"), false},
		{tensor.BlobOf(nil), tensor.BlobOf(nil), true},
		{blob(int64(len(long)), long), tensor.BlobOf([]byte(long)), true},
	} {
		if same, err := SameBytes(t.Context(), c.a, c.b); same != c.want || err != nil {
			t.Errorf("%d bytes and %d: %v, %v", c.a.Size(), c.b.Size(), same, err)
		}
	}
	if _, err := SameBytes(t.Context(), blob(3, "abc"), blob(3, "ab")); !errors.Is(err,
		io.ErrUnexpectedEOF) {
		t.Errorf("of a source that is too short: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := SameBytes(ctx, blob(1, "a"), blob(1, "a")); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}
