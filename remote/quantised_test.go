package remote

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/convert"
	models "github.com/tensorfile/tensorfile/model"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

// quantised reads a model that a reference package quantised, with other files.
func quantised(t *testing.T, name string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{"tokenizer.json": []byte("{}")}
	for _, ext := range [][2]string{{".safetensors", "model.safetensors"},
		{".json", "config.json"}} {
		b, err := os.ReadFile("../testdata/quant/" + name + ext[0])
		if err != nil {
			t.Fatal(err)
		}
		files[ext[1]] = b
	}
	return files
}

// numbers converts a model to the numbers of its weights.
func numbers(t *testing.T, f *tensorfile.File, cfg *quant.Config) []byte {
	t.Helper()
	p, err := convert.NewPlan(t.Context(), f, tensorfile.Safetensors,
		&convert.Options{Dequantize: tensor.BF16, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.Write(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A quantised model has the same numbers on the Hub, on a server and on this machine.
func TestQuantisedModelsAreDequantisedFromAnywhere(t *testing.T) {
	for _, name := range []string{"fp8-block-ragged", "ct-int4-asymmetric", "ct-nvfp4",
		"gptq-4-act", "awq", "mlx-affine-4", "bnb-nf4-nested", "gpt-oss"} {
		files := quantised(t, name)
		onDisk := fstest.MapFS{}
		for name, b := range files {
			onDisk[name] = &fstest.MapFile{Data: b}
		}
		local, err := models.OpenFS(onDisk, ".", nil)
		if err != nil {
			t.Fatal(err)
		}
		want := numbers(t, local.File(), local.Quantization())
		if as, err := tensorfile.OpenBytes(want, nil); err != nil || as.Len() == 0 {
			t.Fatal(err)
		}
		local.Close()

		s := newStandIn(t, files)
		repository, err := OpenRepository(t.Context(), "hf://acme/tiny", s.options())
		if err != nil {
			t.Fatal(err)
		}
		hub, err := models.OpenFS(repository, ".", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := numbers(t, hub.File(), hub.Quantization()); !bytes.Equal(got, want) {
			t.Errorf("%s: the Hub's has other bytes", name)
		}
		hub.Close()
		repository.Close()

		server := httptest.NewServer(http.FileServerFS(onDisk))
		r, err := Open(t.Context(), server.URL+"/model.safetensors", nil)
		if err != nil {
			t.Fatal(err)
		}
		f, err := tensorfile.NewReader(r, r.Size(), nil)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := quant.ReadConfig(func(name string) (io.ReadCloser, error) {
			next, size, err := r.Companion(name)
			if err != nil {
				return nil, err
			}
			defer next.(io.Closer).Close()
			b, err := io.ReadAll(io.NewSectionReader(next, 0, size))
			return io.NopCloser(bytes.NewReader(b)), err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := numbers(t, f, cfg); !bytes.Equal(got, want) {
			t.Errorf("%s: the server's has other bytes", name)
		}
		f.Close()
		r.Close()
		server.Close()
	}
}

// The parts that describe the layouts of many weights are read by several requests at
// once.
func TestLayoutsOfManyWeightsAreReadTogether(t *testing.T) {
	const weights = 24
	const state = `{"quant_type": "nf4", "blocksize": 64, "shape": [512, 1024]}`
	var all []*tensor.Tensor
	for i := range weights {
		name := fmt.Sprintf("layers.%02d.w", i)
		all = append(all, tensor.New(name, tensor.Shape{256 << 10, 1}, make([]byte, 256<<10)),
			tensor.New(name+".absmax", tensor.Shape{8 << 10}, make([]float32, 8<<10)),
			tensor.New(name+".quant_map", tensor.Shape{16}, make([]float32, 16)),
			tensor.New(name+".quant_state.bitsandbytes__nf4", tensor.Shape{int64(len(state))},
				[]byte(state)))
	}
	var b bytes.Buffer
	w := safetensors.NewWriter(&b, nil)
	for _, x := range all {
		if err := w.Add(x); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// After the header no answer is sent before eight requests are there.
	var asked atomic.Int64
	opened, arrived := false, make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if opened {
			if asked.Add(1) == 8 {
				close(arrived)
			}
			select {
			case <-arrived:
			case <-r.Context().Done():
			}
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b.Bytes()))
	}))
	defer server.Close()
	r, err := Open(t.Context(), server.URL+"/model.safetensors", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f, err := tensorfile.NewReader(r, r.Size(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	opened = true
	for w := range quant.Weights(f, nil) {
		if w.Scheme != "bnb-nf4" || w.Err != nil {
			t.Errorf("%s is %s: %v", w.Name, w.Scheme, w.Err)
		}
	}
}
