package ztensor

import (
	"io"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// Every cut and every bit of every golden. Where a digest
// covers the byte, no change passes unseen. TENSORFILE_FULL=1 takes all files;
// without it those above 1 KiB have every 61st bit turned over.
func TestEveryTruncationAndBitFlipIsFound(t *testing.T) {
	var meta, padding, data readtest.Toll
	unseen := 0
	for _, g := range goldens(t, version1...) {
		step := readtest.Stride()
		if len(g.data) > 1<<10 && !full() {
			step = max(step, 61)
		}
		for n := 0; n < len(g.data); n += step {
			_, err := OpenBytes(g.data[:n:n], nil)
			switch {
			case err != nil:
			case g.Version == "0.1" && n == 16: // an empty file of its own
			default:
				t.Errorf("%s cut after %d bytes opens", g.name, n)
			}
		}
		b := readtest.WithCanary(g.data)
		whole, err := OpenBytes(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		covers := make([]*core.Payload, len(b))
		for _, c := range whole.f.Payloads {
			for i := c.Offset; i < c.Offset+c.Length; i++ {
				covers[i] = c
			}
		}
		note := func(toll *readtest.Toll, err error) {
			if err == nil {
				toll.Accepted++
			} else {
				toll.Refused++
			}
		}
		for bit := 0; bit < 8*len(b); bit += step {
			at := bit / 8
			b[at] ^= 1 << (bit % 8)
			if c := covers[at]; c != nil {
				// A payload: whole reads the bytes as they are now.
				err := readtest.Survives(t, func() error {
					if c.Encoded() && c.DecodedSize >= 0 {
						c.Blob().ReadInto(make([]byte, c.DecodedSize))
					}
					_, err := io.Copy(io.Discard, c.OpenStored())
					return err
				}, "%s with bit %d turned over", g.name, bit)
				if c.Digest != "" && err == nil {
					unseen++
				}
				note(&data, err)
			} else {
				toll := &meta
				if at >= 8 && int64(at) < whole.f.ManifestAt {
					toll = &padding
				}
				note(toll, readtest.Survives(t, func() error {
					r, err := OpenBytes(b, nil)
					if err == nil {
						glance(r)
					}
					return err
				}, "%s with bit %d turned over", g.name, bit))
			}
			b[at] ^= 1 << (bit % 8)
		}
	}
	if unseen > 0 {
		t.Errorf("%d bits turned over under a digest, and nobody noticed", unseen)
	}
	// No digest covers what the manifest says of itself; this share may fall
	// and must not rise.
	t.Logf("metadata: %d damaged files, %.1f %% of which open; padding: %d, %.1f %%; payloads: %d, %.1f %% of which no digest can tell",
		meta.Accepted+meta.Refused, meta.Accepts(), padding.Accepted+padding.Refused,
		padding.Accepts(), data.Accepted+data.Refused, data.Accepts())
	if meta.Accepts() > 46 {
		t.Errorf("%.1f %% of damaged metadata is accepted", meta.Accepts())
	}
}

// glance looks at the metadata of everything.
func glance(r *Reader) {
	for ten := range r.Tensors() {
		ten.Check()
		ten.Size()
		r.Tensor(ten.Name)
		for _, v := range r.TensorAttributes(ten) {
			v.MarshalJSON()
		}
		ten.Data.Stored()
		ten.Data.Bytes()
		for _, p := range ten.Parts {
			p.Data.Stored()
		}
	}
	for range r.Attributes() {
	}
	r.Warnings()
}

// Every byte of the metadata set to values that break arithmetic.
func TestEveryByteOfTheMetadataIsChecked(t *testing.T) {
	for _, g := range goldens(t, version1...) {
		r, err := OpenBytes(g.data, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.f.ManifestSize > 1000 && !full() {
			continue
		}
		for i, b := range readtest.ByteSets(g.data, int(r.f.ManifestAt), len(g.data), 0x00, 0x1b,
			0x7f, 0x80, 0xbf, 0xff) {
			readtest.Survives(t, func() error {
				r, err := OpenBytes(b, nil)
				if err == nil {
					glance(r)
				}
				return err
			}, "%s with byte %d changed", g.name, i)
		}
	}
}
