package repotest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime/metrics"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// Any damage to a file: no panic, not a second of time, and no memory but what
// the bytes of the file ask for.
func TestMutantsAreReadOrRefused(t *testing.T) {
	names, files := readtest.Files(t, "testdata", func(b []byte) bool {
		_, err := tensorfile.Detect(bytes.NewReader(b), int64(len(b)))
		return err == nil
	})
	readtest.Mutants(t, names, files, 10_000, func(n, _ int, b []byte) error {
		opts := &tensorfile.Options{Strict: n%8 == 0}
		var f *tensorfile.File
		var err error
		open := func() {
			if f, err = tensorfile.OpenBytes(b, opts); err == nil {
				for x := range f.Tensors() {
					x.Shape.Elements()
				}
			}
		}
		// First what is cheap to count, and then, if that may be too much, what counts.
		limit := 1<<20 + 16*int64(len(b))
		before := allocated()
		if open(); allocated()-before > limit {
			if peak := readtest.PeakHeap(open); peak > limit {
				t.Errorf("a file of %d bytes took %d to open", len(b), peak)
			}
		}
		if err != nil {
			return err
		}
		defer f.Close()
		if w := f.Warnings(); opts.Strict && len(w) > 0 {
			t.Errorf("strict opens a file of warnings: %v", w[0])
		}
		at := int64(0)
		for s := range f.Spans() {
			if s.Offset != at || s.Size <= 0 {
				t.Errorf("a span, %+v, after byte %d", s, at)
			}
			at += s.Size
		}
		if at != f.Size() {
			t.Errorf("spans cover %d bytes of %d", at, f.Size())
		}
		err = walk(t.Context(), f)
		if n%8 == 1 {
			to := []tensorfile.Format{tensorfile.ZTensor, tensorfile.PTD, tensorfile.NPZ,
				tensorfile.RTen, tensorfile.Safetensors, tensorfile.Primitiv}[n/8%6]
			plan, e := convert.NewPlan(t.Context(), f, to,
				&convert.Options{Allow: convert.LossAll})
			if e == nil {
				e = plan.Write(t.Context(), io.Discard)
			}
			err = errors.Join(err, e)
		}
		return err
	})
}

// allocated is how many bytes were allocated so far; a little of what was small may be
// missing.
func allocated() int64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// walk does with a file what can be done with it.
func walk(ctx context.Context, f *tensorfile.File) error {
	f.Summary()
	var errs []error
	for x := range f.Tensors() {
		f.Tensor(x.Name)
		errs = append(errs, read(x.Data))
		for i := range x.Parts {
			errs = append(errs, read(x.Parts[i].Data))
		}
	}
	for _, b := range f.Blobs() {
		errs = append(errs, read(b))
	}
	for range f.Attributes() {
	}
	f.Warnings()
	_, err := f.Verify(ctx, nil)
	return errors.Join(append(errs, err)...)
}

// read reads the beginning of a blob.
func read(b tensor.Blob) error {
	if b.Size() == 0 {
		return nil
	}
	r, err := b.Open()
	if err != nil {
		return err
	}
	_, err = io.CopyN(io.Discard, r, 1<<16)
	if err == io.EOF {
		err = nil
	}
	return errors.Join(err, r.Close())
}
