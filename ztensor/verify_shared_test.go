package ztensor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// readsOf counts the reads that begin within the data.
type readsOf struct {
	*bytes.Reader
	reads atomic.Int64
}

func (r *readsOf) ReadAt(p []byte, off int64) (int, error) {
	if off == 64 {
		r.reads.Add(1)
	}
	return r.Reader.ReadAt(p, off)
}

func TestVerifyDecodesASharedPayloadOnce(t *testing.T) {
	for _, version := range []string{"1.0", "1.2"} {
		data := sharing(t, version, 2000, 1<<20, "")
		src := &readsOf{Reader: bytes.NewReader(data)}
		r, err := NewReader(src, int64(len(data)),
			&ReaderOptions{Limits: tensor.Limits{MaxDecodedTotal: 2 << 20}})
		if err != nil {
			t.Fatal(err)
		}
		src.reads.Store(0)
		if _, err := r.Verify(context.Background(), nil); err != nil {
			t.Errorf("%s: %v", version, err)
		}
		if n := src.reads.Load(); n > 4 {
			t.Errorf("%s: the payload was read %d times", version, n)
		}
	}
}

func TestVerifyNamesEachTensorOfASharedPayload(t *testing.T) {
	data := sharing(t, "1.2", 3, 1000, "crc32c:0x00000000")
	r, err := OpenBytes(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	report, err := r.Verify(context.Background(), nil)
	if !errors.Is(err, tensor.ErrChecksum) {
		t.Fatal(err)
	}
	var fields []string
	for _, f := range report.Findings {
		fields = append(fields, f.Field)
	}
	want := []string{`objects["t000000"].components["data"].digest`,
		`objects["t000001"].components["data"].digest`,
		`objects["t000002"].components["data"].digest`}
	if !slices.Equal(fields, want) {
		t.Errorf("%q, not %q", fields, want)
	}
}

func TestVerifyStopsAtTheLimitOfDecodedBytes(t *testing.T) {
	for _, version := range []string{"1.0", "1.2"} {
		// Different digests: nothing can be shared.
		data := sharing(t, version, 1, 1<<20, "")
		r, err := OpenBytes(data,
			&ReaderOptions{Limits: tensor.Limits{MaxDecodedTotal: 1<<20 - 1}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Verify(context.Background(), nil); !errors.Is(err, tensor.ErrLimit) {
			t.Errorf("%s: %v", version, err)
		}
		if _, err := r.Verify(context.Background(),
			&tensor.VerifyOptions{Depth: tensor.VerifyStructure}); err != nil {
			t.Errorf("%s: structure alone: %v", version, err)
		}
	}
}

// An error has its name without a search: the work is in proportion to the
// findings, which the number of names looked at shows.
func TestPayloadsKnowTheirTensor(t *testing.T) {
	for _, version := range []string{"1.0", "2"} {
		data := manyTensors(t, 1000, &WriterOptions{Version: version})
		r, err := OpenBytes(data, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := 0, len(r.f.Tensors); i < x; i++ {
			ten := r.f.Tensors[i]
			p, _ := core.PayloadOf(ten.Data)
			err := p.ReadError(io.ErrUnexpectedEOF)
			if f := tensor.FindingOf(err); !strings.Contains(f.Field, naming.Quote(ten.Name)) {
				t.Fatalf("%s: %v is not of %s", version, err, ten.Name)
			}
		}
	}
}
