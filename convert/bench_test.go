package convert

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// BenchmarkConvert converts a .zt file of 1 GiB with
// digests into another format, digests verified, in turns with io.Copy of the file.
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
		ts = append(ts, tensor.New("layer"+string(rune('A'+i%26))+string(rune('a'+i/26)),
			tensor.Shape{2048, 2048}, data))
	}
	if err := ztensor.WriteFile(b.Context(), in, tensor.Of(ts...),
		&ztensor.WriterOptions{Version: "1.0", Digest: ztensor.CRC32C}); err != nil {
		b.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	var turns []readtest.Turn
	for _, to := range []tensorfile.Format{tensorfile.PTD, tensorfile.Safetensors,
		tensorfile.ZTensor} {
		turns = append(turns, readtest.Turn{Name: to.String(), Do: func() {
			f, err := tensorfile.Open(in, nil)
			check(err)
			p, err := NewPlan(b.Context(), f, to, nil)
			check(err)
			check(p.WriteFile(b.Context(), out))
			f.Close()
			os.Remove(out)
		}})
	}
	readtest.InTurns(b, func() {
		r, err := os.Open(in)
		check(err)
		w, err := os.Create(out)
		check(err)
		_, err = io.Copy(w, r)
		check(err)
		check(w.Sync()) // WriteFile's is on the disk too
		r.Close()
		w.Close()
		os.Remove(out)
	}, turns...)
}
