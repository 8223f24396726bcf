package torch

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// closed counts.
type closed struct{ n *int }

func (c closed) Close() error { *c.n++; return nil }

func TestFromShardsAssemblesChunks(t *testing.T) {
	n := 0
	shard := func(name, info string, ts ...*tensor.Tensor) Shard {
		return Shard{Name: name, Tensors: slices.Values(ts),
			Attributes: maps.All(map[string]string{"DCP_SHARDING_INFO": info}),
			Closer:     io.Closer(closed{&n})}
	}
	x := func(shape ...int64) *tensor.Tensor {
		n, _ := tensor.Shape(shape).Elements()
		return tensor.New("w", shape, []byte(strings.Repeat("x", int(n))))
	}
	at := func(offsets string) string { return `{"w": {"saved_offsets": ` + offsets + `}}` }
	r, err := FromShards([]Shard{shard("a", at("[2,0]"), x(1, 2)), shard("b", at("[0,0]"), x(2,
		2))})
	if err != nil || !r.Tensor("w").Shape.Equal(tensor.Shape{3, 2}) {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil || n != 2 {
		t.Errorf("%d shards closed, %v", n, err)
	}
	wide := tensor.New("w", tensor.Shape{1, 2}, []int16{1, 2})
	for name, shards := range map[string][]Shard{
		"a hole": {shard("a", at("[3,0]"), x(1, 2)), shard("b", at("[0,0]"),
			x(2, 2))},
		"chunks that overlap": {shard("a", at("[1,0]"), x(2, 2)), shard("b", at("[0,0]"),
			x(2, 2))},
		"offsets of another rank": {shard("a", at("[0]"), x(2, 2))},
		"a negative offset":       {shard("a", at("[-1,0]"), x(2, 2))},
		"an offset beyond 2^62":   {shard("a", at("[4611686018427387904,0]"), x(2, 2))},
		"a shape that wraps": {shard("a", at("[4611686018427387902,4611686018427387902]"),
			x(2, 2))},
		"offsets that are no JSON": {shard("a", "{", x(2, 2))},
		"no offsets":               {shard("a", "{}", x(2, 2))},
		"two dtypes": {shard("a", at("[0,0]"), x(2, 2)), shard("b", at("[2,0]"),
			wide)},
	} {
		n = 0
		if _, err := FromShards(shards); !errors.Is(err, tensor.ErrMalformed) ||
			n != len(shards) {
			t.Errorf("%s: %v, %d shards closed", name, err, n)
		}
	}
}
