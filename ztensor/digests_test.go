package ztensor

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestDigestsAreVerified(t *testing.T) {
	payload := []byte{1, 2, 3, 4, 5, 6, 7, 8} // what data1 has at 64
	sum := fmt.Sprintf("%08X", crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)))
	const sha = "66840dda154e8a113c31dd0ad32f7f3a366a80e8136979d8f5a101d3d29d6f72"
	for _, c := range []struct {
		name, digest string
		strict       bool
		want         error // of Verify
	}{
		{"crc32c", "crc32c:0x" + sum, true, nil},
		{"sha256", "sha256:" + sha, true, nil},
		{"lower-case hex", "crc32c:0x" + strings.ToLower(sum), false, nil},
		{"lower-case hex, strict", "crc32c:0x" + strings.ToLower(sum), true, tensor.ErrMalformed},
		{"0X", "crc32c:0X" + sum, false, nil},
		{"no 0x", "crc32c:" + sum, false, nil},
		{"no 0x, strict", "crc32c:" + sum, true, tensor.ErrMalformed},
		{"upper-case sha256", "sha256:" + strings.ToUpper(sha), false, nil},
		{"upper-case sha256, strict", "sha256:" + strings.ToUpper(sha), true, tensor.ErrMalformed},
		{"wrong", "crc32c:0x00000000", false, tensor.ErrChecksum},
		{"wrong sha256", "sha256:" + strings.Repeat("0", 64), false, tensor.ErrChecksum},
		{"seven digits", "crc32c:0x" + sum[1:], false, tensor.ErrChecksum},
		{"nine digits", "crc32c:0x0" + sum, false, tensor.ErrMalformed},
		{"a space behind it", "crc32c:0x" + sum + " ", false, tensor.ErrMalformed},
		{"a sign", "crc32c:0x+" + sum[1:], false, tensor.ErrMalformed},
		{"no digits", "crc32c:0x", false, tensor.ErrMalformed},
		{"63 digits", "sha256:" + sha[1:], false, tensor.ErrMalformed},
		{"sha256 with 0x", "sha256:0x" + sha, false, tensor.ErrMalformed},
		{"no value", "crc32c:", false, tensor.ErrMalformed},
		{"no colon", "crc32c", false, tensor.ErrMalformed},
		{"no algorithm", ":" + sum, false, tensor.ErrMalformed},
		{"an unknown algorithm", "md5:" + sum, false, errors.ErrUnsupported},
		{"another case of the algorithm", "CRC32C:0x" + sum, false, errors.ErrUnsupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := good12(set("digest", c.digest))
			r, err := OpenBytes(data, &ReaderOptions{Strict: c.strict}) // never judged at open
			if err != nil {
				t.Fatal(err)
			}
			w := r.Tensor("w")
			if st, _ := w.Data.Stored(); st.Digest != c.digest {
				t.Errorf("shown as %q", st.Digest)
			}
			report, err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: c.strict})
			if c.want == nil && err != nil || !errors.Is(err, c.want) {
				t.Errorf("Verify: %v, want %v", err, c.want)
			}
			if c.want != nil && !strings.HasSuffix(report.Findings[0].Field, ".digest") {
				t.Errorf("field %q", report.Findings[0].Field)
			}
			// A stream checks it before its end, unless it cannot be checked at all.
			in, err := w.Data.Open()
			if err == nil {
				_, err = io.Copy(io.Discard, in)
			}
			if strictOnly := c.strict && errors.Is(c.want, tensor.ErrMalformed); !strictOnly &&
				!errors.Is(c.want, errors.ErrUnsupported) && !errors.Is(err, c.want) {
				t.Errorf("Open: %v, want %v", err, c.want)
			}
		})
	}
	t.Run("an empty digest", func(t *testing.T) {
		r, err := OpenBytes(good12(set("digest", "")), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Verify(t.Context(), nil); !errors.Is(err, tensor.ErrMalformed) {
			t.Error(err)
		}
	})
}

// A strict reader checks the digest whenever bytes are read, views included.
func TestStrictReadersCheckDigests(t *testing.T) {
	data := good12(set("digest", "crc32c:0x00000000"))
	apiWith(&ReaderOptions{Strict: true}).Each(t, data, func(t *testing.T, r *Reader) {
		w := r.Tensor("w")
		if _, err := tensor.View[float32](w); !errors.Is(err, tensor.ErrChecksum) &&
			(le.HostIsLittle || !errors.Is(err, tensor.ErrNoView)) {
			t.Errorf("View: %v", err)
		}
		if _, err := tensor.Load[float32](w); !errors.Is(err, tensor.ErrChecksum) {
			t.Errorf("Load: %v", err)
		}
		if _, err := w.Data.ReadAt(make([]byte, 1), 0); !errors.Is(err, tensor.ErrChecksum) {
			t.Errorf("ReadAt: %v", err)
		}
	})
	api.Each(t, data, func(t *testing.T, r *Reader) {
		if _, err := tensor.Load[float32](r.Tensor("w")); err != nil {
			t.Errorf("Load: %v", err)
		}
	})
}
