package quant_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// A slowSource answers when several of its kind are asked.
type slowSource struct {
	tensor.Computed
	b      []byte
	others *sync.WaitGroup
	err    error
	reads  int
}

func (s *slowSource) Size() int64                  { return int64(len(s.b)) }
func (s *slowSource) Seekable() bool               { return true }
func (s *slowSource) ReadInto(p []byte) error      { return tensor.ReadFull(s, p) }
func (s *slowSource) Open() (io.ReadCloser, error) { return tensor.Stream(s), nil }
func (s *slowSource) ReadAt(p []byte, off int64) (int, error) {
	if s.reads++; s.others != nil && s.reads == 1 {
		s.others.Done()
		s.others.Wait()
	}
	if s.err != nil {
		return 0, s.err
	}
	return copy(p, s.b[off:]), nil
}

// The parts that layouts depend on are read at once for all weights, and once each.
func TestLayoutsAreReadTogether(t *testing.T) {
	var others sync.WaitGroup
	var all []*tensor.Tensor
	var sources []*slowSource
	slow := func(x *tensor.Tensor) *tensor.Tensor {
		s := &slowSource{b: bytesOf(x), others: &others}
		others.Add(1)
		sources = append(sources, s)
		x.Data = tensor.NewBlob(s)
		return x
	}
	for i := range 5 {
		name := fmt.Sprint("p", i)
		all = append(all, list(t, name+".weight_packed I32 2 4", name+".weight_scale F32 2 1")...)
		all = append(all, slow(tensor.New(name+".weight_shape", tensor.Shape{2}, []int64{2, 32})))
		name = fmt.Sprint("n", i)
		all = append(all, list(t, name+".weight U8 8 1", name+".weight.absmax F32 1")...)
		all = append(all, tensor.New(name+".weight.quant_map", tensor.Shape{16}, nf4Values),
			slow(text(name+".weight.quant_state.bitsandbytes__nf4",
				`{"quant_type":"nf4","blocksize":64,"shape":[4,4]}`)))
		name = fmt.Sprint("i", i)
		all = append(all, list(t, name+".weight I8 4 4", name+".SCB F32 4")...)
		all = append(all, slow(tensor.New(name+".weight_format", tensor.Shape{}, []uint8{0})))
	}
	set := quant.Find(of(all...), config(t, fmt.Sprintf(ctConfig, "pack-quantized",
		`{"num_bits":4,"type":"int","strategy":"channel"}`)))
	var schemes []string
	for _, w := range set.Weights {
		schemes = append(schemes, w.Scheme)
		if w.Err != nil {
			t.Error(w.Err)
		}
	}
	slices.Sort(schemes)
	if want := strings.Repeat("bnb-int8 ", 5) + strings.Repeat("bnb-nf4 ", 5) +
		strings.Repeat("int4-channel ", 5); strings.Join(schemes, " ")+" " != want {
		t.Error(schemes, set.Findings)
	}
	for _, s := range sources {
		if s.reads != 1 {
			t.Errorf("%d reads", s.reads)
		}
	}
}

// An error of reading what a layout depends on is the error of that weight alone.
func TestLayoutThatCannotBeReadFailsItsWeightAlone(t *testing.T) {
	broken := errors.New("broken")
	var all []*tensor.Tensor
	for i := range 3 {
		name := fmt.Sprint("p", i)
		shape := tensor.New(name+".weight_shape", tensor.Shape{2}, []int64{2, 32})
		s := &slowSource{b: bytesOf(shape)}
		if i == 1 {
			s.err = broken
		}
		shape.Data = tensor.NewBlob(s)
		all = append(all, list(t, name+".weight_packed I32 2 4", name+".weight_scale F32 2 1")...)
		all = append(all, shape)
	}
	set := quant.Find(of(all...), config(t, fmt.Sprintf(ctConfig, "pack-quantized",
		`{"num_bits":4,"type":"int","strategy":"channel"}`)))
	for i, w := range set.Weights {
		if (w.Err != nil) != (i == 1) || i == 1 && !strings.Contains(w.Err.Error(), "broken") {
			t.Errorf("%s: %v", w.Name, w.Err)
		}
	}
	if len(set.Findings) != 1 {
		t.Error(set.Findings)
	}
}
