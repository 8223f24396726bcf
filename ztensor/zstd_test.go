package ztensor

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/v1"
)

// zstdOf makes one frame, as upstream does: without a content size, unless sized.
func zstdOf(t testing.TB, b []byte, opts ...zstd.EOption) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out,
		append([]zstd.EOption{zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true)},
			opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	for len(b) > 0 { // not in one call: that would write a content size
		n := min(len(b), 1<<20)
		z.Write(b[:n])
		z.Flush()
		b = b[n:]
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// zipped is a 1.2 file of one u8 tensor whose stored bytes are these.
func zipped(stored []byte, elements int64, extra ...any) []byte {
	b := append(append([]byte(v1.Magic1), make([]byte, 56)...), stored...)
	m := manifest12(map[string]any{"w": object12("dense", []any{elements},
		map[string]any{"data": component12("u8", 64, len(stored),
			append([]any{"encoding", "zstd"}, extra...)...)})})
	return footed(b, m, true)
}

// Zstd. Each is read as a whole, as a stream, and in the middle, from
// memory and from a reader.
func TestZstdAttacksAreBounded(t *testing.T) {
	content := noise(100_000, 1)
	n := int64(len(content))
	frame := zstdOf(t, content)
	bomb := zstdOf(t, make([]byte, 64<<20))
	flipped := slices.Clone(frame)
	flipped[len(flipped)/2] ^= 4
	skippable := append([]byte{0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0}, 1, 2, 3, 4)
	window := func(log byte, rest ...byte) []byte {
		return append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, (log - 10) << 3}, rest...)
	}
	empty := []byte{1, 0, 0} // the last block, raw, of no bytes
	for _, c := range []struct {
		name string
		data []byte
		want error
	}{
		{"a frame", zipped(frame, n), nil},
		{"two frames", zipped(append(zstdOf(t, content[:n/3]), zstdOf(t, content[n/3:])...), n),
			nil},
		{"a frame behind a skippable one", zipped(append(skippable, frame...), n), nil},
		{"a frame before a skippable one", zipped(append(slices.Clone(frame), skippable...), n),
			nil},
		{"nothing as nothing", zipped(nil, 0), nil},
		{"an empty frame", zipped([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0}, 0), nil},
		{"a large window that is not used", zipped(window(27, empty...), 0), nil},
		{"nothing as something", zipped(nil, n), tensor.ErrMalformed},
		{"too short", zipped(frame, n+1), tensor.ErrMalformed},
		{"too long", zipped(frame, n-1), tensor.ErrMalformed},
		{"too short for uncompressed_length", zipped(frame, n+1, "uncompressed_length", n+1),
			tensor.ErrMalformed},
		{"a bomb of 64 MiB", zipped(bomb, 1000), tensor.ErrMalformed},
		{"truncated", zipped(frame[:len(frame)/2], n), tensor.ErrMalformed},
		{"a header alone", zipped(frame[:6], n), tensor.ErrMalformed},
		{"three bytes", zipped(frame[:3], n), tensor.ErrMalformed},
		{"not zstd", zipped(content[:1000], n), tensor.ErrMalformed},
		{"garbage behind the frame", zipped(append(slices.Clone(frame), 1, 2, 3, 4, 5), n),
			tensor.ErrMalformed},
		{"a bit turned over", zipped(flipped, n), errAny},
		{"a window of 1 GiB", zipped(window(30, empty...), 0), tensor.ErrLimit},
		{"a window of 2 TiB", zipped(window(41, empty...), 0), tensor.ErrLimit},
		{"a content size of 1 TiB in 15 bytes",
			zipped(append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 1, 0, 0}, empty...),
				1<<40), errAny},
		{"a dictionary", zipped([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x21, 7, 0, 1, 0, 0}, 0), errAny},
		{"a reserved block", zipped(window(20, 7, 0, 0), 1), tensor.ErrMalformed},
		{"a block that claims 2 MiB", zipped(window(20, 3, 0, 0xff), 1<<21), errAny},
		{"another encoding", zipped(frame, n, "encoding", "lz4"), errors.ErrUnsupported},
		{"an empty encoding", zipped(frame, n, "encoding", ""), errors.ErrUnsupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			api.Each(t, c.data, func(t *testing.T, r *Reader) {
				b := r.Tensor("w").Data
				check := func(how string, got []byte, err error) {
					t.Helper()
					switch {
					case c.want == nil &&
						(err != nil || len(got) > 0 && !bytes.Equal(got, content)):
						t.Errorf("%s: %d bytes, %v", how, len(got), err)
					case c.want == errAny && err == nil,
						c.want != nil && c.want != errAny && !errors.Is(err, c.want):
						t.Errorf("%s: %v, want %v", how, err, c.want)
					}
				}
				if size := b.Size(); size >= 0 && size < 1<<30 {
					p := make([]byte, size)
					check("ReadInto", p, b.ReadInto(p))
				}
				all, err := b.ReadAll()
				check("ReadAll", all, err)
				if in, err := b.Open(); err != nil {
					check("Open", nil, err)
				} else {
					all, err := io.ReadAll(in)
					check("Open", all, err)
					in.Close()
				}
				_, v := r.Verify(t.Context(), nil)
				check("Verify", nil, v)
			})
		})
	}
}

// errAny stands for an error of any class.
var errAny = errors.New("any error")

// The reader of 1.0.0 unpacks 256 MiB that hide in 8 KB of a sparse part,
// whose size nothing gives.
func TestSparseBombsWithoutSizeAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("long where the machine is emulated or races are looked for")
	}
	// blocks of one repeated byte, 128 KiB each
	bomb := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 10 << 3}
	for i := range 2048 {
		head := uint32(128<<10)<<3 | 1<<1
		if i == 2047 {
			head |= 1
		}
		bomb = append(bomb, byte(head), byte(head>>8), byte(head>>16), 0)
	}
	b := append(append([]byte(v1.Magic1), make([]byte, 56)...), bomb...)
	part := component10(64, len(bomb), "encoding", "zstd")
	data := footed(b, manifest10(map[string]any{"w": tensor10("uint8", "sparse_coo", []any{3},
		map[string]any{"values": part, "coords": part})}), false)
	api.Each(t, data, func(t *testing.T, r *Reader) {
		peak := readtest.PeakHeap(func() {
			for _, p := range r.Tensor("w").Parts {
				if p.Data.Size() != -1 {
					t.Errorf("size %d of a part whose size nothing shows", p.Data.Size())
				}
				if _, err := p.Data.ReadAll(); !errors.Is(err, tensor.ErrLimit) {
					t.Errorf("%v", err)
				}
			}
			if _, err := r.Verify(t.Context(), nil); !errors.Is(err, tensor.ErrLimit) {
				t.Errorf("Verify: %v", err)
			}
		})
		if peak > 128<<20 {
			t.Errorf("%d MiB for %d bytes", peak>>20, len(bomb))
		}
	})
}
