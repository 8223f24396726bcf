package torch

import (
	"bytes"
	"encoding/json"
	"io"
	"iter"
	"os"
	"path"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Shard is an open file of safetensors that torch.distributed.checkpoint wrote for one
// process: its tensors are chunks, whose offsets are in the attribute DCP_SHARDING_INFO.
type Shard struct {
	Name       string // of the file
	Tensors    iter.Seq[*tensor.Tensor]
	Attributes iter.Seq2[string, string]
	Spans      iter.Seq[tensor.Span]
	Closer     io.Closer
}

// ShardNames lists the safetensors files of a distributed checkpoint in a directory,
// sorted. It returns nil if there are none, or if they have an index.
func ShardNames(dir string) (names []string) {
	if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
		return nil
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if ok, _ := path.Match("shard-*-model-*-of-*.safetensors", e.Name()); ok {
			names = append(names, e.Name())
		} else if e.Name() == "model.safetensors.index.json" {
			return nil
		}
	}
	return names
}

// FromShards returns a Reader of the tensors whose chunks are in the shards. The Reader
// closes the shards; FromShards does if it fails. It fails with tensor.ErrMalformed if
// chunks are missing, but not for chunks at the end of a dimension: no file has the shape
// of a whole tensor.
func FromShards(shards []Shard) (*Reader, error) {
	in, err := format.NewInput(bytes.NewReader(nil), 0, nil)
	if err != nil {
		return nil, err
	}
	r := newReader(in)
	r.version = "dcp"
	for _, s := range shards {
		r.closers = append(r.closers, s.Closer)
		r.shards = append(r.shards, shardSpans{s.Name, s.Spans})
	}
	if err := r.join(shards); err != nil {
		r.closeParts()
		return nil, err
	}
	format.SetList(&r.Base, r.tensors)
	return r, nil
}

func (r *Reader) join(shards []Shard) error {
	var order []*chunked
	byName := map[string]*chunked{}
	for _, s := range shards {
		offsets, err := s.offsets()
		if err != nil {
			return err
		}
		for t := range s.Tensors {
			at, ok := offsets[t.Name]
			if !ok || len(at) != len(t.Shape) || !t.Dense() || t.DType.Size() == 0 {
				return shardError(s.Name, t.Name, "no offsets for a chunk of %v", t.Shape)
			}
			whole := byName[t.Name]
			if whole == nil {
				whole = &chunked{name: t.Name, shape: make(tensor.Shape, len(t.Shape)),
					dtype: dtype{d: t.DType, name: t.DType.String(), size: int64(t.DType.Size()),
						packed: 1}}
				byName[t.Name] = whole
				order = append(order, whole)
			}
			if whole.dtype.d != t.DType || len(whole.shape) != len(at) {
				return shardError(s.Name, t.Name, "%v of %v, and %v of %d dimensions elsewhere",
					t.Shape, t.DType, whole.dtype.name, len(whole.shape))
			}
			for i, n := range t.Shape {
				if at[i] < 0 || at[i] > 1<<62-n {
					return shardError(s.Name, t.Name, "a chunk at %v", at)
				}
				whole.shape[i] = max(whole.shape[i], at[i]+n)
			}
			whole.chunks = append(whole.chunks,
				chunk{at, t.Shape, tensor.NewBlob(&inShard{t.Data, s.Name})})
		}
	}
	for _, whole := range order {
		if !countable(whole.shape) {
			return shardError("", whole.name, "chunks of %v", whole.shape)
		}
		t, err := whole.tensor()
		if err != nil {
			return err
		}
		r.tensors = append(r.tensors, t)
	}
	return nil
}

func shardError(file, name, text string, args ...any) error {
	err := errs.At(-1, printable(name), tensor.ErrMalformed, text, args...)
	if file != "" {
		err = errs.InFile(file, err)
	}
	return err
}

// offsets returns the offsets of the chunks in their tensors.
func (s *Shard) offsets() (map[string][]int64, error) {
	var info map[string]struct {
		Offsets []int64 `json:"saved_offsets"`
	}
	for k, v := range s.Attributes {
		if k != "DCP_SHARDING_INFO" {
			continue
		}
		if err := json.Unmarshal([]byte(v), &info); err != nil {
			return nil, shardError(s.Name, k, "%s is not JSON of offsets", naming.Quote(v))
		}
	}
	offsets := make(map[string][]int64, len(info))
	for name, i := range info {
		offsets[name] = i.Offsets
	}
	return offsets, nil
}

// An inShard is data of a shard: Stored has the name of the file.
type inShard struct {
	tensor.Blob
	file string
}

func (s *inShard) Stored() (tensor.Stored, bool) {
	st, _ := s.Blob.Stored()
	st.File = s.file
	return st, true
}
