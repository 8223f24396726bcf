package ztensor

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/v1"
)

// seeds are genuine files and those of the attack list, as far as they are
// small, whole and as their manifests alone: see framed.
func seeds(f *testing.F) {
	add := func(data []byte) {
		f.Add(data, uint8(0))
		r, err := OpenBytes(data, nil)
		if err != nil || r.f.Version == "2" {
			return
		}
		kind := map[string]uint8{"0.1": 1, "1.0": 2, "1.1": 3, "1.2": 3}[r.f.Version]
		f.Add(slices.Clone(data[r.f.ManifestAt:][:r.f.ManifestSize]), kind)
	}
	for _, g := range goldens(f) {
		if len(g.data) < 16<<10 {
			add(g.data)
		}
	}
	for _, a := range attacks() {
		if len(a.data) < 4<<10 {
			add(a.data)
		}
	}
}

// framed makes a file of what the fuzzer came up with: as it is, or as the
// manifest of a file of 0.1, 1.0 or 1.2, whose footer then fits.
func framed(data []byte, kind uint8) []byte {
	switch kind % 4 {
	case 1:
		return append([]byte(v1.Magic0), footed(data1(8<<10), data, false)[8:]...)
	case 2:
		return file10(data, 8<<10)
	case 3:
		return file12(data, 8<<10)
	}
	return data
}

// fuzzLimits keep an input from asking for more time than it is worth.
var fuzzLimits = tensor.Limits{MaxDecoded: 1 << 20, MaxTensors: 10_000}

// FuzzOpen opens and reads everything, in the default mode and in the strict one,
// from memory and from a reader, which have to agree.
func FuzzOpen(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte, kind uint8) {
		data = framed(data, kind)
		r, err := OpenBytes(data, &ReaderOptions{Limits: fuzzLimits})
		other, err2 := NewReader(bytes.NewReader(data), int64(len(data)),
			&ReaderOptions{Limits: fuzzLimits})
		if (err == nil) != (err2 == nil) {
			t.Fatalf("from memory %v, from a reader %v", err, err2)
		}
		strict, err3 := OpenBytes(data, &ReaderOptions{Strict: true, Limits: fuzzLimits})
		if err3 == nil && err != nil {
			t.Fatalf("strict opens, the default not: %v", err)
		}
		for _, r := range []*Reader{r, other, strict} {
			if r == nil {
				continue
			}
			walk(t, r)
			r.Verify(t.Context(), nil)
			r.Close()
		}
	})
}

// FuzzRoundTrip writes what it can read in both versions that are written, and reads it
// again.
func FuzzRoundTrip(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte, kind uint8) {
		r, err := OpenBytes(framed(data, kind), &ReaderOptions{Limits: fuzzLimits})
		if err != nil {
			return
		}
		for _, o := range []WriterOptions{{Version: "1.0", Digest: CRC32C}, {Version: "2"},
			{Version: "1.0", Digest: SHA256, Level: 1}} {
			var out bytes.Buffer
			w := NewWriter(&out, &o)
			kept := map[string]*tensor.Tensor{}
			for ten := range r.Tensors() {
				if ten.Size() > 1<<16 {
					continue
				}
				if err := w.Add(ten); err != nil {
					if err := w.Usable(); err != nil { // its data was not what it promised
						w = nil
						break
					}
					continue
				}
				kept[ten.Name] = ten // not the only one of that name in version 0.1
			}
			if w == nil {
				continue
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			back, err := OpenBytes(out.Bytes(), &ReaderOptions{Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := back.Verify(t.Context(),
				&tensor.VerifyOptions{Strict: true}); err != nil {
				t.Fatal(err)
			}
			if back.Len() != len(kept) {
				t.Fatalf("%d tensors of %d", back.Len(), len(kept))
			}
			for name, a := range kept {
				b := back.Tensor(name)
				if !a.Shape.Equal(b.Shape) || o.Version == "1.0" && a.Scheme != b.Scheme {
					t.Fatalf("%v became %v", a, b)
				}
				x, err := a.Data.ReadAll()
				y, err2 := b.Data.ReadAll()
				if !bytes.Equal(x, y) || errors.Join(err, err2) != nil {
					t.Fatalf("%d bytes became %d: %v, %v", len(x), len(y), err, err2)
				}
			}
		}
	})
}

// FuzzManifest holds the scanner against fxamacker/cbor: what one reads, the
// other reads alike.
func FuzzManifest(f *testing.F) {
	for _, g := range goldens(f, "1.0", "1.1", "1.2") {
		r, err := OpenBytes(g.data, nil)
		if err != nil {
			f.Fatal(err)
		}
		if r.f.ManifestSize < 4<<10 {
			f.Add(g.data[r.f.ManifestAt:][:r.f.ManifestSize], g.Version != "1.0")
		}
	}
	mode := plainMode(f)
	f.Fuzz(func(t *testing.T, manifest []byte, second bool) {
		r, err := OpenBytes(footed(data1(1<<16), manifest, second), nil)
		if err != nil {
			return
		}
		var m plainManifest
		rest, err := mode.UnmarshalFirst(manifest, &m)
		if err != nil {
			// What fxamacker refuses and we do not: nesting beyond its limit, dates
			// and bignums that are none, which we skip as what they are.
			return
		}
		if len(rest) > 0 && r.Version() != "1.2" {
			t.Fatalf("%d bytes behind the manifest were not noticed", len(rest))
		}
		list := m.Tensors
		if m.Objects != nil {
			list = m.Objects
		}
		if len(list) != r.Len() {
			t.Fatalf("%d tensors, fxamacker has %d", r.Len(), len(list))
		}
		for name, want := range list {
			ten := r.Tensor(name)
			if ten == nil || len(ten.Shape) != len(want.Shape) {
				t.Fatalf("tensor %q: %v, fxamacker has %v", name, ten, want.Shape)
			}
			for i, d := range want.Shape {
				if uint64(ten.Shape[i]) != d {
					t.Fatalf("tensor %q: %v, fxamacker has %v", name, ten.Shape, want.Shape)
				}
			}
			for role, c := range want.Components {
				b := ten.Data
				if p := ten.Part(role); p != nil {
					b = p.Data
				}
				st, _ := b.Stored()
				if c.Offset == nil || uint64(st.Offset) != *c.Offset ||
					uint64(st.Size) != *c.Length {
					t.Fatalf("tensor %q, %q: %+v, fxamacker has %v", name, role, st, c)
				}
				if c.Digest != nil && st.Digest != *c.Digest ||
					c.Encoding != nil && st.Encoding != *c.Encoding {
					t.Fatalf("tensor %q, %q: %+v, fxamacker has %v", name, role, st, c)
				}
			}
		}
	})
}
