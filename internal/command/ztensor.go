package command

import (
	"context"
	"io"
	"strings"

	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// ptdLike are the options that write a file like r: its alignment. Entries that
// share their bytes do so again.
func ptdLike(r *ptd.Reader) *ptd.WriterOptions {
	return &ptd.WriterOptions{SegmentAlignment: r.Alignment()}
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
