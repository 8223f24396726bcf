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
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/model"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

// The functions up to the mark are the Go code of docs/embedding.md, word for word.

func loadWeights(ctx context.Context, f *tensorfile.File) (map[string][]float32, error) {
	weights := make(map[string][]float32)
	err := f.LoadAll(ctx, func(t *tensor.Tensor) tensor.Dst {
		n, ok := t.Shape.Elements()
		if !ok {
			return tensor.Dst{} // leaves this tensor out
		}
		dst := make([]float32, n) // or memory that the runtime owns
		weights[t.Name] = dst
		return tensor.Into(dst)
	})
	return weights, err
}

func resume(ctx context.Context, name string) (step int64, err error) {
	f, err := tensorfile.Open(name, nil)
	if errors.Is(err, tensor.ErrUnfinished) { // WriteShards was killed: complete its work
		left, failed := tensorfile.Clean(ctx, filepath.Dir(name),
			&tensorfile.CleanOptions{Remove: true})
		for _, l := range left {
			failed = errors.Join(failed, l.Err)
		}
		if failed != nil {
			return 0, failed
		}
		f, err = tensorfile.Open(name, nil)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // no checkpoint yet
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	t, err := f.Lookup("step")
	if err != nil {
		return 0, err // tensor.ErrNoTensor: a file, but of another program
	}
	steps, err := tensor.Convert[int64](t)
	if err != nil || len(steps) != 1 {
		return 0, fmt.Errorf("step: %v, %w", t.Shape, err)
	}
	return steps[0], nil
}

func layerSummary(layer io.Reader, size int64) (tensorfile.Summary, error) {
	r, err := safetensors.ReadHeader(layer, size, nil) // reads no further than the header
	if err != nil {
		return tensorfile.Summary{}, err
	}
	return tensorfile.FromReader(r).Summary(), nil
}

func upload(ctx context.Context, address string, weights map[string]*tensor.Tensor) error {
	body, size, err := safetensors.Stream(tensor.Sorted(weights), nil)
	if err != nil {
		return err
	}
	defer body.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, address, body)
	if err != nil {
		return err
	}
	req.ContentLength = size
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func section(f *tensorfile.File, name string) (*io.SectionReader, error) {
	t, err := f.Lookup(name)
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(t.Data, 0, t.Data.Size()), nil // decoded bytes, read as asked for
}

func httpStatus(err error) int {
	switch tensor.ClassOf(err) {
	case tensor.ClassMalformed, tensor.ClassTruncated, tensor.ClassChecksum:
		return http.StatusUnprocessableEntity
	case tensor.ClassUnsupported:
		return http.StatusUnsupportedMediaType
	case tensor.ClassLimit:
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusInternalServerError
}

func refuseDamaged(ctx context.Context, dir string) error {
	report, err := model.Check(ctx, dir, &model.CheckOptions{Deep: true})
	if report != nil {
		for _, finding := range report.Findings {
			fmt.Println(finding) // all of them, warnings too
		}
	}
	return err // nil: whole
}

func loadModel(dir string, use func(name string, shape tensor.Shape, v []tensor.BFloat16)) error {
	m, err := model.Open(dir, nil)
	if err != nil {
		return err
	}
	defer m.Close()
	for w := range quant.Weights(m.File(), m.Quantization()) {
		v, err := tensor.Convert[tensor.BFloat16](w.Tensor)
		if err != nil {
			return err // such as a scale that is missing
		}
		use(w.Name, w.Tensor.Shape, v)
	}
	return nil
}

// end of docs/embedding.md's code

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
	// Output:
	// 0 <nil>
	// <nil>
	// 7 <nil>
	// true
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
	}))
	defer server.Close()
	weights := map[string]*tensor.Tensor{"w": tensor.New("w", tensor.Shape{2}, []float32{1, 2})}
	fmt.Println(upload(context.Background(), server.URL, weights))
	// Output:
	// PUT true
	// <nil>
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
