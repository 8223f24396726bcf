package repotest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/model"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/remote"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
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
	if err == nil && len(steps) != 1 {
		err = fmt.Errorf("step has the shape %v", t.Shape)
	}
	if err != nil {
		return 0, err
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
	resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("upload: %s", resp.Status)
	}
	return nil
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

func integers(f *tensorfile.File, name string) ([]int64, error) {
	w := f.Tensor(name)                   // nil if absent
	xs, err := tensor.View[int64](w)      // borrows: valid until f.Close
	if errors.Is(err, tensor.ErrNoView) { // compressed, misaligned, other byte order, not mapped
		xs, err = tensor.Load[int64](w) // copies
	}
	return xs, err
}

func scan(ctx context.Context, upload io.ReaderAt, size int64) error {
	f, err := tensorfile.NewReader(upload, size, &tensorfile.Options{
		Limits: tensor.Limits{MaxTensors: 1e6, MaxMetadata: 100 << 20},
	})
	if err != nil {
		return err // a *tensor.FormatError: format, byte offset, field
	}
	defer f.Close()
	report, err := f.Verify(ctx, nil) // reads everything
	for _, finding := range report.Findings {
		fmt.Println(finding.Class, finding.Offset, finding.Field)
	}
	return err // nil if there are only warnings
}

func rows(ctx context.Context, w *tensor.Tensor) ([]float32, *inspect.Summary, error) {
	// Slice reads nothing yet.
	part, err := tensor.Slice(w, tensor.Range{Start: 10, Stop: 20}, tensor.All)
	if err != nil {
		return nil, nil, err
	}
	xs, err := tensor.Convert[float32](part) // reads ten rows
	if err != nil {
		return nil, nil, err
	}
	opts := &inspect.StatsOptions{Quantiles: []float64{0.01, 0.5, 0.99}}
	stats, err := inspect.Stats(ctx, w, opts)
	return xs, stats, err
}

func changed(ctx context.Context, base, tuned *tensorfile.File) error {
	d, err := inspect.Diff(ctx, base, tuned, &inspect.DiffOptions{Tolerance: 1e-6, Figures: true})
	if err != nil {
		return err
	}
	for _, t := range d.Largest(10) {
		fmt.Println(t.Name, t.Different, t.RMS, t.Cosine)
	}
	return nil
}

func save(name string, src io.Reader) error {
	w, err := ztensor.Create(name, nil)
	if err != nil {
		return err
	}
	defer w.Abort() // does nothing after Close
	if err := w.Add(tensor.New("bias", tensor.Shape{4}, []float32{1, 2, 3, 4})); err != nil {
		return err
	}
	part, err := w.Create("embedding", tensor.F16, tensor.Shape{1024, 64}) // comes piece by piece
	if err != nil {
		return err
	}
	if _, err := io.Copy(part, src); err != nil {
		return err
	}
	if err := part.Close(); err != nil {
		return err
	}
	return w.Close() // the file appears whole, or not at all
}

func toPTD(ctx context.Context, f *tensorfile.File, out string) error {
	opts := &convert.Options{Allow: convert.LossAttributes}
	plan, err := convert.NewPlan(ctx, f, tensorfile.PTD, opts)
	if err != nil {
		return err
	}
	for _, loss := range plan.Losses() {
		fmt.Println(loss) // known before a byte is written
	}
	return plan.WriteFile(ctx, out) // streams, and checks the source's digests on the way
}

func listRemote(ctx context.Context, address string) error {
	r, err := remote.Open(ctx, address, nil) // https, by ranges
	if err != nil {
		return err
	}
	defer r.Close()
	f, err := tensorfile.NewReader(r, r.Size(), nil)
	if err != nil {
		return err
	}
	fmt.Println(f.Format(), f.Len(), r.Stats().Requests) // one or two small requests
	return nil
}

func program(name string) error {
	r, err := pte.Open(name, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	for m := range r.Program().Methods() {
		fmt.Println(m.Name(), m.Inputs(), m.Outputs(), m.Operators())
	}
	return nil
}

func wholeModel(dir string) error {
	m, err := model.Open(dir, nil) // reads names, indexes and headers
	if err != nil {
		return err
	}
	defer m.Close()
	if _, err := m.Whole(); err != nil {
		return err // a shard is missing or truncated, or there is not one model
	}
	f := m.File() // all shards as one file, valid until m.Close
	fmt.Println(f.Len(), f.Summary().Parameters)
	return nil
}

func mergeLoRA(ctx context.Context, base, adapter *tensorfile.File, scale float32,
	name string) error {
	merged := func(yield func(*tensor.Tensor, error) bool) {
		for w := range base.Tensors() {
			stem := "base_model.model." + strings.TrimSuffix(w.Name, ".weight")
			a, b := adapter.Tensor(stem+".lora_A.weight"), adapter.Tensor(stem+".lora_B.weight")
			t, err := w, error(nil)
			if a != nil && b != nil {
				t, err = addProduct(w, a, b, scale)
			}
			if !yield(t, err) {
				return
			}
		}
	}
	return safetensors.WriteFile(ctx, name, merged, nil)
}

func addProduct(w, a, b *tensor.Tensor, scale float32) (*tensor.Tensor, error) {
	if len(w.Shape) != 2 || len(a.Shape) != 2 || !w.Order.RowMajor() ||
		!b.Shape.Equal(tensor.Shape{w.Shape[0], a.Shape[0]}) || a.Shape[1] != w.Shape[1] {
		return nil, fmt.Errorf("%s: %v and %v·%v", w.Name, w.Shape, b.Shape, a.Shape)
	}
	n, _ := w.Shape.Elements()
	sum := &tensor.Tensor{Name: w.Name, Shape: w.Shape, DType: tensor.F32}
	sum.Data = tensor.BlobFunc(4*n, func() (io.ReadCloser, error) { // when it is read
		r, pw := io.Pipe()
		go func() { pw.CloseWithError(writeSum(pw, w, a, b, scale)) }()
		return r, nil
	})
	return tensor.As(sum, w.DType) // in the dtype of w, also when it is read
}

func writeSum(dst io.Writer, w, a, b *tensor.Tensor, scale float32) error {
	as, err := tensor.Convert[float32](a) // [rank, columns]
	if err != nil {
		return err
	}
	bs, err := tensor.Convert[float32](b) // [rows, rank]
	if err != nil {
		return err
	}
	rank, columns := int(a.Shape[0]), int(a.Shape[1])
	at, piece := 0, []byte(nil)
	for values, err := range tensor.Values[float32](w) { // in pieces
		if err != nil {
			return err
		}
		piece = piece[:0]
		for _, v := range values {
			row, column := at/columns, at%columns
			for k := range rank {
				v += scale * bs[row*rank+k] * as[k*columns+column]
			}
			piece = binary.LittleEndian.AppendUint32(piece, math.Float32bits(v))
			at++
		}
		if _, err := dst.Write(piece); err != nil {
			return err // the reader was closed
		}
	}
	return nil
}

func saveSmall(ctx context.Context, name string, weights map[string]*tensor.Tensor) error {
	opts := &ztensor.WriterOptions{Alignment: 4096} // not in canonical form
	return ztensor.WriteFile(ctx, name, tensor.Sorted(weights), opts)
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
