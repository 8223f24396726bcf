package convert

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// BenchmarkConvert is W6 of docs/performance.md: a .zt file of 1 GiB with
// digests into another format, digests verified, against io.Copy of the file.
func BenchmarkConvert(b *testing.B) {
	if testing.Short() {
		b.Skip("it writes files of 1 GiB")
	}
	dir := b.TempDir()
	in := filepath.Join(dir, "in.zt")
	data := make([]tensor.BFloat16, 4<<20)
	for i := range data {
		data[i] = tensor.BFloat16(uint32(i) * 2654435761 >> 7)
	}
	var ts []*tensor.Tensor
	for i := range 128 {
		ts = append(ts, tensor.New("layer"+string(rune('A'+i%26))+string(rune('a'+i/26)), tensor.Shape{2048, 2048}, data))
	}
	if err := ztensor.WriteFile(in, slices.Values(ts), &ztensor.WriterOptions{Digest: ztensor.CRC32C}); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(in)
	if err != nil {
		b.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	b.Run("io.Copy", func(b *testing.B) {
		b.SetBytes(info.Size())
		for b.Loop() {
			r, err := os.Open(in)
			if err != nil {
				b.Fatal(err)
			}
			w, err := os.Create(out)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(w, r); err != nil {
				b.Fatal(err)
			}
			if err := w.Sync(); err != nil { // WriteFile's is on the disk too
				b.Fatal(err)
			}
			r.Close()
			w.Close()
			os.Remove(out)
		}
	})
	for _, to := range []tensorfile.Format{tensorfile.PTD, tensorfile.Safetensors, tensorfile.ZTensor} {
		b.Run(to.String(), func(b *testing.B) {
			b.SetBytes(info.Size())
			b.ReportAllocs()
			for b.Loop() {
				f, err := tensorfile.Open(in, nil)
				if err != nil {
					b.Fatal(err)
				}
				p, err := NewPlan(f, to, nil)
				if err != nil {
					b.Fatal(err)
				}
				if err := p.WriteFile(b.Context(), out); err != nil {
					b.Fatal(err)
				}
				f.Close()
				os.Remove(out)
			}
		})
	}
}
