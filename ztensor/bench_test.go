package ztensor

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	fxcbor "github.com/fxamacker/cbor/v2"
)

// skipScan walks over a CBOR item and checks nothing but that it is there: the
// least that anyone who looks at all of a manifest has to do.
func skipScan(b []byte, p, depth int) int {
	if p >= len(b) || depth > 32 {
		return -1
	}
	major, n := b[p]>>5, uint64(b[p]&31)
	p++
	switch {
	case n < 24:
	case n == 24 && p+1 <= len(b):
		n = uint64(b[p])
		p++
	case n == 25 && p+2 <= len(b):
		n = uint64(binary.BigEndian.Uint16(b[p:]))
		p += 2
	case n == 26 && p+4 <= len(b):
		n = uint64(binary.BigEndian.Uint32(b[p:]))
		p += 4
	case n == 27 && p+8 <= len(b):
		n = binary.BigEndian.Uint64(b[p:])
		p += 8
	default:
		return -1
	}
	switch major {
	case 0, 1, 7:
		return p
	case 2, 3:
		if n > uint64(len(b)-p) {
			return -1
		}
		return p + int(n)
	case 4, 5:
		if major == 5 {
			n *= 2
		}
		if n > uint64(len(b)-p) {
			return -1
		}
		for ; n > 0; n-- {
			if p = skipScan(b, p, depth+1); p < 0 {
				return -1
			}
		}
		return p
	}
	return -1
}

// plainList opens a file as one would with fxamacker/cbor, and lists it.
func plainList(b *testing.B, mode fxcbor.DecMode, path string, at, size int64) {
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	manifest := make([]byte, size)
	if _, err := f.ReadAt(manifest, at); err != nil {
		b.Fatal(err)
	}
	var m plainManifest
	if err := mode.Unmarshal(manifest, &m); err != nil {
		b.Fatal(err)
	}
	for _, tensors := range []map[string]plainTensor{m.Tensors, m.Objects} {
		for name, t := range tensors {
			data := t.Components["data"]
			listed += int64(len(name) + len(t.DType) + len(data.DType))
			listed += int64(t.Shape[0] + *data.Length)
		}
	}
}

// BenchmarkOpen compares opening by path, checking and listing with the same by
// fxamacker/cbor into structs, which checks nothing, and with a skip scan of the
// manifest. They take turns, and of each the best round counts: other work on the
// machine only ever adds.
func BenchmarkOpen(b *testing.B) {
	for _, version := range []string{"1.0", "2"} {
		for _, n := range []int{10, 1000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", version, n), func(b *testing.B) {
				data := manyTensors(b, n, &WriterOptions{Version: version, Digest: CRC32C})
				path := filepath.Join(b.TempDir(), "x.zt")
				if err := os.WriteFile(path, data, 0o666); err != nil {
					b.Fatal(err)
				}
				r, err := OpenBytes(data, nil)
				if err != nil {
					b.Fatal(err)
				}
				manifest := slices.Clone(data[r.f.ManifestAt:][:r.f.ManifestSize])
				at, size := r.f.ManifestAt, r.f.ManifestSize
				data, r = nil, nil
				mode := plainMode(b)
				best := [...]time.Duration{time.Hour, time.Hour, time.Hour}
				for b.Loop() {
					for i, f := range [...]func(){
						func() {
							r, err := Open(path, nil)
							if err != nil {
								b.Fatal(err)
							}
							list(r)
							r.Close()
						},
						func() {
							if skipScan(manifest, 0, 0) != len(manifest) {
								b.Fatal("malformed")
							}
						},
						func() { plainList(b, mode, path, at, size) },
					} {
						start := time.Now()
						f()
						best[i] = min(best[i], time.Since(start))
					}
				}
				b.ReportMetric(float64(best[0])/float64(n), "open-ns/tensor")
				b.ReportMetric(float64(best[1])/float64(n), "skip-ns/tensor")
				b.ReportMetric(float64(best[0])/float64(best[1]), "open/skip")
				b.ReportMetric(float64(best[0])/float64(best[2]), "open/fxamacker")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
