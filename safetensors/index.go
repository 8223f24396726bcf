package safetensors

import (
	"bytes"
	"io"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/jsonheader"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	weightMap = "weight_map"
	totalSize = "total_size"
)

// detectIndex reports whether a file begins as a JSON object does, and has the key
// weight_map in its first 64 KiB.
func detectIndex(r io.ReaderAt, size int64) bool {
	b := make([]byte, min(size, 64<<10))
	if n, _ := r.ReadAt(b, 0); n < len(b) || n < 2 {
		return false
	}
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && b[0] == '{' && bytes.Contains(b, []byte(`"`+weightMap+`"`))
}

// An Index says which file of a sharded model has which tensor, as
// model.safetensors.index.json does:
//
//	{"metadata": {…}, "weight_map": {name: file, …}}
type Index struct {
	weights   [][2]string   // tensor, file
	table     *naming.Table // finds a tensor in weights
	metadata  [][2]string
	hasMeta   bool
	totalSize string // JSON text
}

// ParseIndex reads an index. Zero limits are the defaults. The names of files in it are
// not checked: see [CheckShardName].
func ParseIndex(b []byte, limits tensor.Limits) (*Index, error) {
	limits, err := format.CompleteLimits(limits)
	if err != nil {
		return nil, err
	}
	x := &Index{}
	s := jsonheader.NewScanner(string(errs), "index", b, 0)
	first, hasWeights := true, false
	failIf := func(isDuplicate bool, key string) {
		if isDuplicate {
			s.Fail(s.Pos(), key, "a duplicate key")
		}
	}
	s.Expect('{')
	for s.Next(&first, '}') {
		key := string(s.Str())
		s.Expect(':')
		switch {
		case s.Err() != nil:
		case key == weightMap:
			failIf(hasWeights, key)
			hasWeights = true
			x.scanWeights(s, limits)
		case key == "metadata" && s.Peek() == '{':
			failIf(x.hasMeta, key)
			x.hasMeta = true
			x.scanMetadata(s, limits)
		default:
			s.Skip(limits.MaxDepth)
		}
	}
	if s.End(); !hasWeights {
		s.Fail(s.Pos(), weightMap, "it is missing")
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	var dup int
	if x.table, dup = naming.Build(len(x.weights),
		func(i int) string { return x.weights[i][0] }); dup >= 0 {
		return nil, errs.Malformed(-1, weightMap, "%s is a duplicate name",
			naming.Quote(x.weights[dup][0]))
	}
	return x, nil
}

// CheckShardName fails with tensor.ErrMalformed unless name is the path of a file below
// the directory of its index: not empty, relative, without "..", and without a backslash
// or a colon, which are separators on some systems.
func CheckShardName(name string) error {
	if name == "" || name == "." || name[0] == '/' || name[len(name)-1] == '/' ||
		strings.ContainsAny(name, "\\:\x00") ||
		slices.Contains(strings.Split(name, "/"), "..") {
		return errs.Malformed(-1, weightMap, "%s is not a path below the directory",
			naming.Quote(name))
	}
	return nil
}

func (x *Index) scanWeights(s *jsonheader.Scanner, limits tensor.Limits) {
	s.Expect('{')
	for first := true; s.Next(&first, '}'); {
		name := string(s.Str())
		s.Expect(':')
		x.weights = append(x.weights, [2]string{name, cleanName(string(s.Str()))})
		if int64(len(x.weights)) > limits.MaxTensors {
			s.Exceed(s.Pos(), weightMap, "more than %d tensors", limits.MaxTensors)
		}
	}
}

// cleanName removes "./" and "//" from a path, so that a file has one name only. A path
// with ".." stays as it is, for CheckShardName to refuse.
func cleanName(file string) string {
	dots := strings.HasPrefix(file, "./") || strings.Contains(file, "/./")
	if (dots || strings.Contains(file, "//")) && !strings.Contains(file, "..") {
		return path.Clean(file)
	}
	return file
}

// scanMetadata reads the object "metadata". Values that are not strings become their JSON
// text.
func (x *Index) scanMetadata(s *jsonheader.Scanner, limits tensor.Limits) {
	s.Expect('{')
	for first := true; s.Next(&first, '}'); {
		name := string(s.Str())
		s.Expect(':')
		c, from := s.Peek(), s.Pos()
		if s.Err() == nil && c == '"' {
			x.metadata = append(x.metadata, [2]string{name, string(s.Str())})
			if name == totalSize {
				x.totalSize = string(s.Text(from))
			}
			continue
		}
		s.Skip(limits.MaxDepth)
		if s.Err() == nil {
			x.metadata = append(x.metadata, [2]string{name, string(s.Text(from))})
		}
		if name == totalSize {
			x.totalSize = string(s.Text(from))
		}
	}
}

// HasMetadata reports whether the index has an object "metadata", which transformers
// requires.
func (x *Index) HasMetadata() bool { return x.hasMeta }

// TotalSize returns metadata.total_size, by custom the bytes of all tensors; -1 if there
// is none. It fails with tensor.ErrMalformed if the value is not a number of bytes.
func (x *Index) TotalSize() (int64, error) {
	if x.totalSize == "" {
		return -1, nil
	}
	n, err := strconv.ParseInt(x.totalSize, 10, 64)
	if err != nil { // a float, as some programs write it
		f, err := strconv.ParseFloat(x.totalSize, 64)
		if n = int64(f); err != nil || f < 0 || f >= 1<<63 || float64(n) != f {
			n = -1
		}
	}
	if n < 0 {
		return -1, errs.Malformed(-1, "metadata."+totalSize, "%s is not a number of bytes",
			naming.Quote(x.totalSize))
	}
	return n, nil
}

// Weights yields the names of the tensors, each with the name of its file, in the
// order of the index.
func (x *Index) Weights() iter.Seq2[string, string] { return pairs(x.weights) }

// Metadata yields the keys and values of "metadata"; values that are not strings are JSON
// text.
func (x *Index) Metadata() iter.Seq2[string, string] { return pairs(x.metadata) }

func pairs(list [][2]string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, p := range list {
			if !yield(p[0], p[1]) {
				return
			}
		}
	}
}

// Files lists every file once, sorted.
func (x *Index) Files() []string {
	all := make([]string, len(x.weights))
	for i, w := range x.weights {
		all[i] = w[1]
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// isIndex reports whether a file that begins with head is an index. Other files begin
// with the size of the header: its last byte is 0, which is not in JSON text.
func isIndex(head []byte, r io.ReaderAt, size int64) bool {
	return len(head) > 1 && (len(head) < jsonheader.Start || head[jsonheader.Start-1] != 0) &&
		(head[0] == '{' || detectIndex(r, size))
}

// readIndex reads an index, opens its shards and compares them with it.
func (r *Reader) readIndex(in *format.Input) error {
	limits := in.Options.Limits
	if in.Size() > min(jsonheader.Max, limits.MaxMetadata) {
		return errs.Limit(0, "index", "%d bytes", in.Size())
	}
	b, err := in.Metadata(0, in.Size())
	if err != nil {
		return errs.Wrap(0, "index", err)
	}
	x, err := ParseIndex(b, limits)
	if err != nil {
		return err
	}
	r.metadata, r.files, r.setID = x.metadata, x.Files(), setID(x.metadata)
	for _, name := range r.files {
		if err := CheckShardName(name); err != nil {
			return err
		}
	}
	for _, name := range r.files {
		if err := r.addShard(name, in); err != nil {
			return err
		}
	}
	for _, m := range x.Compare(r.eachShard()) {
		err := errs.Malformed(-1, weightMap, "%v", m)
		if m.Kind == TensorUnindexed { // Python's loaders read this tensor
			format.Warn(&r.Base, err)
			continue
		}
		return err
	}
	if pending := in.Unfinished(); pending != nil {
		format.Warn(&r.Base, errs.Wrap(-1, weightMap, pending))
	}
	r.mergeMetadata()
	return nil
}

// addShard opens a shard, and adds its tensors and warnings. Without an ID of the set in
// the index, the ID of the first shard is the ID of the set.
func (r *Reader) addShard(name string, in *format.Input) error {
	src, size, err := in.Companion(name)
	if err != nil {
		return errs.InFile(name, err)
	}
	if c, ok := src.(io.Closer); ok {
		r.closers = append(r.closers, c)
	}
	if !detectFile(src, size) {
		return errs.InFile(name, errs.Malformed(0, "header", "not a safetensors file"))
	}
	o := in.Options
	shard, err := NewReader(src, size, &o)
	if err != nil {
		return errs.InFile(name, err)
	}
	r.shards = append(r.shards, shard)
	if _, ok := get(r.metadata, setKey); !ok && len(r.shards) == 1 {
		r.setID = shard.setID
	}
	if shard.setID != r.setID {
		return errs.InFile(name, errs.Malformed(-1, jsonheader.MetadataKey,
			"of the set %s, not of %s: files of two models are mixed", naming.Quote(shard.setID),
			naming.Quote(r.setID)))
	}
	for i := range shard.tensors { // Blob.Stored reports the file
		shard.tensors[i].Data.Source().(*jsonheader.Extent).Shard = name
	}
	for _, w := range shard.Warnings() {
		format.Warn(&r.Base, errs.InFile(name, w))
	}
	r.tensors = append(r.tensors, shard.tensors...)
	return nil
}

// eachShard yields the names and tensors of the shards.
func (r *Reader) eachShard() iter.Seq2[string, iter.Seq[*tensor.Tensor]] {
	return func(yield func(string, iter.Seq[*tensor.Tensor]) bool) {
		for i, shard := range r.shards {
			if !yield(r.files[i], shard.Tensors()) {
				return
			}
		}
	}
}

// mergeMetadata adds the keys of the shards that the index does not have. If several
// shards have a key, the value of the first counts.
func (r *Reader) mergeMetadata() {
	known := map[string]bool{}
	for _, kv := range r.metadata {
		known[kv[0]] = true
	}
	for _, shard := range r.shards {
		for _, kv := range shard.metadata {
			if !known[kv[0]] {
				known[kv[0]] = true
				r.metadata = append(r.metadata, kv)
			}
		}
	}
}

// SetID returns the ShardOptions.ID that the file was written with, "" for none. Shards
// of one model have the same.
func (r *Reader) SetID() string { return r.setID }

// SetID returns the ShardOptions.ID that the index was written with, if it was.
func (x *Index) SetID() (id string, ok bool) { return get(x.metadata, setKey) }

// setID returns the ShardOptions.ID in the metadata of a shard or an index, "" for none.
func setID(metadata [][2]string) string {
	id, _ := get(metadata, setKey)
	return id
}

// get returns the value of the first entry of that key.
func get(metadata [][2]string, key string) (string, bool) {
	for _, kv := range metadata {
		if kv[0] == key {
			return kv[1], true
		}
	}
	return "", false
}
