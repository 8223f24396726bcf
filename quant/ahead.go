package quant

import (
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tensorfile/tensorfile/tensor"
)

const (
	// maxAhead bounds a tensor that is read before it is needed, and maxAheadTotal all.
	maxAhead, maxAheadTotal = 64 << 10, 16 << 20
	// aheadFlight is how many are read at the same time, whatever the number of cores.
	aheadFlight = 16
)

// readAhead reads the tensors that shapes and layouts depend on, several at once: each
// costs a request where the file is on a server.
func (f *finder) readAhead() {
	var all []*tensor.Tensor
	left := int64(maxAheadTotal)
	for _, t := range f.order {
		if !strings.HasSuffix(t.Name, ".weight_shape") &&
			!strings.HasSuffix(t.Name, ".weight_format") &&
			!strings.HasSuffix(t.Name, marker) && !strings.Contains(t.Name, stateSuffix) ||
			f.get(t.Name) != t {
			continue
		}
		size := t.Data.Size()
		if _, ok := t.Data.Bytes(); !ok && size > 0 && size <= min(left, maxAhead) {
			all, left = append(all, t), left-size
		}
	}
	data := make([]tensor.Blob, len(all))
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(len(all), aheadFlight) {
		running.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(all)); i = next.Add(1) - 1 {
				data[i] = inMemory(all[i].Data)
			}
		})
	}
	running.Wait()
	for i, t := range all {
		f.ahead[t] = data[i]
	}
}

// inMemory reads a blob. The result has the error of reading it, if there is one.
func inMemory(b tensor.Blob) tensor.Blob {
	p, err := b.ReadAll()
	if err != nil {
		return tensor.BlobFunc(b.Size(), func() (io.ReadCloser, error) { return nil, err })
	}
	return tensor.BlobOf(p)
}

// loaded returns t, with the bytes that were read ahead if there are any.
func (f *finder) loaded(t *tensor.Tensor) *tensor.Tensor {
	if b, ok := f.ahead[t]; ok {
		c := *t
		c.Data = b
		return &c
	}
	return t
}
