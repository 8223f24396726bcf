package ztensor

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

type saidTensor struct {
	Name, Scheme string
	Shape        []int64
	Attributes   json.RawMessage
	saidBytes
	Parts []saidPart
}

type saidPart struct {
	Role string
	saidBytes
}

type saidBytes struct {
	DType, Encoding, Digest, SHA256 string
	Bytes, Offset, Stored           int64
}

func TestFilesOfUpstreamReadAsUpstreamReadsThem(t *testing.T) {
	for _, g := range goldens(t, version1...) {
		t.Run(g.name, func(t *testing.T) {
			api.Each(t, g.data, func(t *testing.T, r *Reader) { compare(t, r, g.said) })
		})
	}
}

func compareBytes(t *testing.T, name string, b tensor.Blob, d tensor.DType, want saidBytes) {
	st, ok := b.Stored()
	if !ok || st.Offset != want.Offset || st.Size != want.Stored || st.Encoding != want.Encoding ||
		st.Digest != want.Digest {
		t.Errorf("%q: stored %+v, want %+v", name, st, want)
	}
	word := d.String()
	switch {
	case d == tensor.Unknown && st.Type != "":
		word = st.Type
	case d == tensor.Unknown:
		word = ""
	}
	if word != want.DType {
		t.Errorf("%q: dtype %q, want %q", name, word, want.DType)
	}
	if b.Size() >= 0 && b.Size() != want.Bytes {
		t.Errorf("%q: %d bytes, want %d", name, b.Size(), want.Bytes)
	}
	all, err := b.ReadAll()
	if err != nil {
		t.Errorf("%q: %v", name, err)
		return
	}
	if int64(len(all)) != want.Bytes {
		t.Errorf("%q: %d bytes read, want %d", name, len(all), want.Bytes)
	}
	if sum := sha256.Sum256(all); hex.EncodeToString(sum[:]) != want.SHA256 {
		t.Errorf("%q: wrong bytes", name)
	}
	// The same through the other doors.
	into := make([]byte, len(all))
	if err := b.ReadInto(into); err != nil || !bytes.Equal(into, all) {
		t.Errorf("%q: ReadInto: %v", name, err)
	}
	if p, ok := b.Bytes(); ok && !bytes.Equal(p, all) {
		t.Errorf("%q: Bytes differs", name)
	}
	stream, err := b.Open()
	if err != nil {
		t.Errorf("%q: Open: %v", name, err)
		return
	}
	defer stream.Close()
	if got, err := io.ReadAll(stream); err != nil || !bytes.Equal(got, all) {
		t.Errorf("%q: Open: %d bytes, %v", name, len(got), err)
	}
	if n := len(all); n > 2 {
		mid := make([]byte, n/2)
		if _, err := b.ReadAt(mid, int64(n/3)); err != nil || !bytes.Equal(mid, all[n/3:n/3+n/2]) {
			t.Errorf("%q: ReadAt: %v", name, err)
		}
	}
}

func TestFilesOfUpstreamVerify(t *testing.T) {
	for _, g := range goldens(t, version1...) {
		t.Run(g.name, func(t *testing.T) {
			api.Each(t, g.data, func(t *testing.T, r *Reader) {
				report, _ := r.Verify(t.Context(), nil)
				for _, f := range report.Findings {
					if f.Severity == tensor.SeverityWarning ||
						f.Class == tensor.ClassUnsupported &&
							strings.Contains(f.Field, "unknown type") {
						continue // a logical type of nobody's
					}
					t.Error(f)
				}
			})
		})
	}
}
