package quant

import (
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tensorfile/tensorfile/tensor"
)

const (
	// maxAhead bounds the bytes of a tensor that is read before it is needed, and
	// maxAheadTotal the bytes of all of them.
	maxAhead, maxAheadTotal = 64 << 10, 16 << 20
	// aheadReads is how many are read at the same time: they wait for a server, not for a
	// core.
	aheadReads = 16
)

// readAhead reads the tensors that shapes and layouts depend on, several at once: if the
// file is on a server, each costs a request.
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
	for range min(len(all), aheadReads) {
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

// inMemory returns a blob in memory. If reading it fails, so does reading the result.
func inMemory(b tensor.Blob) tensor.Blob {
	p, err := b.ReadAll()
	if err != nil {
		return tensor.BlobFunc(b.Size(), func() (io.ReadCloser, error) { return nil, err })
	}
	return tensor.BlobOf(p)
}

// loaded returns t, in memory if it was read ahead.
func (f *finder) loaded(t *tensor.Tensor) *tensor.Tensor {
	if b, ok := f.ahead[t]; ok {
		c := *t
		c.Data = b
		return &c
	}
	return t
}
