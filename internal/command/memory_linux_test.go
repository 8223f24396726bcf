package command

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
)

// A conversion that dequantises takes little memory in a process of its own, the pages of
// its files included, whatever their size.
func TestDequantizeTakesLittleMemory(t *testing.T) {
	rows := int64(64 << 10) // 256 MiB of FP8
	if !readtest.Measuring() {
		rows = 1 << 10
	}
	dir := t.TempDir()
	in := filepath.Join(dir, "model.safetensors")
	f, err := os.Create(in)
	if err != nil {
		t.Fatal(err)
	}
	scale := fmt.Sprintf(`"a.weight_scale_inv":{"dtype":"F32","shape":[%d,32],`+
		`"data_offsets":[0,%d]}`, rows/128, rows)
	header := fmt.Sprintf(`{%s,"a.weight":{"dtype":"F8_E4M3","shape":[%d,4096],`+
		`"data_offsets":[%d,%d]}}`, scale, rows, rows, rows+rows*4096)
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	if _, err := f.Write(append(b, header...)); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(int64(8+len(header)) + rows + rows*4096); err != nil {
		t.Fatal(err)
	}
	f.Close()
	c := startChild(t, "convert", in, filepath.Join(dir, "out.safetensors"),
		"--dequantize=bfloat16")
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	peak := c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	if t.Logf("%d MiB", peak>>20); readtest.Measuring() && peak > 64<<20 {
		t.Errorf("%d MiB", peak>>20)
	}
}
