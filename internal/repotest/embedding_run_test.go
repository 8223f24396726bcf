package repotest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// The functions of embedding_test.go are run here.

func Example_loadWeights() {
	f := tensorfile.FromTensors([]*tensor.Tensor{
		tensor.New("a", tensor.Shape{2},
			[]tensor.BFloat16{tensor.NewBFloat16(1), tensor.NewBFloat16(2)}),
		tensor.New("b", tensor.Shape{1}, []int64{3}),
	}, nil)
	weights, err := loadWeights(context.Background(), f)
	fmt.Println(weights, err)
	// Output: map[a:[1 2] b:[3]] <nil>
}

func Example_resume() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "checkpoint.safetensors")
	fmt.Println(resume(context.Background(), name))
	step := map[string]*tensor.Tensor{"step": tensor.New("step", nil, []int32{7})}
	fmt.Println(safetensors.Save(name, step))
	fmt.Println(resume(context.Background(), name))
	_, err = resume(context.Background(), "testdata/safetensors/rank8.safetensors")
	fmt.Println(errors.Is(err, tensor.ErrNoTensor))
	step["step"] = tensor.New("step", tensor.Shape{2}, []int32{7, 8})
	fmt.Println(safetensors.Save(name, step))
	fmt.Println(resume(context.Background(), name))
	// Output:
	// 0 <nil>
	// <nil>
	// 7 <nil>
	// true
	// <nil>
	// 0 step has the shape [2]
}

// A checkpoint whose writer was killed after it had removed the old index.
func TestResumeCompletesASet(t *testing.T) {
	dir, newer := t.TempDir(), t.TempDir()
	ts := func(step int32) []*tensor.Tensor {
		return []*tensor.Tensor{tensor.New("step", nil, []int32{step}),
			tensor.New("w", tensor.Shape{100}, make([]float32, 100))}
	}
	write := func(dir string, step int32) []string {
		files, err := safetensors.WriteShards(t.Context(), filepath.Join(dir, "m.safetensors"),
			tensor.Of(ts(step)...), &safetensors.ShardOptions{MaxSize: 100})
		if err != nil || len(files) != 3 {
			t.Fatal(files, err)
		}
		return files
	}
	index := write(dir, 7)[2]
	if err := os.Remove(index); err != nil {
		t.Fatal(err)
	}
	journal := fmt.Sprintf("tensorfile journal 1\nindex %q\n", filepath.Base(index))
	for _, file := range write(newer, 8) {
		name, temp := filepath.Base(file), "."+filepath.Base(file)+".tensorfile-tmp-0000000000001"
		if err := os.Rename(file, filepath.Join(dir, temp)); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(filepath.Join(dir, temp))
		if err != nil {
			t.Fatal(err)
		}
		journal += fmt.Sprintf("rename %q %q %d\n", temp, name, fi.Size())
	}
	journalName := filepath.Join(dir, "."+filepath.Base(index)+".tensorfile-journal")
	if err := os.WriteFile(journalName, []byte(journal+"end\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if step, err := resume(t.Context(), index); err != nil || step != 8 {
		t.Errorf("step %d, %v", step, err)
	}
	// A set that has lost a piece is an error, not a beginning from step 0.
	if err := os.Remove(index); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(journalName, []byte(journal+"end\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if step, err := resume(t.Context(), index); err == nil {
		t.Errorf("step %d of a set that is lost", step)
	}
}

func Example_layerSummary() {
	b, err := os.ReadFile("testdata/safetensors/rank8.safetensors")
	if err != nil {
		fmt.Println(err)
		return
	}
	header := bytes.NewReader(b[:80]) // the data have not arrived
	fmt.Println(layerSummary(header, int64(len(b))))
	// Output: safetensors: 1 tensors, 16 parameters, 32 bytes, uint16 32 <nil>
}

func Example_upload() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Println(r.Method, r.ContentLength == int64(len(b)))
		if r.URL.Path == "/full" {
			w.WriteHeader(http.StatusInsufficientStorage)
		}
	}))
	defer server.Close()
	weights := map[string]*tensor.Tensor{"w": tensor.New("w", tensor.Shape{2}, []float32{1, 2})}
	fmt.Println(upload(context.Background(), server.URL, weights))
	fmt.Println(upload(context.Background(), server.URL+"/full", weights))
	// Output:
	// PUT true
	// <nil>
	// PUT true
	// upload: 507 Insufficient Storage
}

func Example_section() {
	f, err := tensorfile.Open("testdata/safetensors/rank8.safetensors", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	r, err := section(f, "r")
	if err != nil {
		fmt.Println(err)
		return
	}
	var head [2]byte
	_, err = r.ReadAt(head[:], 30)
	fmt.Println(r.Size(), head, err)
	// Output: 32 [62 129] <nil>
}

func Example_httpStatus() {
	_, err := tensorfile.OpenBytes([]byte("{}"), nil)
	fmt.Println(httpStatus(err))
	// Output: 422
}

func Example_refuseDamaged() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	index := `{"metadata": {}, "weight_map": {"w": "model-00001-of-00001.safetensors"}}`
	name := filepath.Join(dir, "model.safetensors.index.json")
	if err := os.WriteFile(name, []byte(index), 0o666); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(refuseDamaged(context.Background(), dir) != nil)
	// Output:
	// error: "model-00001-of-00001.safetensors": missing-shard: named by model.safetensors.index.json for 1 tensor
	// true
}

func Example_integers() {
	f, err := tensorfile.Open("testdata/ztensor/crate-1.2.3-digests.zt", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	xs, err := integers(f, "int64 crc32c")
	fmt.Println(len(xs), err)
	// Output: 7 <nil>
}

func Example_scan() {
	b, err := os.ReadFile("testdata/ztensor/crate-1.2.3-digests.zt")
	if err != nil {
		fmt.Println(err)
		return
	}
	b[70] ^= 1
	fmt.Println(scan(context.Background(), bytes.NewReader(b), int64(len(b))) != nil)
	// Output:
	// checksum 64 objects["float32 crc32c"].components["data"].digest
	// true
}

func Example_changed() {
	tensors := func(v float32) *tensorfile.File {
		return tensorfile.FromTensors([]*tensor.Tensor{
			tensor.New("w", tensor.Shape{2}, []float32{1, v}),
			tensor.New("same", tensor.Shape{1}, []float32{1}),
		}, nil)
	}
	if err := changed(context.Background(), tensors(0), tensors(1)); err != nil {
		fmt.Println(err)
	}
	// Output: w 1 0.7071067811865476 0.7071067811865475
}

func Example_rows() {
	data := make([]tensor.BFloat16, 30*4)
	for i := range data {
		data[i] = tensor.NewBFloat16(float32(i))
	}
	xs, stats, err := rows(context.Background(), tensor.New("w", tensor.Shape{30, 4}, data))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(xs), xs[0], stats.Max, stats.Quantiles[1].Value)
	// Output: 40 40 119 59
}

func Example_save() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "out.zt")
	if err := save(name, bytes.NewReader(make([]byte, 2*1024*64))); err != nil {
		fmt.Println(err)
	}
	f, err := tensorfile.Open(name, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	fmt.Println(f.Summary())
	fmt.Println(toPTD(context.Background(), f, filepath.Join(dir, "out.ptd")))
	r, err := ptd.Open(filepath.Join(dir, "out.ptd"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	fmt.Println(r.Len())
	// Output:
	// ztensor 2: 2 tensors, 65540 parameters, 131088 bytes, float16 131072, float32 16
	// <nil>
	// 2
}

func Example_listRemote() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := os.ReadFile("testdata/ztensor/crate-1.2.3-digests.zt")
		http.ServeContent(w, r, "model.zt", time.Time{}, bytes.NewReader(b))
	}))
	defer server.Close()
	if err := listRemote(context.Background(), server.URL+"/model.zt"); err != nil {
		fmt.Println(err)
	}
	// Output: ztensor 8 2
}

func Example_program() {
	if err := program("testdata/pte/export-1.5.1-linear.pte"); err != nil {
		fmt.Println(err)
	}
	// Output: forward [float32[4, 3]] [float32[4, 2]] [aten::permute_copy.out aten::addmm.out]
}

func Example_wholeModel() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	name, zeros := filepath.Join(dir, "model.safetensors"), make([]float32, 100)
	tensors := tensor.Of(tensor.New("a", tensor.Shape{100}, zeros),
		tensor.New("b", tensor.Shape{100}, zeros))
	_, err = safetensors.WriteShards(context.Background(), name, tensors,
		&safetensors.ShardOptions{MaxSize: 400})
	fmt.Println(err)
	fmt.Println(wholeModel(dir))
	fmt.Println(os.Remove(filepath.Join(dir, "model-00002-of-00002.safetensors")))
	fmt.Println(wholeModel(dir) != nil)
	// Output:
	// <nil>
	// 2 200
	// <nil>
	// <nil>
	// true
}

func TestMergeLoRAAddsTheScaledProduct(t *testing.T) {
	bf16 := func(xs ...float32) []tensor.BFloat16 {
		out := make([]tensor.BFloat16, len(xs))
		for i, x := range xs {
			out[i] = tensor.NewBFloat16(x)
		}
		return out
	}
	base := tensorfile.FromTensors([]*tensor.Tensor{
		tensor.New("q.weight", tensor.Shape{2, 3}, bf16(1, 2, 3, 4, 5, 6)),
		tensor.New("norm.weight", tensor.Shape{2}, bf16(7, 8)),
	}, nil)
	adapter := func(a ...float32) *tensorfile.File {
		const stem = "base_model.model.q.lora_"
		return tensorfile.FromTensors([]*tensor.Tensor{
			tensor.New(stem+"A.weight", tensor.Shape{1, int64(len(a))}, a),
			tensor.New(stem+"B.weight", tensor.Shape{2, 1}, []float32{1, -1}),
		}, nil)
	}
	name := filepath.Join(t.TempDir(), "merged.safetensors")
	if err := mergeLoRA(t.Context(), base, adapter(1, 0, 2), 0.5, name); err != nil {
		t.Fatal(err)
	}
	all, err := safetensors.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string][]float32{
		"q.weight":    {1.5, 2, 4, 3.5, 5, 5}, // w + 0.5 * b·a
		"norm.weight": {7, 8},
	} {
		got, err := tensor.Convert[float32](all[key])
		if err != nil || !slices.Equal(got, want) || all[key].DType != tensor.BF16 {
			t.Errorf("%s: %v %v, %v", key, all[key].DType, got, err)
		}
	}
	if err := mergeLoRA(t.Context(), base, adapter(1, 0), 0.5, name+"2"); err == nil {
		t.Error("an adapter of another shape was merged")
	}
	if _, err := os.Stat(name + "2"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a file is left:", err)
	}
}

// A small tensor takes a step of the alignment.
func Example_saveSmall() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	weights := map[string]*tensor.Tensor{}
	for i := range 100 {
		weights[fmt.Sprint(i)] = tensor.New("", tensor.Shape{4}, []int32{int32(i), 0, 0, 0})
	}
	size := func(save func(name string) error) int64 {
		name := filepath.Join(dir, "weights.zt")
		if err := save(name); err != nil {
			fmt.Println(err)
		}
		fi, err := os.Stat(name)
		if err != nil {
			fmt.Println(err)
			return 0
		}
		return fi.Size() >> 10
	}
	fmt.Println(size(func(name string) error { return ztensor.Save(name, weights) }), "KiB")
	fmt.Println(size(func(name string) error {
		return saveSmall(context.Background(), name, weights)
	}), "KiB")
	// Output:
	// 6472 KiB
	// 412 KiB
}

func Example_loadModel() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	fmt.Println(safetensors.Save(filepath.Join(dir, "model.safetensors"),
		map[string]*tensor.Tensor{
			"up.weight": tensor.New("up.weight", tensor.Shape{2, 2},
				[]tensor.Float8E4M3FN{0x38, 0x40, 0x44, 0xb8}), // 1, 2, 3, -1
			"up.weight_scale_inv": tensor.New("", tensor.Shape{1, 1}, []float32{0.5}),
		}), os.WriteFile(filepath.Join(dir, "config.json"),
		[]byte(`{"quantization_config": {"quant_method": "fp8"}}`), 0o666))
	fmt.Println(loadModel(dir, func(name string, shape tensor.Shape, v []tensor.BFloat16) {
		fmt.Println(name, shape, v[0].Float32(), v[1].Float32(), v[2].Float32(), v[3].Float32())
	}))
	// Output:
	// <nil> <nil>
	// up.weight [2, 2] 0.5 1 1.5 -0.5
	// <nil>
}
