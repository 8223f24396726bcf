package convert

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

// Writes random files of every format, converted to every other, into the directory
// $TENSORFILE_CONVERSIONS, and what a reader of the target is to find in each: for
// interop/convert.sh.
func TestConversionsForReferencesAreWritten(t *testing.T) {
	dir := os.Getenv("TENSORFILE_CONVERSIONS")
	if dir == "" {
		t.Skip("writes files for interop/convert.sh: set TENSORFILE_CONVERSIONS to a directory")
	}
	type row struct {
		Name   string  `json:"name"`
		DType  string  `json:"dtype"`
		Shape  []int64 `json:"shape"`
		SHA256 string  `json:"sha256"`
	}
	for _, from := range append(forms(), form{tensorfile.PTE, ""}) {
		for _, to := range forms() {
			r := rand.New(rand.NewPCG(11, uint64(from.format)<<8|uint64(to.format)))
			many := to.caps().MaxTensors != 1
			c := randomContents(r, from, many)
			for many && from.caps().MaxTensors != 1 && len(c.tensors) < 4 {
				c = randomContents(r, from, many)
			}
			// whose runtime dies when asked for the layout of a blob
			if to.format == tensorfile.PTD {
				c.blobs = nil
			}
			for _, x := range c.tensors { // at which some references end a name
				x.Name = strings.ReplaceAll(x.Name, "\x00", "")
			}
			// whose readers know no layout but dense and sparse
			if to.format == tensorfile.ZTensor && to.version == "1.0" {
				c.tensors = slices.DeleteFunc(c.tensors, func(x *tensor.Tensor) bool {
					return !x.Dense() && x.Scheme != sparse.CSR && x.Scheme != sparse.COO
				})
			}
			src := c.file(t, from)
			p := planOf(t, src, to)
			if to.format == tensorfile.NPY && len(p.items) == 0 {
				continue
			}
			narrowed := map[string]bool{}
			for _, l := range p.Losses() {
				if l.Kind == LossNarrow {
					narrowed[l.Field] = true
				}
			}
			rows := []row{}
			for i := range p.items {
				it := &p.items[i]
				if narrowed[fieldOf(it.src)] || !it.t.Dense() {
					continue
				}
				x, err := it.src, error(nil)
				if !x.Dense() {
					x, err = sparse.Densify(t.Context(), x, nil)
				}
				if err == nil && x.DType != it.t.DType {
					x, err = tensor.As(x, it.t.DType)
				}
				if err != nil {
					t.Fatal(err)
				}
				b := rowMajor(t, x)
				shape := append([]int64{}, it.t.Shape...)
				rows = append(rows,
					row{it.t.Name, it.t.DType.String(), shape,
						fmt.Sprintf("%x", sha256.Sum256(b))})
			}
			name := filepath.Join(dir, from.String()+" to "+to.String())
			if err := p.WriteFile(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(map[string]any{"tensors": slices.Clip(rows),
				"complete": true})
			if err == nil {
				err = os.WriteFile(name+".json", text, 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
