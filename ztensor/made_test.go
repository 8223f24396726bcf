package ztensor

import (
	"encoding/binary"
	"fmt"

	fxcbor "github.com/fxamacker/cbor/v2"

	"github.com/tensorfile/tensorfile/ztensor/internal/v1"
)

// Files for tests that no writer would make. Keys are in the order of CBOR's
// deterministic encoding, which readers must not care about.

// Numbers and words of version 2, as its specification has them.
const (
	footerSize   = 40
	minAlignment = 4096
	maxFrame     = 16 << 20
	seekable     = "zt.zstd-seekable/1"
)

var deterministic = func() fxcbor.EncMode {
	m, err := fxcbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic(err)
	}
	return m
}()

func encode(v any) []byte {
	b, err := deterministic.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// data is n bytes that begin like a file of version 1, with 1, 2, 3, … from 64.
func data1(n int) []byte {
	b := append([]byte(v1.Magic1), make([]byte, n)...)[:n]
	for i := 64; i < n; i++ {
		b[i] = byte(i - 63)
	}
	return b
}

// file10 is a 1.0 file with this manifest behind its data, file12 one of 1.1 or
// 1.2. A manifest of bytes is taken as it is.
func file10(manifest any, data int) []byte { return footed(data1(data), manifest, false) }

func file12(manifest any, data int) []byte { return footed(data1(data), manifest, true) }

func footed(b []byte, manifest any, second bool) []byte {
	m, ok := manifest.([]byte)
	if !ok {
		m = encode(manifest)
	}
	b = binary.LittleEndian.AppendUint64(append(b, m...), uint64(len(m)))
	if second {
		b = append(b, v1.Magic1...)
	}
	return b
}

// with makes a map of more keys.
func with(m map[string]any, extra []any) map[string]any {
	for i := 0; i < len(extra); i += 2 {
		m[fmt.Sprint(extra[i])] = extra[i+1]
	}
	return m
}

func object12(format string, shape []any, components map[string]any, extra ...any) map[string]any {
	return with(map[string]any{"format": format, "shape": shape, "components": components}, extra)
}

func component12(dtype string, offset, length int, extra ...any) map[string]any {
	return with(map[string]any{"dtype": dtype, "offset": offset, "length": length}, extra)
}

func tensor10(dtype, format string, shape []any, components map[string]any,
	extra ...any) map[string]any {
	return with(map[string]any{"dtype": dtype, "format": format, "shape": shape,
		"components": components}, extra)
}

func component10(offset, length int, extra ...any) map[string]any {
	return with(map[string]any{"offset": offset, "length": length}, extra)
}

func manifest10(tensors map[string]any, extra ...any) map[string]any {
	return with(map[string]any{"version": "1.0", "generator": "test",
		"attributes": map[string]any{}, "tensors": tensors}, extra)
}

func manifest12(objects map[string]any, extra ...any) map[string]any {
	return with(map[string]any{"version": "1.2.0", "objects": objects}, extra)
}
