package ztensor

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
	"github.com/tensorfile/tensorfile/ztensor/internal/v2"
)

// The beginning and the end of a seek table (§8).
const (
	seekHeader = "\x5e\x2a\x4d\x18"
	seekMagic  = "\xb1\xea\x92\x8f"
)

// A pairList is a CBOR map in the order in which it is given, right or wrong.
type pairList []any // key, value, key, value

// A rawCBOR is an item as it is.
type rawCBOR string

func encodeCBOR(b []byte, v any) []byte {
	switch v := v.(type) {
	case rawCBOR:
		return append(b, v...)
	case string:
		return cbor.AppendText(b, v)
	case int:
		return cbor.AppendHead(b, cbor.Uint, uint64(v))
	case uint64:
		return cbor.AppendHead(b, cbor.Uint, v)
	case []any:
		b = cbor.AppendHead(b, cbor.Array, uint64(len(v)))
		for _, x := range v {
			b = encodeCBOR(b, x)
		}
		return b
	case pairList:
		b = cbor.AppendHead(b, cbor.Map, uint64(len(v)/2))
		for _, x := range v {
			b = encodeCBOR(b, x)
		}
		return b
	}
	panic(v)
}

// A made is a file of version 2 that a test takes to pieces. Its data is from
// 4096 on, 64 KiB of it, and the manifest behind that.
type made struct {
	manifest any
	raw      []byte // in place of manifest
	data     []byte // at 4096
	footer   func(f []byte)
	whole    func(b []byte) []byte
}

func (m made) file() []byte { return m.fileOf(4096 + 65536) }

// large is the file with as much room for data as there is.
func (m made) large() []byte { return m.fileOf(4096 + (len(m.data)+4095)&^4095) }

func (m made) fileOf(at int) []byte {
	b := append([]byte(v2.Magic2), make([]byte, at-8)...)
	copy(b[4096:], m.data)
	manifest := m.raw
	if manifest == nil {
		manifest = encodeCBOR(nil, m.manifest)
	}
	b = append(b, manifest...)
	f := binary.LittleEndian.AppendUint64(nil, uint64(at))
	f = binary.LittleEndian.AppendUint64(f, uint64(len(manifest)))
	f = binary.LittleEndian.AppendUint64(f, xxh3.Hash(manifest))
	f = append(binary.LittleEndian.AppendUint32(f, 2), 0, 0, 0, 0)
	f = append(f, v2.Magic2...)
	if m.footer != nil {
		m.footer(f)
	}
	b = append(b, f...)
	if m.whole != nil {
		b = m.whole(b)
	}
	return b
}

func objectsOf(objects ...any) made {
	return made{manifest: pairList{"objects",
		pairList(objects)}}
}

// object2Of is an object in the order of deterministic CBOR.
func object2Of(layout string, shape []any, parts ...any) pairList {
	return pairList{"parts", pairList(parts), "shape", shape, "layout", layout}
}

func partOf(dtype string, off, n any, extra ...any) pairList {
	return append(pairList{"blob", []any{off, n}, "dtype", dtype}, extra...)
}

func typedPart(typ, dtype string, off, n any) pairList {
	return pairList{"blob", []any{off, n}, "type", typ, "dtype", dtype}
}

// w4 is a float32 of four elements.
func w4() made {
	return objectsOf("w", object2Of("dense", []any{4}, "data", partOf("f32", 4096, 16)))
}

func attributesOf(v any) made {
	return made{manifest: pairList{"objects", pairList{}, "attributes", v}}
}

func csrOf(shape []any, indices, indptr, values pairList) made {
	return objectsOf("s", object2Of(layouts.CSR, shape, "indptr", indptr, "values", values,
		"indices", indices))
}

// goodCSR is [2,3] with values at (0,0), (0,2), (1,1).
func goodCSR() made {
	m := csrOf([]any{2, 3}, partOf("u32", 4096, 12), partOf("u32", 8192, 12),
		partOf("u8", 12288, 3))
	m.data = csrData([]uint32{0, 2, 1}, []uint32{0, 2, 3})
	return m
}

func csrData(indices, indptr []uint32) []byte {
	b := make([]byte, 12288-4096)
	for i, x := range indices {
		binary.LittleEndian.PutUint32(b[4*i:], x)
	}
	for i, x := range indptr {
		binary.LittleEndian.PutUint32(b[4096+4*i:], x)
	}
	return b
}

func withData(m made, data []byte) made {
	m.data = data
	return m
}

func withFooter(m made, f func(f []byte)) made {
	m.footer = f
	return m
}

func withRaw(raw string) made { return made{raw: []byte(raw)} }

func deepArray(n int, inner string) rawCBOR { return rawCBOR(strings.Repeat("\x81", n) + inner) }

func shards(name string, size any, off int) made {
	return made{manifest: pairList{
		"shards", pairList{name, pairList{"size", size, "digest", "xxh3:00"}},
		"objects", pairList{"w",
			object2Of("dense", []any{1}, "data",
				pairList{"blob", []any{off, 1}, "dtype", "u8", "shard", name})},
	}}
}

func ones(n int) []any {
	dims := make([]any, n)
	for i := range dims {
		dims[i] = 1
	}
	return dims
}

func seekPart(stored []byte, size int) made {
	m := objectsOf("w", object2Of("dense", []any{size}, "data",
		pairList{"blob", []any{4096, len(stored)}, "dtype", "u8", "encoding", seekable,
			"decoded_length", size}))
	m.data = stored
	return m
}

// seekBlob is frames with a table that says of them what it is told to.
func seekBlob(frames [][]byte, sizes []int, extra ...byte) []byte {
	var b, table []byte
	for i, f := range frames {
		b = append(b, f...)
		table = binary.LittleEndian.AppendUint32(table, uint32(len(f)))
		table = binary.LittleEndian.AppendUint32(table, uint32(sizes[i]))
	}
	b = binary.LittleEndian.AppendUint32(append(b, seekHeader...), uint32(len(table)+9))
	b = binary.LittleEndian.AppendUint32(append(b, table...), uint32(len(frames)))
	return append(append(append(b, 0), seekMagic...), extra...)
}

func zframe(t *testing.T, b []byte, crc bool) []byte {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(crc))
	if err != nil {
		t.Fatal(err)
	}
	return e.EncodeAll(b, nil)
}

// keepsRule opens and verifies two files: bad breaks that rule, good does not.
func keepsRule(t *testing.T, name string, bad, good made, o *ReaderOptions) {
	t.Helper()
	open := func(m made) error {
		r, err := OpenBytes(m.file(), o)
		if err != nil {
			return err
		}
		report, err := r.Verify(t.Context(), nil)
		if len(r.f.Shards) > 0 && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		for _, f := range report.Findings {
			if f.Class != tensor.ClassUnsupported && f.Severity == tensor.SeverityError {
				return f.Err
			}
		}
		return nil
	}
	err := open(bad)
	var broken *rule.Error
	var fe *tensor.FormatError
	if !errors.As(err, &broken) || broken.Rule != name {
		t.Errorf("%v, not the rule %s", err, name)
	} else if !errors.As(err, &fe) || fe.Format != string(core.Errs) ||
		tensor.ClassOf(err) != tensor.ClassMalformed &&
			tensor.ClassOf(err) != tensor.ClassChecksum {
		t.Errorf("%v is no format error, or of another class: %v", err, tensor.ClassOf(err))
	}
	if err := open(good); err != nil {
		t.Errorf("repaired: %v", err)
	}
}

func FuzzVersion2(f *testing.F) {
	for _, g := range goldens(f, "2") {
		if len(g.data) < 1<<20 {
			f.Add(g.data)
		}
	}
	f.Add(goodCSR().file())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > v2.MinSize { // most mutations would only break the hash
			at, n := binary.LittleEndian.Uint64(b[len(b)-40:]),
				binary.LittleEndian.Uint64(b[len(b)-32:])
			if at < uint64(len(b)) && n <= uint64(len(b))-at {
				binary.LittleEndian.PutUint64(b[len(b)-24:], xxh3.Hash(b[at:at+n]))
			}
		}
		r, err := OpenBytes(b, &ReaderOptions{Limits: tensor.Limits{MaxDecoded: 1 << 20}})
		if err != nil {
			return
		}
		r.Verify(t.Context(), nil)
		r.ContentDigest(XXH3)
		r.CanonicalViolations(t.Context())
		for x := range r.Tensors() {
			if r.Tensor(x.Name) != x {
				t.Errorf("%q is not found", x.Name)
			}
			for _, p := range core.PayloadsOf(x) {
				if s, err := p.Blob().Open(); err == nil {
					io.Copy(io.Discard, io.LimitReader(s, 1<<20))
					s.Close()
				}
			}
		}
	})
}
