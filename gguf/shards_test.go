package gguf

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func openAll(t *testing.T, names []string) (all []*Reader) {
	t.Helper()
	for _, name := range names {
		r, err := Open(name, &ReaderOptions{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		all = append(all, r)
	}
	return all
}

func TestWriteShardsKeepsToItsLimits(t *testing.T) {
	r := small(t)
	stale := append(metadataOf(r), entryOf(splitCount, uint16(9)), entryOf(splitNo, uint16(3)),
		entryOf(splitTensors, int32(1)))
	for _, c := range []struct {
		o     ShardOptions
		files int
	}{
		{ShardOptions{}, 1}, {ShardOptions{MaxTensors: 1}, 3}, {ShardOptions{MaxTensors: 2},
			2}, {ShardOptions{MaxSize: 1}, 3},
		{ShardOptions{MaxSize: 112}, 2}, {ShardOptions{MaxSize: 111},
			2}, {ShardOptions{MaxSize: 1 << 40}, 1},
	} {
		dir := t.TempDir()
		c.o.Writer = &WriterOptions{Metadata: stale}
		names, err := WriteShards(t.Context(), filepath.Join(dir, "m.gguf"),
			tensor.Each(r.Tensors()), &c.o)
		if err != nil || len(names) != c.files {
			t.Fatalf("%+v: %q, %v", c.o, names, err)
		}
		all := openAll(t, names)
		for i, s := range all {
			if want := ShardName(filepath.Join(dir, "m"), i, c.files); names[i] != want {
				t.Errorf("%s, not %s", names[i], want)
			}
			for key, want := range map[string]any{splitNo: uint16(i),
				splitCount: uint16(c.files), splitTensors: int32(3), alignmentKey: uint32(16)} {
				if v, _ := s.Value(key); v.Any(0) != want {
					t.Errorf("shard %d: %s is %v", i, key, v)
				}
			}
			if _, ok := s.Value("general.name"); ok != (i == 0) {
				t.Errorf("shard %d: metadata of the model: %v", i, ok)
			}
		}
		if c.files == 1 {
			continue
		}
		slices.Reverse(all)
		metadata, ts, err := Merge(all...)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		w := NewWriter(&out, &WriterOptions{Metadata: metadata})
		if err := errors.Join(w.AddAll(t.Context(), ts), w.Close()); err != nil {
			t.Fatal(err)
		}
		if want := rewritten(t, r,
			&WriterOptions{Metadata: metadataOf(r)}); !bytes.Equal(out.Bytes(), want) {
			t.Errorf("%+v: split and merged, the file has other bytes", c.o)
		}
		c.o.NoReplace = true
		if _, err := WriteShards(t.Context(), filepath.Join(dir, "m.gguf"),
			tensor.Each(r.Tensors()), &c.o); !errors.Is(err, fs.ErrExist) {
			t.Errorf("NoReplace: %v", err)
		}
	}
}

func TestWriteShardsRefusesBeforeItWrites(t *testing.T) {
	dir := t.TempDir()
	x := tensor.New("x", tensor.Shape{1}, []int8{1})
	for name, c := range map[string]struct {
		o    ShardOptions
		ts   []*tensor.Tensor
		want error
	}{
		"a duplicate name": {ShardOptions{MaxTensors: 1}, []*tensor.Tensor{x, x},
			tensor.ErrDuplicate},
		"a bool": {ShardOptions{}, []*tensor.Tensor{tensor.New("b", tensor.Shape{1},
			[]bool{true})}, errors.ErrUnsupported},
		"a size below 0": {ShardOptions{MaxSize: -1}, nil, nil},
		"an ID that is bytes": {ShardOptions{ID: "\xff"}, []*tensor.Tensor{x},
			errors.ErrUnsupported},
	} {
		if names, err := WriteShards(t.Context(), filepath.Join(dir, "m.gguf"),
			tensor.Of(c.ts...), &c.o); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %q, %v", name, names, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// An ID is in every shard and not in what they are together; shards of two IDs are not
// merged.
func TestMergeRefusesShardsOfTwoIDs(t *testing.T) {
	shards := map[string][]*Reader{}
	for _, id := range []string{"step 1", "step 2"} {
		files, err := WriteShards(t.Context(), filepath.Join(t.TempDir(), "m.gguf"),
			tensor.Of(tensor.New("a", tensor.Shape{1}, []int8{1}),
				tensor.New("b", tensor.Shape{1}, []int8{2})), &ShardOptions{MaxTensors: 1, ID: id})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			r, err := Open(name, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if r.SetID() != id {
				t.Errorf("%s has ID %q", name, r.SetID())
			}
			shards[id] = append(shards[id], r)
		}
		metadata, _, err := Merge(shards[id]...)
		if err != nil || len(metadata) > 0 {
			t.Errorf("%v, %v", metadata, err)
		}
	}
	_, _, err := Merge(shards["step 1"][0], shards["step 2"][1])
	if !errors.Is(err, tensor.ErrMalformed) {
		t.Errorf("of two sets: %v", err)
	}
}

func TestMergeRefusesWrongShards(t *testing.T) {
	shard := func(name string, metadata ...KeyValue) *Reader {
		var out bytes.Buffer
		w := NewWriter(&out, &WriterOptions{Metadata: metadata})
		if err := errors.Join(w.Add(tensor.New(name, tensor.Shape{1}, []int8{1})),
			w.Close()); err != nil {
			t.Fatal(err)
		}
		r, err := OpenBytes(out.Bytes(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	keys := func(no, count uint16, tensors int32) []KeyValue {
		return []KeyValue{entryOf(splitNo, no), entryOf(splitCount, count), entryOf(splitTensors,
			tensors)}
	}
	for name, c := range map[string]struct {
		shards []*Reader
		key    string // that is wrong, or what the message says instead
	}{
		"one of two": {[]*Reader{shard("a", keys(0, 2, 2)...)}, splitCount},
		"three of two": {[]*Reader{shard("a", keys(0, 2, 2)...), shard("b", keys(1, 2,
			2)...), shard("c", keys(1, 2, 2)...)}, splitCount},
		"not a shard":      {[]*Reader{shard("a"), shard("b")}, splitCount},
		"a count of 1":     {[]*Reader{shard("a", keys(0, 1, 1)...)}, splitCount},
		"a count of 65535": {[]*Reader{shard("a", keys(0, 65535, 1)...)}, splitCount},
		"a count in 32 bits": {[]*Reader{shard("a", entryOf(splitNo, uint16(0)),
			entryOf(splitCount, uint32(1)))}, splitCount},
		"the same number": {[]*Reader{shard("a", keys(0, 2, 2)...), shard("b", keys(0, 2,
			2)...)}, splitNo},
		"a number beyond": {[]*Reader{shard("a", keys(0, 2, 2)...), shard("b", keys(2, 2,
			2)...)}, splitNo},
		"other totals": {[]*Reader{shard("a", keys(0, 2, 2)...), shard("b", keys(1, 2,
			3)...)}, splitTensors},
		"no totals": {[]*Reader{shard("a", keys(0, 2, 2)[:2]...), shard("b", keys(1, 2,
			2)...)}, splitTensors},
		"a name twice": {[]*Reader{shard("a", keys(0, 2, 2)...), shard("a", keys(1, 2,
			2)...)}, "two shards"},
		"none": {nil, splitCount},
	} {
		_, _, err := Merge(c.shards...)
		if !errors.Is(err, tensor.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		} else if !strings.Contains(err.Error(), c.key) {
			t.Errorf("%s: the message does not name %s: %v", name, c.key, err)
		}
	}
}
