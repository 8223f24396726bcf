package format

import (
	"cmp"
	"context"
	"io/fs"
	"iter"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Division says how tensors are divided among the files of a set.
type Division struct {
	Format     Errors
	MaxSize    int64 // bytes of data of a file; 0: any
	MaxTensors int   // of a file; 0: any
	// Check refuses a tensor that no file can have: the method of a Writer.
	Check func(t *tensor.Tensor) error
	// Size returns how many bytes a tensor takes in a file; nil for the bytes of its
	// data.
	Size func(t *tensor.Tensor) int64
}

// Divide returns the tensors of each file, in the order of ts. There is at least one
// file. A tensor that is larger than MaxSize gets a file of its own. Divide fails as Add
// of a Writer does, with the error of ts, and when ctx ends.
func (d *Division) Divide(ctx context.Context,
	ts iter.Seq2[*tensor.Tensor, error]) ([][]*tensor.Tensor, error) {
	if d.MaxSize < 0 || d.MaxTensors < 0 {
		return nil, d.Format.New(fs.ErrInvalid, "ShardOptions: MaxSize is %d, MaxTensors is %d",
			d.MaxSize, d.MaxTensors)
	}
	files, used := make([][]*tensor.Tensor, 1), int64(0)
	names := map[string]struct{}{}
	var sums Checksums
	for t, err := range ts {
		if err = cmp.Or(err, context.Cause(ctx)); err != nil {
			return nil, err
		}
		if err := d.Check(t); err != nil {
			return nil, err
		}
		size := t.Size()
		if d.Size != nil {
			size = d.Size(t)
		}
		if _, taken := names[t.Name]; taken {
			return nil, d.Format.Tensor(t.Name, tensor.ErrDuplicate,
				"a second tensor of that name")
		}
		names[t.Name] = struct{}{}
		last := len(files) - 1
		if n := len(files[last]); n > 0 && (n == d.MaxTensors ||
			d.MaxSize > 0 && (used > d.MaxSize || size > d.MaxSize-used)) {
			files, used = append(files, nil), 0
			last++
		}
		var ok bool
		if used, ok = align.Add(used, size); !ok {
			return nil, d.Format.Tensor(t.Name, tensor.ErrLimit, "data beyond 2^63 bytes")
		}
		sums.AddTensor(t)
		files[last] = append(files[last], t)
	}
	return files, d.Format.Wrap(-1, "", sums.Check())
}
