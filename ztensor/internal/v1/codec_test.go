package v1

import (
	"bytes"
	"os"
	"testing"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// A strict reader checks the digest of the stored bytes before it decodes them, once.
func TestStrictDecodesOnce(t *testing.T) {
	b, err := os.ReadFile("../../../testdata/ztensor/crate-1.2.3-zstd.zt")
	if err != nil {
		t.Fatal(err)
	}
	in, err := format.NewInput(bytes.NewReader(b), int64(len(b)),
		&tensor.ReadOptions{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	r := &core.File{Input: in}
	if err := Open(r, Magic1); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, p := range r.Payloads {
		if !p.Encoded() || p.DecodedSize < 0 || p.Digest == "" {
			continue
		}
		checked++
		if err := p.Blob().ReadInto(make([]byte, p.DecodedSize)); err != nil {
			t.Fatal(err)
		}
	}
	if checked == 0 {
		t.Error("no compressed payload with a digest")
	}
	if r.Generation.(*container).streams.Get() != nil {
		t.Error("ReadInto decoded a stream in addition")
	}
}
