package repotest

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/npz"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/torch"
)

// The functions up to the mark are the Go code of docs/coming-from.md that uses this
// module, word for word. interop/coming-from.sh runs the code of the other libraries and
// compares what it prints with the output of the examples below.

func describeGGUF(name string) error {
	r, err := gguf.Open(name, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	arch, _ := r.Value("general.architecture")
	fmt.Println(arch, r.Len())
	for t := range r.Tensors() {
		n, _ := t.Shape.Elements()
		fmt.Println(t.Name, n, t.Size())
	}
	return nil
}

func printWeight(name string) error {
	r, err := torch.Open(name, nil) // reads no weights, calls nothing
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := tensor.Convert[float32](r.Tensor("model.0.weight")) // any dtype, any strides
	if err != nil {
		return err
	}
	fmt.Println(w)
	return nil
}

func printScalar(name string) error {
	r, err := safetensors.Open(name, nil) // reads the header, maps the rest
	if err != nil {
		return err
	}
	defer r.Close()
	s, err := tensor.Load[float32](r.Tensor("s"))
	if err != nil {
		return err
	}
	fmt.Println(r.Len(), s[0])
	return nil
}

func listHeader(stream io.Reader, size int64) error {
	r, err := safetensors.ReadHeader(stream, size, nil)
	if err != nil {
		return err // malformed headers too, with byte and field
	}
	for t := range r.Tensors() {
		fmt.Println(t.Name, t.Shape, t.Size())
	}
	return nil
}

func saveAndSlice(name string) error {
	w := tensor.New("w", tensor.Shape{3, 2}, []float32{0, 1, 2, 3, 4, 5})
	if err := safetensors.Save(name, map[string]*tensor.Tensor{"w": w}); err != nil {
		return err
	}
	r, err := safetensors.Open(name, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	rows, err := tensor.Slice(r.Tensor("w"), tensor.Range{Start: 1, Stop: 3})
	if err != nil {
		return err
	}
	values, err := tensor.Convert[float32](rows) // reads two rows
	fmt.Println(rows.Shape, values)
	return err
}

func dequantizeAll(name string) error {
	r, err := gguf.Open(name, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	for t := range r.Tensors() {
		values, err := tensor.Convert[float32](t) // decodes blocks
		if err != nil {
			return err
		}
		fmt.Println(t.Name, t.Shape, len(values))
	}
	return nil
}

func listCheckpoint(name string) error {
	r, err := torch.Open(name, &torch.ReaderOptions{Strict: true}) // no unknown classes
	if err != nil {
		return err
	}
	defer r.Close()
	for t := range r.Tensors() {
		fmt.Println(t.Name, t.Shape, t.DType)
	}
	return nil
}

func sliceArchive(name string) error {
	w := tensor.New("w", tensor.Shape{2, 3}, []int32{0, 1, 2, 3, 4, 5})
	if err := npz.Save(name, map[string]*tensor.Tensor{"w": w}); err != nil {
		return err
	}
	all, err := npz.Load(name)
	if err != nil {
		return err
	}
	row, err := tensor.Slice(all["w"], tensor.At(1), tensor.Stride{Stop: tensor.End, Step: 2})
	if err != nil {
		return err
	}
	values, err := tensor.Load[int32](row)
	fmt.Println(row.Shape, values)
	return err
}

// end of docs/coming-from.md's code

func TestComingFromShowsTheseFunctions(t *testing.T) {
	testPageShows(t, "docs/coming-from.md", "internal/repotest/coming_from_test.go")
}

// inDir calls f with a name in a directory that is removed afterwards.
func inDir(base string, f func(name string) error) {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := f(filepath.Join(dir, base)); err != nil {
		fmt.Println(err)
	}
}

func printError(err error) {
	if err != nil {
		fmt.Println(err)
	}
}

func Example_describeGGUF() {
	printError(describeGGUF("testdata/gguf/quantised.gguf"))
	// Output:
	// llama 16
	// x.Q4_0 512 2048
	// q.Q4_0 512 288
	// x.Q4_1 512 2048
	// q.Q4_1 512 320
	// x.Q5_0 512 2048
	// q.Q5_0 512 352
	// x.Q5_1 512 2048
	// q.Q5_1 512 384
	// x.Q8_0 512 2048
	// q.Q8_0 512 544
	// x.TQ1_0 4096 16384
	// q.TQ1_0 4096 864
	// x.TQ2_0 4096 16384
	// q.TQ2_0 4096 1056
	// x.MXFP4 512 2048
	// q.MXFP4 512 272
}

func Example_printWeight() {
	printError(printWeight("testdata/torch/modules_state.pt"))
	// Output: [0.6289618 -0.22160392 0.15220752 -0.06048764]
}

func Example_printScalar() {
	printError(printScalar("testdata/safetensors/scalar-and-zero.safetensors"))
	// Output: 4 9.970642e-08
}

func Example_listHeader() {
	f, err := os.Open("testdata/safetensors/scalar-and-zero.safetensors")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		fmt.Println(err)
		return
	}
	printError(listHeader(f, fi.Size()))
	// Output:
	// z [0] 0
	// zz [3, 0, 2] 0
	// s [] 4
	// b [] 1
}

func Example_saveAndSlice() {
	inDir("model.safetensors", saveAndSlice)
	// Output: [2, 2] [2 3 4 5]
}

func Example_dequantizeAll() {
	printError(dequantizeAll("testdata/gguf/quantised.gguf"))
	// Output:
	// x.Q4_0 [16, 32] 512
	// q.Q4_0 [16, 32] 512
	// x.Q4_1 [16, 32] 512
	// q.Q4_1 [16, 32] 512
	// x.Q5_0 [16, 32] 512
	// q.Q5_0 [16, 32] 512
	// x.Q5_1 [16, 32] 512
	// q.Q5_1 [16, 32] 512
	// x.Q8_0 [16, 32] 512
	// q.Q8_0 [16, 32] 512
	// x.TQ1_0 [16, 256] 4096
	// q.TQ1_0 [16, 256] 4096
	// x.TQ2_0 [16, 256] 4096
	// q.TQ2_0 [16, 256] 4096
	// x.MXFP4 [16, 32] 512
	// q.MXFP4 [16, 32] 512
}

func Example_listCheckpoint() {
	printError(listCheckpoint("testdata/torch/dtypes.pt"))
	// Output:
	// float64 [6] float64
	// float32 [12] float32
	// float16 [24] float16
	// bfloat16 [24] bfloat16
	// int64 [6] int64
	// int32 [12] int32
	// int16 [24] int16
	// int8 [48] int8
	// uint8 [48] uint8
	// uint16 [24] uint16
	// uint32 [12] uint32
	// uint64 [6] uint64
	// complex32 [12] complex32
	// complex64 [6] complex64
	// complex128 [3] complex128
	// float8_e4m3fn [48] float8_e4m3fn
	// float8_e5m2 [48] float8_e5m2
	// float8_e4m3fnuz [48] float8_e4m3fnuz
	// float8_e5m2fnuz [48] float8_e5m2fnuz
	// float8_e8m0fnu [48] float8_e8m0fnu
	// bool [3] bool
}

func Example_sliceArchive() {
	inDir("arrays.npz", sliceArchive)
	// Output: [2] [3 5]
}
