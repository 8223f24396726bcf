package command

import (
	"context"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

func ztensorView(r *ztensor.Reader) view {
	return view{
		facts:      func() object { return ztensorFacts(r) },
		attributes: func() object { return ztensorValues(r.AttributeValues()) },
		row: func(i int, t *tensor.Tensor, row *row) {
			if o := ztensorValues(r.TensorAttributes(t)); len(o) > 0 {
				row.extra.set("attributes", o)
			}
		},
		metadata: func() []span {
			offset, size := r.ManifestRange()
			if r.Version() == "2" {
				const footer = 40
				return []span{{0, 8, "magic"}, {offset, size, "manifest"}, {r.Size() - footer, footer, "footer"}}
			}
			// Before it a magic number, behind it its size, and since 1.1 the
			// magic number once more.
			return []span{{0, 8, "magic"}, {offset, size, "manifest"}, {offset + size, 24, "footer"}}
		},
	}
}

func ztensorFacts(r *ztensor.Reader) object {
	o := object{{"generator", nil}, {"digest", nil}}
	if g := r.Generator(); g != "" {
		o[0].value = g
	}
	// The algorithms in use, as the file spells them.
	var algorithms []string
	note := func(b tensor.Blob) {
		st, _ := b.Stored()
		if a, _, ok := strings.Cut(st.Digest, ":"); ok && !slices.Contains(algorithms, a) {
			algorithms = append(algorithms, a)
		}
	}
	for t := range r.Tensors() {
		note(t.Data)
		for i := range t.Parts {
			note(t.Parts[i].Data)
		}
	}
	if len(algorithms) > 0 {
		slices.Sort(algorithms)
		o[1].value = strings.Join(algorithms, ", ")
	}
	if r.Version() == "2" {
		o = append(o, identity(r)...)
	}
	return o
}

// identity is what version 2 has beside: the digest of the content, where every
// part has one, and the other files.
func identity(r *ztensor.Reader) object {
	o := object{{"content_digest", nil}}
	if d, err := r.ContentDigest(ztensor.SHA256); err == nil {
		o[0].value = d
	}
	shards := []object{}
	for s := range r.Shards() {
		shards = append(shards, object{{"name", s.Name}, {"size", s.Size}, {"digest", s.Digest}})
	}
	o.set("shards", shards)
	return o
}

func ztensorValues(all iter.Seq2[string, ztensor.Value]) object {
	o := object{}
	for k, v := range all {
		if s, ok := v.Text(); ok {
			o.set(k, s)
		} else {
			o.set(k, v)
		}
	}
	return o
}

// ztensorShards writes a file of version 2 as shards and their root called name.
// done is told how many bytes of data more have been taken up.
func ztensorShards(ctx context.Context, r *ztensor.Reader, name string, most int64, done func(int64)) ([]string, error) {
	o := ztensorLike(r)
	o.Attributes = map[string]any{}
	for k, v := range r.AttributeValues() {
		o.Attributes[k] = v
	}
	trial := ztensor.NewWriter(io.Discard, o.WholeFile())
	for t := range r.Tensors() {
		if trial.Check(t) != nil {
			o.KeepOrder = true // a name that is not in NFC has no place in canonical form
		}
	}
	return ztensor.WriteShards(ctx, name, tensor.Each(r.Tensors()), &ztensor.ShardOptions{
		Max:    most,
		Writer: o,
		TensorAttributes: func(t *tensor.Tensor) map[string]any {
			done(t.Size())
			own := map[string]any{}
			for k, v := range r.TensorAttributes(t) {
				own[k] = v
			}
			return own
		},
	})
}

// ztensorLike are the options that write a file like r: its version, its
// compression, its digests, as far as they are one for the whole file.
func ztensorLike(r *ztensor.Reader) *ztensor.WriterOptions {
	o := &ztensor.WriterOptions{Version: r.Version(), Generator: r.Generator()}
	for t := range r.Tensors() {
		blobs := []tensor.Blob{t.Data}
		for i := range t.Parts {
			blobs = append(blobs, t.Parts[i].Data)
		}
		for _, b := range blobs {
			st, _ := b.Stored()
			switch algorithm, _, _ := strings.Cut(st.Digest, ":"); algorithm {
			case "crc32c":
				o.Digest = ztensor.CRC32C
			case "sha256":
				if o.Version != "2" { // which writes xxh3 only
					o.Digest = ztensor.SHA256
				}
			}
			if strings.Contains(st.Encoding, "zstd") { // version 2 calls it zt.zstd-seekable/1
				o.Level = 3
			}
		}
	}
	return o
}
