package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// ztensorFacts are the facts of a .zt; version 2 has all of them.
type ztensorFacts struct {
	Generator     *string     `json:"generator"`
	Digest        *string     `json:"digest"` // the algorithms in use, as the file spells them
	ContentDigest *string     `json:"content_digest,omitempty"`
	Shards        []shardFact `json:"shards,omitempty"`
}

type shardFact struct {
	Name   string   `json:"name"`
	Size   byteSize `json:"size"`
	Digest string   `json:"digest"`
}

func ztensorView(r *ztensor.Reader) view {
	return view{
		facts: func() any { return factsOfZTensor(r) },
		row: func(i int, t *tensor.Tensor, row *row) {
			for k, v := range r.TensorAttributes(t) {
				if s, ok := v.Text(); ok {
					row.attributes.add(k, s)
				} else {
					row.attributes.add(k, v)
				}
			}
		},
	}
}

func factsOfZTensor(r *ztensor.Reader) ztensorFacts {
	var f ztensorFacts
	if g := r.Generator(); g != "" {
		f.Generator = &g
	}
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
		all := strings.Join(algorithms, ", ")
		f.Digest = &all
	}
	if r.Version() != ztensor.Version2 {
		return f
	}
	if d, err := r.ContentDigest(ztensor.SHA256); err == nil {
		f.ContentDigest = &d
	}
	for s := range r.Shards() {
		f.Shards = append(f.Shards, shardFact{s.Name, byteSize(s.Size), fmt.Sprint(s.Digest)})
	}
	return f
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
